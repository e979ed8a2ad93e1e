// Arrays on the host and on the device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/cuda.hpp>
#include <mac/random.hpp>
#include <vector>

#include "network/cuda/device.hpp"

namespace mac::test {

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

template <class T>
std::vector<T> normals(std::size_t count, std::uint32_t stream, double scale = 1) {
  RandomStream random(7, Purpose::weights, stream);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(scale * random.normal());
  return values;
}

using cuda::on_device;

template <class T>
std::vector<T> from_device(const cuda::DeviceArray<T>& array, std::size_t count) {
  std::vector<T> values(count);
  array.download(values.data(), count, nullptr);
  cuda::check(cudaStreamSynchronize(nullptr), "testing");
  return values;
}

/// The larger of two numbers; NaN is larger than any.
inline double larger(double a, double b) { return a >= b ? a : std::isnan(b) ? INFINITY : b; }

template <class T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = larger(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace mac::test
