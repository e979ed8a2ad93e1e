// The gradient of a program: its instructions forwards, keeping everything, and backwards.
#include <algorithm>
#include <cmath>

#include "systems/equations/program.hpp"

namespace mac::equations {

namespace {

struct Slopes {
  double a = 0, b = 0, c = 0;
};

/// Partial derivatives of an operation with the value f. At a kink the side that the value is taken from
/// counts; comparisons, signs and floors are flat.
Slopes slopes(Op op, double a, double b, double f) {
  switch (op) {
    case Op::neg:
      return {-1};
    case Op::exp:
      return {f};
    case Op::log:
      return {1 / a};
    case Op::log10:
      return {1 / (a * std::log(10.0))};
    case Op::sqrt:
      return {0.5 / f};
    case Op::cbrt:
      return {1 / (3 * f * f)};
    case Op::sin:
      return {std::cos(a)};
    case Op::cos:
      return {-std::sin(a)};
    case Op::tan:
      return {1 + f * f};
    case Op::asin:
      return {1 / std::sqrt(1 - a * a)};
    case Op::acos:
      return {-1 / std::sqrt(1 - a * a)};
    case Op::atan:
      return {1 / (1 + a * a)};
    case Op::sinh:
      return {std::cosh(a)};
    case Op::cosh:
      return {std::sinh(a)};
    case Op::tanh:
      return {1 - f * f};
    case Op::abs:
      return {a < 0 ? -1.0 : a > 0 ? 1.0 : 0.0};
    case Op::add:
      return {1, 1};
    case Op::sub:
      return {1, -1};
    case Op::mul:
      return {b, a};
    case Op::div:
      return {1 / b, -f / b};
    case Op::pow:
      // b may be a constant, and then a may be negative.
      return {b == 0 ? 0 : b * std::pow(a, b - 1), a > 0 ? f * std::log(a) : 0};
    case Op::atan2:
      return {b / (a * a + b * b), -a / (a * a + b * b)};
    case Op::min:
      return b < a ? Slopes{0, 1} : Slopes{1, 0};
    case Op::max:
      return b > a ? Slopes{0, 1} : Slopes{1, 0};
    case Op::select:
      return a != 0 ? Slopes{0, 1, 0} : Slopes{0, 0, 1};
    default:
      return {};
  }
}

}  // namespace

void Program::execute_backwards(const Instruction& i, const double* work, double* adjoints) const {
  // Null for constants.
  const auto adjoint = [&](std::size_t place) {
    return place >= constants_.size() ? adjoints + place : nullptr;
  };
  const double* const d_out = adjoint(i.out);
  double* const d_a = adjoint(i.a);
  const std::size_t n = i.n;
  if (i.op == Op::gather) {
    if (!d_a) return;
    if (i.b == repeated) {
      for (std::size_t k = 0; k < n; ++k) d_a[k / i.c] += d_out[k];
    } else if (i.b == by_runs) {
      const double* from = d_out;
      for (std::size_t r = 0; r < 2 * i.c; r += 2)
        for (std::int32_t k = 0; k < i.list[r + 1]; ++k) d_a[i.list[r] + k] += *from++;
    } else {
      for (std::size_t k = 0; k < n; ++k) d_a[i.list[k]] += d_out[k];
    }
    return;
  }
  if (i.op == Op::segments) {
    for (std::size_t k = 0; d_a && k < n; ++k)
      for (std::int32_t j = i.list[k]; j < i.list[k + 1]; ++j) d_a[j] += d_out[k];
    return;
  }
  double* const d_b = adjoint(i.b);
  if (i.op == Op::merge) {
    for (std::size_t k = 0; k < n; ++k) {
      if (i.list[k] >= 0 && d_a) d_a[i.list[k]] += d_out[k];
      if (i.list[k] < 0 && d_b) d_b[-1 - i.list[k]] += d_out[k];
    }
    return;
  }
  double* const d_c = i.op == Op::select ? adjoint(i.c) : nullptr;
  const bool two = i.op >= Op::add;
  const double *a = work + i.a, *b = work + i.b, *f = work + i.out;
  const std::size_t along_a = i.arrays & 1 ? 1 : 0, along_b = i.arrays & 2 ? 1 : 0,
                    along_c = i.arrays & 4 ? 1 : 0;
  for (std::size_t k = 0; k < n; ++k) {
    if (d_out[k] == 0) continue;  // a slope may be infinite where nobody looks
    const Slopes slope = slopes(i.op, a[k * along_a], b[k * along_b], f[k]);
    if (d_a) d_a[k * along_a] += d_out[k] * slope.a;
    if (two && d_b) d_b[k * along_b] += d_out[k] * slope.b;
    if (d_c) d_c[k * along_c] += d_out[k] * slope.c;
  }
}

void Program::add_gradient(const double* input, const double* adjoint, double* gradient, double* work) const {
  equations::run(tape_, input, work, nullptr);
  double* const adjoints = work + work_size_;
  std::fill_n(adjoints, work_size_, 0.0);
  for (const Copy& copy : copies_) {
    double* const to = adjoints + copy.from;  // what falls on constants is never read
    for (std::size_t i = 0; i < copy.places.size(); ++i) to[copy.n == 1 ? 0 : i] += adjoint[copy.places[i]];
  }
  for (std::size_t i = tape_.instructions.size(); i-- > 0;)
    execute_backwards(tape_.instructions[i], work, adjoints);
  for (const Padded& ring : rings_) {
    const double* const from = adjoints + ring.at;
    for (std::size_t q = 0; q < ring.before + ring.length + ring.after; ++q)
      gradient[ring.begin + (q + ring.length - ring.before) % ring.length] += from[q];
  }
}

}  // namespace mac::equations
