// The oscillator layer: a selective layer (network/selective/reference.hpp) whose states go in pairs, the real and imaginary
// part of a complex number z, that turns as well as decays. In the words there:
//
//   z_t = exp(Δ_t (−a + iω)) z_{t−1} + Δ_t B_t v_t,  a = exp(A_log), ω = exp(omega_log)     B_t is complex
//   p_t = Re(C̅_t · z_t) + D v_t                                                             C_t is complex
//
// Rows 2k and 2k+1 of s, B and C are the parts of number k. With ω = 0 this is Mamba's recurrence. Complex states that
// turn by an angle which depends on the input are those of Mamba-3 (arXiv 2603.15569); rates as exponentials, of decay
// and of turning, those of the LRU (arXiv 2303.06349).
#pragma once

#include <complex>

#include "network/kinds/oscillator/layer.hpp"
#include "network/selective/reference.hpp"

namespace mac::oscillator {

using reference::StateView;
using selective::ScanGradient;
using selective::ScanInput;

struct Scan {
  /// p (batch, time, d_inner); s (batch, time, d_state, d_inner) keeps every state for the backward pass
  template <class T>
  static void forward(T* p, T* s, StateView<T> final_state, const ScanInput<T>& in, const T* A_log,
                      const T* D) {
    const std::size_t inner = in.d_inner, states = in.d_state, time = in.dims.time;
    for (std::size_t b = 0; b < in.dims.batch; ++b) {
      const T* previous = in.initial ? in.initial.sample(b) : nullptr;
      for (std::size_t t = 0; t < time; ++t) {
        const std::size_t row = b * time + t;
        T* const current = s + row * states * inner;
        for (std::size_t c = 0; c < inner; ++c) {
          const T delta = in.delta[row * inner + c], v = in.v[row * inner + c];
          T sum = D[c] * v;
          for (std::size_t n = 0; n < states; n += 2) {
            const std::complex<T> before = number(previous, n, c, inner);
            const std::complex<T> B(in.B[row * states + n], in.B[row * states + n + 1]);
            const std::complex<T> now = std::exp(delta * rate(A_log, c, n, in)) * before + delta * v * B;
            current[n * inner + c] = now.real();
            current[(n + 1) * inner + c] = now.imag();
            sum += in.C[row * states + n] * now.real() + in.C[row * states + n + 1] * now.imag();
          }
          p[row * inner + c] = sum;
        }
        previous = current;
      }
      if (!final_state) continue;
      for (std::size_t i = 0; i < states * inner; ++i) final_state.sample(b)[i] = previous[i];
    }
  }
  /// The gradient of a complex number is that of its parts, d = d_re + i d_im: of a product f z it is conj(f) d in z.
  template <class T>
  static void backward(const ScanGradient<T>& d_in, const T* d_p, StateView<const T> d_final, const T* s,
                       const ScanInput<T>& in, const T* A_log, const T* D) {
    const std::size_t inner = in.d_inner, states = in.d_state, time = in.dims.time;
    std::vector<T> d_s(states * inner);  // gradient of s_t, carried from t+1 to t
    for (std::size_t b = 0; b < in.dims.batch; ++b) {
      for (std::size_t i = 0; i < d_s.size(); ++i) d_s[i] = d_final ? d_final.sample(b)[i] : T(0);
      for (std::size_t t = time; t-- > 0;) {
        const std::size_t row = b * time + t;
        const T* const current = s + row * states * inner;
        const T* const previous = t > 0        ? current - states * inner
                                  : in.initial ? in.initial.sample(b)
                                               : nullptr;
        for (std::size_t c = 0; c < inner; ++c) {
          const T delta = in.delta[row * inner + c], v = in.v[row * inner + c], d = d_p[row * inner + c];
          d_in.D[c] += d * v;
          d_in.v[row * inner + c] += d * D[c];
          for (std::size_t n = 0; n < states; n += 2) {
            const std::complex<T> A = rate(A_log, c, n, in), factor = std::exp(delta * A);
            const std::complex<T> turned = factor * number(previous, n, c, inner);
            const std::complex<T> B(in.B[row * states + n], in.B[row * states + n + 1]);
            const std::complex<T> C(in.C[row * states + n], in.C[row * states + n + 1]);

            d_in.C[row * states + n] += d * current[n * inner + c];
            d_in.C[row * states + n + 1] += d * current[(n + 1) * inner + c];
            const std::complex<T> d_now = number(d_s.data(), n, c, inner) + d * C;
            d_in.delta[row * inner + c] += real_product(d_now, A * turned + v * B);
            const std::complex<T> d_A = std::conj(delta * turned) * d_now;
            d_in.A_log[place_of_rate(c, n, inner, states)] += d_A.real() * A.real();  // dA/d(its logarithms)
            d_in.A_log[place_of_rate(c, n + 1, inner, states)] += d_A.imag() * A.imag();
            d_in.B[row * states + n] += d_now.real() * delta * v;
            d_in.B[row * states + n + 1] += d_now.imag() * delta * v;
            d_in.v[row * inner + c] += delta * real_product(d_now, B);
            const std::complex<T> d_before = std::conj(factor) * d_now;
            d_s[n * inner + c] = d_before.real();
            d_s[(n + 1) * inner + c] = d_before.imag();
          }
        }
      }
      if (!d_in.initial) continue;
      for (std::size_t i = 0; i < d_s.size(); ++i) d_in.initial.sample(b)[i] += d_s[i];
    }
  }

 private:
  /// −a + iω of the pair that begins with state n of channel c.
  template <class T>
  static std::complex<T> rate(const T* A_log, std::size_t c, std::size_t n, const ScanInput<T>& in) {
    const auto log = [&](std::size_t state) {
      return A_log[place_of_rate(c, state, in.d_inner, in.d_state)];
    };
    return {-std::exp(log(n)), std::exp(log(n + 1))};
  }
  /// Of states (d_state, d_inner), which may be null for zeros.
  template <class T>
  static std::complex<T> number(const T* states, std::size_t n, std::size_t c, std::size_t inner) {
    if (!states) return 0;
    return {states[n * inner + c], states[(n + 1) * inner + c]};
  }
  template <class T>
  static T real_product(std::complex<T> a, std::complex<T> b) {
    return a.real() * b.real() + a.imag() * b.imag();
  }
};

template <class T>
using Activations = selective::Activations<T>;

template <class T>
void reference_forward(T* out, StateView<T> final_state, Activations<T>& a, const T* u,
                       StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                       SequenceDims dims) {
  selective::layer_forward<Scan>(out, final_state, a, u, initial, w, sizes, dims);
}

template <class T>
void reference_backward(T* d_u, StateView<T> d_initial, const Parameters<T>& d_w, const T* d_out,
                        StateView<const T> d_final, const Activations<T>& a, const T* u,
                        StateView<const T> initial, const Parameters<const T>& w, const Sizes& sizes,
                        SequenceDims dims) {
  selective::layer_backward<Scan>(d_u, d_initial, d_w, d_out, d_final, a, u, initial, w, sizes, dims);
}

}  // namespace mac::oscillator
