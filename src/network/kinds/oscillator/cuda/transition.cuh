// What a step makes of an oscillator layer's states (selective/cuda/scan.cuh says what is asked for).
#pragma once

#include "network/kinds/oscillator/turning_rate.hpp"
#include "network/selective/cuda/scan.cuh"
#include "network/selective/decay_rate.hpp"

namespace mac::oscillator {

using selective::Scan;

/// A pair of states is a complex number z ← e^(Δ (−a + iω)) z + drive; the factors are the parts of that exponential.
struct Turning {
  static constexpr int unit = 2;

  static __device__ float rate(const Scan& p, int channel, int n) {
    const int at = channel * (p.sizes.states / 2) + n / 2;
    return n % 2 == 0 ? selective::decay_rate(p.A_log[at]) : turning_rate(p.omega_log[at]);
  }
  static __device__ void factors(float (&f)[2], float step, const float* a) {
    const float e = cuda::exp2_approx(step * a[0]);
    float sine, cosine;
    sincospif(0.5f * (step * a[1]), &sine, &cosine);  // the rate counts quarter turns
    f[0] = e * cosine, f[1] = e * sine;
  }
  static __device__ void advance(float* z, const float (&f)[2], const float (&drive)[2]) {
    const float real = fmaf(f[0], z[0], fmaf(-f[1], z[1], drive[0]));
    z[1] = fmaf(f[0], z[1], fmaf(f[1], z[0], drive[1]));
    z[0] = real;
  }
  static __device__ void retreat(float* d_z, const float (&f)[2], const float (&more)[2]) {
    const float conjugate[2] = {f[0], -f[1]};
    advance(d_z, conjugate, more);
  }
  static __device__ void exponents(float (&q)[2], const float* d_z, const float (&f)[2],
                                   const float* before) {
    constexpr float quarter = 1.57079632679489661923f / cuda::ln_2;
    float turned[2] = {before[0], before[1]};
    const float nothing[2] = {};
    advance(turned, f, nothing);
    q[0] = fmaf(d_z[0], turned[0], d_z[1] * turned[1]);
    q[1] = quarter * fmaf(d_z[1], turned[0], -d_z[0] * turned[1]);
  }
  static __device__ std::size_t place(int channel, int n, int inner, int states) {
    return place_of_rate(static_cast<std::size_t>(channel), static_cast<std::size_t>(n),
                         static_cast<std::size_t>(inner), static_cast<std::size_t>(states));
  }
};

}  // namespace mac::oscillator
