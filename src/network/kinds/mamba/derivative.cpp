#include "network/kinds/mamba/derivative.hpp"

namespace mac::mamba {

namespace {

/// F = exp(Δ A)
struct Decaying : Rates<double> {
  static constexpr std::size_t kUnit = 1;

  static void factors(const derivative::Kernels& k, double* f, const double* delta, const double* rate,
                      std::size_t count) {
    k.decay(f, delta, rate, count);
  }
  static void apply(double (&out)[1], const double (&f)[1], const double (&z)[1]) { out[0] = f[0] * z[0]; }
  static void transposed(double (&out)[1], const double (&f)[1], const double (&z)[1]) { apply(out, f, z); }
};

}  // namespace

selective::Scanned<derivative::Value> scan(derivative::Program& program, const Sizes& sizes,
                                           const derivative::Value& before, const derivative::Value& delta,
                                           const derivative::Value& v, const derivative::Value& B,
                                           const derivative::Value& C, const std::string& name) {
  return selective::add_scan<Decaying>(program, sizes, before, delta, v, B, C, name);
}

}  // namespace mac::mamba
