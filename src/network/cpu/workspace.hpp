// Memory of the sequence engine: the kernels of one machine, and zeroed, aligned arrays of whole vectors.
#pragma once

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <vector>

#include "network/cpu/kernels.hpp"

namespace mac::cpu {

template <class T>
struct Kernels {
  std::size_t lanes = kernel_lanes<T>();
  LinearKernels<T> linear = linear_kernels<T>();
  PointwiseKernels<T> pointwise = pointwise_kernels<T>();
};

/// Owns arrays until it goes; their addresses stay.
template <class T>
class Arena {
 public:
  explicit Arena(std::size_t lanes) : lanes_(lanes) {}

  T* numbers(std::size_t count) {
    arrays_.push_back(hwy::AllocateAligned<T>(std::max<std::size_t>(count, 1)));
    std::fill_n(arrays_.back().get(), count, T(0));
    return arrays_.back().get();
  }
  T* vectors(std::size_t count) { return numbers(count * lanes_); }
  Rows<T> rows(std::size_t rows, std::size_t channels) {
    return {vectors(rows * channels), channels * lanes_};
  }

 private:
  std::size_t lanes_;
  std::vector<hwy::AlignedFreeUniquePtr<T[]>> arrays_;
};

}  // namespace mac::cpu
