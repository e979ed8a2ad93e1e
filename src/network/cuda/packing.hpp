// In which order the step kernels read a network's parameters: a list of places in the flat parameter array, from
// which weights are packed on the host once, or on the device after every step of an optimiser.
#pragma once

#include <vector>

#include "network/cuda/packed_network.hpp"
#include "network/parameters.hpp"

namespace mac::cuda {

class Packer {
 public:
  enum class As { it_is, decay_rate };  // the latter: A_log as A log₂e

  Packer(Reading reading, const float* first) : reading_(reading), first_(first) {}

  void copy(const float* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(from + i, As::it_is);
  }
  /// from (rows, columns) as (columns, rows).
  void transposed(const float* from, std::size_t rows, std::size_t columns, As as = As::it_is) {
    for (std::size_t k = 0; k < columns; ++k)
      for (std::size_t r = 0; r < rows; ++r) add(from + r * columns + k, as);
  }
  void matrix(const float* from, std::size_t outputs, std::size_t inputs) {
    if (reading_ == Reading::forward)
      transposed(from, outputs, inputs);
    else
      copy(from, outputs * inputs);
  }
  void linear(const LinearParameters<const float>& from, std::size_t outputs, std::size_t inputs) {
    matrix(from.weight, outputs, inputs);
    copy(from.bias, outputs);
  }
  void norm(const NormParameters<const float>& from, std::size_t count) {
    copy(from.weight, count);
    copy(from.bias, count);
  }

  /// Place i of the parameters, or ~i where its decay rate is meant.
  const std::vector<int>& places() const { return places_; }

 private:
  void add(const float* from, As as) {
    const int place = static_cast<int>(from - first_);
    places_.push_back(as == As::it_is ? place : ~place);
  }

  Reading reading_;
  const float* first_;  // of all parameters
  std::vector<int> places_;
};

}  // namespace mac::cuda
