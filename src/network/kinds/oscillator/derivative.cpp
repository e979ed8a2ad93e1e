#include "network/kinds/oscillator/derivative.hpp"

#include <algorithm>

namespace mac::oscillator {

namespace {

/// F is the multiplication by the complex number exp(Δ (−a + iω)), whose parts are the factors.
struct Turning : Rates<double> {
  static constexpr std::size_t kUnit = 2;

  static void factors(const derivative::Kernels& k, double* f, const double* delta, const double* rate,
                      std::size_t count) {
    k.turn(f, f + count, delta, rate + count, count);
    constexpr std::size_t kPart = 64;  // in pieces, so that no memory is asked for
    double e[kPart];
    for (std::size_t first = 0; first < count; first += kPart) {
      const std::size_t part = std::min(kPart, count - first);
      k.decay(e, delta + first, rate + first, part);
      for (std::size_t c = 0; c < part; ++c) f[first + c] *= e[c], f[count + first + c] *= e[c];
    }
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
