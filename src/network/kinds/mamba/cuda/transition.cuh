// What a step makes of a Mamba layer's states (selective/cuda/scan.cuh says what is asked for).
#pragma once

#include "network/selective/cuda/scan.cuh"
#include "network/selective/decay_rate.hpp"

namespace mac::mamba {

using selective::Scan;

/// s ← e^(Δ A) s + drive
struct Decaying {
  static constexpr int unit = 1;

  template <class T>
  static __device__ T rate(const Scan<T>& p, int channel, int n) {
    return selective::decay_rate(p.A_log[channel * p.sizes.states + n]);
  }
  template <class T>
  static __device__ void factors(T (&f)[1], T step, const T* a) {
    f[0] = cuda::power_of_2(step * a[0]);
  }
  template <class T>
  static __device__ void advance(T* s, const T (&f)[1], const T (&drive)[1]) {
    s[0] = fma(f[0], s[0], drive[0]);
  }
  template <class T>
  static __device__ void retreat(T* d_s, const T (&f)[1], const T (&more)[1]) {
    advance(d_s, f, more);
  }
  template <class T>
  static __device__ void exponents(T (&q)[1], const T* d_s, const T (&f)[1], const T* before) {
    q[0] = d_s[0] * (f[0] * before[0]);
  }
  static __device__ std::size_t place(int channel, int n, int, int states) {
    return static_cast<std::size_t>(channel) * states + n;
  }
};

}  // namespace mac::mamba
