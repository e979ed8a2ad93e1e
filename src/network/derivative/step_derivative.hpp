// The derivative of one step of a network, normalised values in and out:
//
//   (x, state) -> (y, next)       tangent: (dx, dstate) -> (dy, dnext)
//                                 adjoint: (gy, gnext) -> (gx, gstate)
//
// in double precision, whatever the step was taken in.
#pragma once

#include "network/derivative/program.hpp"

namespace mac::derivative {

/// Columns that go through the program together and share each load of a weight.
inline constexpr std::size_t kTile = 4;

/// The point that a step of some columns starts from.
struct Point {
  const double* x;       // (columns, d_in)
  const double* memory;  // (columns, state_size)
};

/// What a thread works in.
class Work {
 public:
  explicit Work(std::size_t size)
      : size_(size),
        values_(cpu::aligned_array<double>(kTile * size)),
        derivatives_(cpu::aligned_array<double>(kTile * size)) {}
  Tile<double> values(std::size_t columns) const { return {values_.get(), size_, columns}; }
  Tile<double> derivatives(std::size_t columns) const { return {derivatives_.get(), size_, columns}; }

 private:
  std::size_t size_;
  cpu::AlignedArray<double> values_, derivatives_;
};

class StepDerivative {
 public:
  StepDerivative(const NetworkShape& shape, std::span<const double> parameters);

  Work make_work() const { return Work(program_.size()); }

  // All arrays are (columns, ·). Nothing is allocated.
  /// dx (d_in) and dmemory (state_size) -> dy (d_out); dmemory becomes that of the next memory.
  void tangent(std::size_t columns, Point at, const double* dx, double* dmemory, double* dy,
               const Work& work) const;
  /// gy (d_out) and gmemory, that of the next memory -> gx (d_in); gmemory becomes that of the memory before.
  void adjoint(std::size_t columns, Point at, const double* gy, double* gmemory, double* gx,
               const Work& work) const;
  /// jacobian (columns, d_out, d_in) = dy/dx
  void jacobian(std::size_t columns, Point at, double* jacobian, const Work& work) const;

 private:
  void evaluate(std::size_t first, Point at, Tile<double> v) const;

  NetworkShape shape_;
  std::size_t state_size_;
  Program program_;
  Value x_, state_, y_;
  std::vector<Value> next_;  // a block each
};

}  // namespace mac::derivative
