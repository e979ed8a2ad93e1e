// The map between physical units and those of the network, the one place where its arithmetic stands:
//
//   normal = (value - mean) factor,   value = mean + scale normal,   factor = 1 / scale
//
// A product, for the host and for CUDA kernels, so that all of them round alike.
#pragma once

#include <cstddef>
#include <mac/host_device.hpp>
#include <vector>

namespace mac {

struct Normalisation;  // mac/model.hpp

/// The numbers of n components. A difference or a gradient has no mean: it is multiplied by factor or scale.
struct NormaliserView {
  const double *mean = nullptr, *scale = nullptr, *factor = nullptr;  // (n)

  MAC_HOST_DEVICE double to_network(std::size_t i, double value) const {
    return (value - mean[i]) * factor[i];
  }
  MAC_HOST_DEVICE double to_physical(std::size_t i, double normal) const {
    return mean[i] + scale[i] * normal;
  }
};

class Normaliser {
 public:
  Normaliser(std::vector<double> mean, std::vector<double> scale);

  std::size_t size() const { return mean_.size(); }
  NormaliserView view() const { return {mean_.data(), scale_.data(), factor_.data()}; }
  /// mean, scale, factor, (3, size), as a device takes them.
  std::vector<double> numbers() const;
  static NormaliserView view_of(const double* numbers, std::size_t size) {
    return {numbers, numbers + size, numbers + 2 * size};
  }

  double to_network(std::size_t i, double value) const { return view().to_network(i, value); }
  double to_physical(std::size_t i, double normal) const { return view().to_physical(i, normal); }
  double scale(std::size_t i) const { return scale_[i]; }
  double factor(std::size_t i) const { return factor_[i]; }

 private:
  std::vector<double> mean_, scale_, factor_;
};

/// Of a network's inputs, the resolved variables, and of its outputs, the closure.
struct Normalisers {
  Normaliser input, output;
  explicit Normalisers(const Normalisation& of);
};

}  // namespace mac
