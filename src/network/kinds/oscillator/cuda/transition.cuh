// What a step makes of an oscillator layer's states (selective/cuda/scan.cuh says what is asked for).
#pragma once

#include "network/kinds/oscillator/turning_rate.hpp"
#include "network/selective/cuda/scan.cuh"
#include "network/selective/decay_rate.hpp"

namespace mac::oscillator {

using selective::Scan;

__device__ inline void sincospi_of(float x, float* sine, float* cosine) { sincospif(x, sine, cosine); }
__device__ inline void sincospi_of(double x, double* sine, double* cosine) { sincospi(x, sine, cosine); }

/// A pair of states is a complex number z ← e^(Δ (−a + iω)) z + drive; the factors are the parts of that exponential.
struct Turning {
  static constexpr int unit = 2;

  template <class T>
  static __device__ T rate(const Scan<T>& p, int channel, int n) {
    const int at = channel * (p.sizes.states / 2) + n / 2;
    return n % 2 == 0 ? selective::decay_rate(p.A_log[at]) : turning_rate(p.omega_log[at]);
  }
  template <class T>
  static __device__ void factors(T (&f)[2], T step, const T* a) {
    const T e = cuda::power_of_2(step * a[0]);
    T sine, cosine;
    sincospi_of(T(0.5) * (step * a[1]), &sine, &cosine);  // the rate counts quarter turns
    f[0] = e * cosine, f[1] = e * sine;
  }
  template <class T>
  static __device__ void advance(T* z, const T (&f)[2], const T (&drive)[2]) {
    const T real = fma(f[0], z[0], fma(-f[1], z[1], drive[0]));
    z[1] = fma(f[0], z[1], fma(f[1], z[0], drive[1]));
    z[0] = real;
  }
  template <class T>
  static __device__ void retreat(T* d_z, const T (&f)[2], const T (&more)[2]) {
    const T conjugate[2] = {f[0], -f[1]};
    advance(d_z, conjugate, more);
  }
  template <class T>
  static __device__ void exponents(T (&q)[2], const T* d_z, const T (&f)[2], const T* before) {
    constexpr T quarter = 1.57079632679489661923 / 0.693147180559945309417;
    T turned[2] = {before[0], before[1]};
    const T nothing[2] = {};
    advance(turned, f, nothing);
    q[0] = fma(d_z[0], turned[0], d_z[1] * turned[1]);
    q[1] = quarter * fma(d_z[1], turned[0], -d_z[0] * turned[1]);
  }
  static __device__ std::size_t place(int channel, int n, int inner, int states) {
    return place_of_rate(static_cast<std::size_t>(channel), static_cast<std::size_t>(n),
                         static_cast<std::size_t>(inner), static_cast<std::size_t>(states));
  }
};

}  // namespace mac::oscillator
