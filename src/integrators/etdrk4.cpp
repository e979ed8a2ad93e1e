#include "integrators/etdrk4.hpp"

#include <numbers>

#include "integrators/simd.hpp"

namespace mac {

Etdrk4::Etdrk4(const std::vector<std::complex<double>>& linear, double dt, std::size_t quadrature_size)
    : dt_(dt), n_(2 * linear.size()), g_(quadrature_size) {
  for (auto* array : {&e_, &e2_, &q_, &f1_, &f2_, &f3_, &n_v_, &n_a_, &n_b_, &n_c_, &a_, &b_, &c_})
    array->resize(n_);
  using Complex = std::complex<double>;
  constexpr int points = 64;  // the mean converges geometrically; 32 are already enough for double
  for (std::size_t k = 0; k < linear.size(); ++k) {
    const Complex center = dt * linear[k];
    Complex q, f1, f2, f3;
    for (int j = 0; j < points; ++j) {
      const Complex z = center + std::polar(1.0, 2 * std::numbers::pi * (j + 0.5) / points);
      const Complex exp_z = std::exp(z), cube = z * z * z;
      q += (std::exp(z / 2.0) - 1.0) / z;
      f1 += (-4.0 - z + exp_z * (4.0 - 3.0 * z + z * z)) / cube;
      f2 += (2.0 + z + exp_z * (z - 2.0)) / cube;
      f3 += (-4.0 - 3.0 * z - z * z + exp_z * (4.0 - z)) / cube;
    }
    const auto store = [k](std::vector<double>& array, Complex value) {
      array[2 * k] = value.real();
      array[2 * k + 1] = value.imag();
    };
    store(e_, std::exp(center));
    store(e2_, std::exp(center / 2.0));
    store(q_, dt * q / double(points));
    store(f1_, dt * f1 / double(points));
    store(f2_, dt * f2 / double(points));
    store(f3_, dt * f3 / double(points));
  }
}

void Etdrk4::accumulate(double weight, double* q) const {
  for (std::size_t i = 0; i < g_.size(); ++i) q[i] += weight * g_[i];
}

MAC_VECTOR_CLONES
void Etdrk4::combine(const double* x, const double* u, const double* y, const double* w,
                     double* __restrict out) const {
  for (std::size_t i = 0; i < n_; i += 2) {
    const double re = x[i] * u[i] - x[i + 1] * u[i + 1] + (y[i] * w[i] - y[i + 1] * w[i + 1]);
    const double im = x[i] * u[i + 1] + x[i + 1] * u[i] + (y[i] * w[i + 1] + y[i + 1] * w[i]);
    out[i] = re;
    out[i + 1] = im;
  }
}

MAC_VECTOR_CLONES
void Etdrk4::double_minus(const double* x, const double* y, double* __restrict out) const {
  for (std::size_t i = 0; i < n_; ++i) out[i] = 2 * x[i] - y[i];
}

MAC_VECTOR_CLONES
void Etdrk4::finish(double* __restrict v) const {
  for (std::size_t i = 0; i < n_; i += 2) {
    const double mid_re = 2 * (n_a_[i] + n_b_[i]), mid_im = 2 * (n_a_[i + 1] + n_b_[i + 1]);
    const double re = e_[i] * v[i] - e_[i + 1] * v[i + 1] + (f1_[i] * n_v_[i] - f1_[i + 1] * n_v_[i + 1]) +
                      (f2_[i] * mid_re - f2_[i + 1] * mid_im) + (f3_[i] * n_c_[i] - f3_[i + 1] * n_c_[i + 1]);
    const double im = e_[i] * v[i + 1] + e_[i + 1] * v[i] + (f1_[i] * n_v_[i + 1] + f1_[i + 1] * n_v_[i]) +
                      (f2_[i] * mid_im + f2_[i + 1] * mid_re) + (f3_[i] * n_c_[i + 1] + f3_[i + 1] * n_c_[i]);
    v[i] = re;
    v[i + 1] = im;
  }
}

}  // namespace mac
