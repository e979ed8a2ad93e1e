// A reduced right-hand side as a kernel takes it when it has to choose among those that are compiled with the program.
// Equations that came as text have kernels of their own (written_kernel.hpp).
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <variant>

#include "systems/reduced_equations.hpp"

namespace mac::cuda {

struct DeviceEquations {
  enum class Kind { ring, modes, grid };  // which of the members holds
  Kind kind;
  LorenzRing ring;
  FourierModes modes;
  GridBuses grid;

  explicit DeviceEquations(const ReducedEquations& equations) : DeviceEquations() {
    std::visit([this](const auto& of) { set(of); }, equations.of);
  }

  /// Those of a trajectory: `each` is null where all have these.
  __device__ const DeviceEquations& of(const DeviceEquations* each, int trajectory) const {
    return each ? each[trajectory] : *this;
  }
  /// f(equations, room): `room` is a constant, d where that is the number of variables in the paper, so that they are
  /// in registers, else `Any`.
  template <int Any, class F>
  __device__ void visit(int d, F f) const {
    switch (kind) {
      case Kind::ring:
        return with_room<Any>(ring, d, f);
      case Kind::modes:
        return with_room<Any>(modes, d, f);
      case Kind::grid:
        return with_room<Any>(grid, d, f);
    }
  }

 private:
  DeviceEquations() = default;
  // One for each of ReducedEquations: a new kind without its own does not compile.
  void set(const LorenzRing& of) { kind = Kind::ring, ring = of; }
  void set(const FourierModes& of) { kind = Kind::modes, modes = of; }
  void set(const GridBuses& of) { kind = Kind::grid, grid = of; }
  void set(const WrittenEquations&) {}  // never gets here: has kernels of its own

  template <int Any, class Equations, class F>
  __device__ static void with_room(const Equations& equations, int d, F f) {
    if (d == Equations::variables_of_paper)
      f(equations, std::integral_constant<int, Equations::variables_of_paper>());
    else
      f(equations, std::integral_constant<int, Any>());
  }
};

}  // namespace mac::cuda
