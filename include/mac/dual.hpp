// Forward-mode differentiation: a number that carries N partial derivatives through ordinary arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <mac/host_device.hpp>
#include <vector>

namespace mac {

template <std::size_t N>
struct Dual {
  double value = 0;
  double partial[N] = {};

  Dual() = default;
  MAC_HOST_DEVICE Dual(double constant) : value(constant) {}  // NOLINT: constants mix freely with duals

  /// f(x) from its value and f'(x).
  MAC_HOST_DEVICE Dual chain(double f, double slope) const {
    Dual result(f);
    for (std::size_t i = 0; i < N; ++i) result.partial[i] = slope * partial[i];
    return result;
  }

  MAC_HOST_DEVICE friend Dual operator+(const Dual& a, const Dual& b) {
    Dual result(a.value + b.value);
    for (std::size_t i = 0; i < N; ++i) result.partial[i] = a.partial[i] + b.partial[i];
    return result;
  }
  MAC_HOST_DEVICE friend Dual operator-(const Dual& a, const Dual& b) {
    Dual result(a.value - b.value);
    for (std::size_t i = 0; i < N; ++i) result.partial[i] = a.partial[i] - b.partial[i];
    return result;
  }
  MAC_HOST_DEVICE friend Dual operator*(const Dual& a, const Dual& b) {
    Dual result(a.value * b.value);
    for (std::size_t i = 0; i < N; ++i) result.partial[i] = a.partial[i] * b.value + a.value * b.partial[i];
    return result;
  }
  MAC_HOST_DEVICE friend Dual operator/(const Dual& a, const Dual& b) {
    Dual result(a.value / b.value);
    for (std::size_t i = 0; i < N; ++i)
      result.partial[i] = (a.partial[i] - result.value * b.partial[i]) / b.value;
    return result;
  }
  MAC_HOST_DEVICE friend Dual operator*(double a, const Dual& b) { return b.chain(a * b.value, a); }
  MAC_HOST_DEVICE friend Dual operator*(const Dual& a, double b) { return a.chain(a.value * b, b); }
  MAC_HOST_DEVICE friend Dual operator/(const Dual& a, double b) { return a.chain(a.value / b, 1 / b); }
  MAC_HOST_DEVICE friend Dual operator-(const Dual& a) { return a.chain(-a.value, -1); }

  MAC_HOST_DEVICE Dual& operator+=(const Dual& b) { return *this = *this + b; }
  MAC_HOST_DEVICE Dual& operator-=(const Dual& b) { return *this = *this - b; }
  MAC_HOST_DEVICE Dual& operator*=(const Dual& b) { return *this = *this * b; }
  MAC_HOST_DEVICE Dual& operator/=(const Dual& b) { return *this = *this / b; }
  MAC_HOST_DEVICE friend Dual operator+(const Dual& a) { return a; }

  // Values decide: a branch is differentiated as the branch that is taken.
  MAC_HOST_DEVICE friend bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  MAC_HOST_DEVICE friend bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  MAC_HOST_DEVICE friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  MAC_HOST_DEVICE friend bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  MAC_HOST_DEVICE friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  MAC_HOST_DEVICE friend bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }
};

/// Calls column(j, derivatives) with df/dy_j (m numbers) for every j of the n inputs of f; rhs(y, f) is the
/// function on duals.
template <class Rhs, class Column>
void for_each_jacobian_column(std::size_t n, std::size_t m, const double* y, Rhs&& rhs, Column&& column) {
  constexpr std::size_t lanes = 8;
  std::vector<Dual<lanes>> point(n), image(m);
  std::vector<double> derivatives(m);
  for (std::size_t first = 0; first < n; first += lanes) {
    const std::size_t count = std::min(lanes, n - first);
    for (std::size_t i = 0; i < n; ++i) point[i] = Dual<lanes>(y[i]);
    for (std::size_t j = 0; j < count; ++j) point[first + j].partial[j] = 1;
    rhs(static_cast<const Dual<lanes>*>(point.data()), image.data());
    for (std::size_t j = 0; j < count; ++j) {
      for (std::size_t i = 0; i < m; ++i) derivatives[i] = image[i].partial[j];
      column(first + j, static_cast<const double*>(derivatives.data()));
    }
  }
}

/// grad += (df/dy)^T adjoint for f of n inputs and n outputs.
template <class Rhs>
void add_vjp(std::size_t n, const double* y, const double* adjoint, double* grad, Rhs&& rhs) {
  for_each_jacobian_column(n, n, y, rhs, [&](std::size_t j, const double* derivatives) {
    for (std::size_t i = 0; i < n; ++i) grad[j] += derivatives[i] * adjoint[i];
  });
}

}  // namespace mac

#include <mac/dual_math.hpp>  // sin, exp, pow, ...
