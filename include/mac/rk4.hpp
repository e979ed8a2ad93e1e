// The classical fourth-order Runge–Kutta method.
//
//   k1 = f(y)   k2 = f(y + dt/2 k1)   k3 = f(y + dt/2 k2)   k4 = f(y + dt k3)
//   y <- y + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//
// An integral of a function g(y) along the trajectory is one more equation, dq/dt = g(y), appended to y: it
// is then accumulated at the stages and with the weights of the method itself.
#pragma once

#include <complex>
#include <cstddef>

namespace mac {

/// RK4 is stable on the negative real axis down to lambda dt = -this.
inline constexpr double rk4_real_stability = 2.785293563405282;

/// The largest dt at which RK4 does not amplify the decaying mode e^{lambda t}.
double rk4_largest_stable_step(std::complex<double> lambda);

/// sum = weight rate + (first ? 0 : sum);  stage = y + step rate.
template <class Scalar>
void rk4_stage(std::size_t n, bool first, double weight, double step, const Scalar* y, const Scalar* rate,
               Scalar* sum, Scalar* stage) {
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] = first ? weight * rate[i] : sum[i] + weight * rate[i];
    stage[i] = y[i] + step * rate[i];
  }
}

/// y <- y + step (sum + rate).
template <class Scalar>
void rk4_finish(std::size_t n, double step, const Scalar* sum, const Scalar* rate, Scalar* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] = y[i] + step * (sum[i] + rate[i]);
}

// The same for double, vectorised (rk4.cpp); bit for bit equal to the templates.
void rk4_stage(std::size_t n, bool first, double weight, double step, const double* y, const double* rate,
               double* sum, double* stage);
void rk4_finish(std::size_t n, double step, const double* sum, const double* rate, double* y);

/// One step of dy/dt = f(y) for y of n scalars; rhs(y, dydt) evaluates f; work holds 3 n scalars.
template <class Scalar, class Rhs>
void rk4_step(std::size_t n, double dt, Scalar* y, Scalar* work, Rhs&& rhs) {
  Scalar* const rate = work;
  Scalar* const stage = work + n;
  Scalar* const sum = work + 2 * n;
  rhs(static_cast<const Scalar*>(y), rate);
  rk4_stage(n, true, 1, dt / 2, y, rate, sum, stage);
  rhs(static_cast<const Scalar*>(stage), rate);
  rk4_stage(n, false, 2, dt / 2, y, rate, sum, stage);
  rhs(static_cast<const Scalar*>(stage), rate);
  rk4_stage(n, false, 2, dt, y, rate, sum, stage);
  rhs(static_cast<const Scalar*>(stage), rate);
  rk4_finish(n, dt / 6, sum, rate, y);
}

}  // namespace mac
