// Equations that came as text, in kernels that are compiled at run time (written_kernel.hpp): what DeviceEquations is in
// the others. The code of mac::written::rates() stands before this.
#pragma once

#include <cstddef>
#include <type_traits>

namespace mac::cuda {

struct DeviceEquations;  // of other kernels

struct OwnEquations {
  static constexpr int variables = written::variables;

  template <class Scalar>
  __device__ void reduced_rhs(std::size_t, const Scalar* y, Scalar* rate) const {
    written::rates(y, rate);
  }
  __device__ const OwnEquations& of(const DeviceEquations*, int) const { return *this; }
  /// f(equations, room), as DeviceEquations: with the number of variables, which is known.
  template <int Any, class F>
  __device__ void visit(int, F f) const {
    f(*this, std::integral_constant<int, variables>());
  }
};

}  // namespace mac::cuda
