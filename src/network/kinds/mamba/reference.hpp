// The Mamba layer (Mamba-1): a selective layer (network/selective/reference.hpp) with
//
//   s_t  = exp(Δ_t A) s_{t−1} + Δ_t B_t v_t,  A = −exp(A_log)     s is (d_state, d_inner)
//
// Paper, Mamba for Non-Markovian Closure Modeling (sec_mamba): s_t is h_t = A̅ h_{t−1} + B̅ x_t with A̅ = exp(Δ_t A),
// B̅ = Δ_t B_t, which depend on u.
#pragma once

#include "network/kinds/mamba/layer.hpp"
#include "network/selective/reference.hpp"

namespace mac::mamba {

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
          for (std::size_t n = 0; n < states; ++n) {
            const T decay = std::exp(-delta * std::exp(A_log[c * states + n]));
            const T before = previous ? previous[n * inner + c] : T(0);
            const T now = decay * before + delta * in.B[row * states + n] * v;
            current[n * inner + c] = now;
            sum += in.C[row * states + n] * now;
          }
          p[row * inner + c] = sum;
        }
        previous = current;
      }
      if (!final_state) continue;
      for (std::size_t i = 0; i < states * inner; ++i) final_state.sample(b)[i] = previous[i];
    }
  }
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
          for (std::size_t n = 0; n < states; ++n) {
            const T A = -std::exp(A_log[c * states + n]);
            const T decay = std::exp(delta * A);
            const T decayed = decay * (previous ? previous[n * inner + c] : T(0));
            const T B = in.B[row * states + n];
            T& d_state = d_s[n * inner + c];

            d_in.C[row * states + n] += d * current[n * inner + c];
            d_state += d * in.C[row * states + n];
            d_in.delta[row * inner + c] += d_state * (A * decayed + B * v);
            d_in.A_log[c * states + n] += d_state * delta * A * decayed;  // dA/dA_log = A
            d_in.B[row * states + n] += d_state * delta * v;
            d_in.v[row * inner + c] += d_state * delta * B;
            d_state *= decay;
          }
        }
      }
      if (!d_in.initial) continue;
      for (std::size_t i = 0; i < d_s.size(); ++i) d_in.initial.sample(b)[i] += d_s[i];
    }
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

}  // namespace mac::mamba
