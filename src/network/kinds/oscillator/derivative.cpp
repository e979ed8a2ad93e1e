#include "network/kinds/oscillator/derivative.hpp"

namespace mac::oscillator {

namespace {

/// F is the multiplication by the complex number exp(Δ (−a + iω)), whose parts are the factors.
struct Turning : Rates<double> {
  static constexpr std::size_t kUnit = 2;

  static void factors(const derivative::Kernels& k, double* f, const double* delta, const double* rate,
                      std::size_t count) {
    std::vector<double> e(count);
    k.decay(e.data(), delta, rate, count);
    k.turn(f, f + count, delta, rate + count, count);
    for (std::size_t c = 0; c < count; ++c) f[c] *= e[c], f[count + c] *= e[c];
  }
  static void apply(double (&out)[2], const double (&f)[2], const double (&z)[2]) {
    out[0] = f[0] * z[0] - f[1] * z[1];
    out[1] = f[0] * z[1] + f[1] * z[0];
  }
  static void transposed(double (&out)[2], const double (&f)[2], const double (&z)[2]) {
    out[0] = f[0] * z[0] + f[1] * z[1];
    out[1] = f[0] * z[1] - f[1] * z[0];
  }
};

}  // namespace

selective::Scanned<derivative::Value> scan(derivative::Program& program, const Sizes& sizes,
                                           const derivative::Value& before, const derivative::Value& delta,
                                           const derivative::Value& v, const derivative::Value& B,
                                           const derivative::Value& C, const std::string& name) {
  return selective::add_scan<Turning>(program, sizes, before, delta, v, B, C, name);
}

}  // namespace mac::oscillator
