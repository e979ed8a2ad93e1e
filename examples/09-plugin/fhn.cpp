// The ring of experiments/equations/fitzhugh_nagumo.toml as a plug-in in C++ (mac/plugin.h). The reduced equations
// are templated on the scalar, so that dual numbers give their gradient exactly.
#include <mac/plugin.h>

#include <algorithm>
#include <mac/dual.hpp>

namespace {

constexpr std::size_t n = 8;

/// p: D, I
template <class Scalar>
void reduced_rhs(const double* p, const Scalar* v, Scalar* rate) {
  for (std::size_t i = 0; i < n; ++i)
    rate[i] = v[i] - v[i] * v[i] * v[i] / 3 + p[1] + p[0] * (v[(i + n - 1) % n] - 2 * v[i] + v[(i + 1) % n]);
}

}  // namespace

extern "C" {

int mac_plugin_version(void) { return MAC_PLUGIN_VERSION; }

const char* mac_plugin_system(void) {
  return R"(name = "fhn_cpp"
resolved = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"]
size = 16
parameters = ["D", "I", "a", "b", "tau"]
defaults = [0.1, 0.5, 0.7, 0.8, 12.5]
random = 16
warmup_steps = 2000
)";
}

void mac_reduced_rhs(const double* p, const double* v, double* rate) { reduced_rhs(p, v, rate); }

void mac_full_rhs(const double* p, const double* z, double* rate) {
  const double *v = z, *w = z + n;
  reduced_rhs(p, v, rate);
  for (std::size_t i = 0; i < n; ++i) {
    rate[i] -= w[i];
    rate[n + i] = (v[i] + p[2] - p[3] * w[i]) / p[4];
  }
}

void mac_sample(const double*, const double* uniform, double* z) {
  for (std::size_t i = 0; i < n; ++i) {
    z[i] = -2 + 4 * uniform[i];
    z[n + i] = -0.5 + 2 * uniform[n + i];
  }
}

void mac_reduced_vjp(const double* p, const double* y, const double* adjoint, double* gradient) {
  std::fill_n(gradient, n, 0.0);
  mac::add_vjp(n, y, adjoint, gradient, [p](const auto* v, auto* rate) { reduced_rhs(p, v, rate); });
}

}  // extern "C"
