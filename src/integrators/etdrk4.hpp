// Exponential time differencing, fourth order (Cox & Matthews 2002), for dv/dt = L v + N(v), L diagonal:
//
//   a = E2 v + Q N(v)    b = E2 v + Q N(a)    c = E2 a + Q (2 N(b) - N(v))          E2 = e^{hL/2}
//   v <- E v + f1 N(v) + 2 f2 (N(a) + N(b)) + f3 N(c)                               E = e^{hL}
//
//   Q  = h mean (e^{z/2} - 1) / z             f2 = h mean (2 + z + e^z (z - 2)) / z^3
//   f1 = h mean (-4 - z + e^z (4 - 3z + z^2)) / z^3
//   f3 = h mean (-4 - 3z - z^2 + e^z (4 - z)) / z^3
//
// with the mean over a circle of z around hL (Kassam & Trefethen 2005), where no cancellation occurs. L may
// be complex, so the circle is a full one and the mean complex.
//
// A quadrature dq/dt = g(v) runs along with Runge–Kutta weights 1/6, 1/3, 1/3, 1/6 at v, a, b, c.
#pragma once

#include <complex>
#include <cstddef>
#include <vector>

namespace mac {

class Etdrk4 {
 public:
  Etdrk4(const std::vector<std::complex<double>>& linear, double dt, std::size_t quadrature_size);

  /// One step of v (interleaved complex) and q. rhs(v, n, g) evaluates N and g.
  template <class Rhs>
  void step(double* v, double* q, Rhs&& rhs) {
    rhs(static_cast<const double*>(v), n_v_.data(), g_.data());
    accumulate(dt_ / 6, q);
    combine(e2_.data(), v, q_.data(), n_v_.data(), a_.data());
    rhs(static_cast<const double*>(a_.data()), n_a_.data(), g_.data());
    accumulate(dt_ / 3, q);
    combine(e2_.data(), v, q_.data(), n_a_.data(), b_.data());
    rhs(static_cast<const double*>(b_.data()), n_b_.data(), g_.data());
    accumulate(dt_ / 3, q);
    double_minus(n_b_.data(), n_v_.data(), b_.data());
    combine(e2_.data(), a_.data(), q_.data(), b_.data(), c_.data());
    rhs(static_cast<const double*>(c_.data()), n_c_.data(), g_.data());
    accumulate(dt_ / 6, q);
    finish(v);
  }

 private:
  void accumulate(double weight, double* q) const;
  /// out = x u + y w, complex
  void combine(const double* x, const double* u, const double* y, const double* w, double* out) const;
  /// out = 2 x - y
  void double_minus(const double* x, const double* y, double* out) const;
  void finish(double* v) const;

  double dt_;
  std::size_t n_;                                  // real numbers in v: two per mode
  std::vector<double> e_, e2_, q_, f1_, f2_, f3_;  // interleaved complex
  std::vector<double> n_v_, n_a_, n_b_, n_c_, a_, b_, c_, g_;
};

}  // namespace mac
