// What a step makes of a Mamba layer's states (selective/cuda/scan.cuh says what is asked for).
#pragma once

#include "network/selective/cuda/scan.cuh"
#include "network/selective/decay_rate.hpp"

namespace mac::mamba {

using selective::Scan;

/// s ← e^(Δ A) s + drive
struct Decaying {
  static constexpr int unit = 1;

  static __device__ float rate(const Scan& p, int channel, int n) {
    return selective::decay_rate(p.A_log[channel * p.sizes.states + n]);
  }
  static __device__ void factors(float (&f)[1], float step, const float* a) {
    f[0] = cuda::exp2_approx(step * a[0]);
  }
  static __device__ void advance(float* s, const float (&f)[1], const float (&drive)[1]) {
    s[0] = fmaf(f[0], s[0], drive[0]);
  }
  static __device__ void retreat(float* d_s, const float (&f)[1], const float (&more)[1]) {
    advance(d_s, f, more);
  }
  static __device__ void exponents(float (&q)[1], const float* d_s, const float (&f)[1],
                                   const float* before) {
    q[0] = d_s[0] * (f[0] * before[0]);
  }
  static __device__ std::size_t place(int channel, int n, int, int states) {
    return static_cast<std::size_t>(channel) * states + n;
  }
};

}  // namespace mac::mamba
