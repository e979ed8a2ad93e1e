// One step of a selective layer with channels in lanes.
#if defined(MAC_NETWORK_SELECTIVE_CPU_STEP_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef MAC_NETWORK_SELECTIVE_CPU_STEP_INL_
#undef MAC_NETWORK_SELECTIVE_CPU_STEP_INL_
#else
#define MAC_NETWORK_SELECTIVE_CPU_STEP_INL_
#endif

#include <algorithm>

#include "network/cpu/step_layers-inl.hpp"
#include "network/selective/cpu/step.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// x = SiLU(bias + Σ_k weight[k] history[k]); the history (d_conv-1, d_inner) takes the new input in
template <class T>
HWY_INLINE void conv_step(T* x, T* history, const T* input, const selective::Packed<T>& w, std::size_t inner,
                          std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < inner; c += kLanes<T>) {
    const std::size_t count = std::min(kLanes<T>, inner - c);
    const auto x0 = load_first(history + c, count);
    const auto x1 = load_first(history + inner + c, count);
    const auto x2 = load_first(history + 2 * inner + c, count);
    const auto x3 = hn::Load(d, input + c);
    store_first(x1, history + c, count);
    store_first(x2, history + inner + c, count);
    store_first(x3, history + 2 * inner + c, count);
    const T* weight = w.conv_weight + c;
    auto v = hn::MulAdd(hn::Load(d, weight), x0, hn::Load(d, w.conv_bias + c));
    v = hn::MulAdd(hn::Load(d, weight + padded), x1, v);
    v = hn::MulAdd(hn::Load(d, weight + 2 * padded), x2, v);
    v = hn::MulAdd(hn::Load(d, weight + 3 * padded), x3, v);
    hn::Store(hn::Mul(v, sigmoid<T>(v)), d, x + c);
  }
}

/// delta = softplus(dt_proj(dt)): all of them before the scan, which would wait for one after the other
template <class T>
HWY_INLINE void step_sizes(T* delta, const T* dt, const cpu::PackedLinear<T>& w) {
  const Tag<T> d;
  for (std::size_t c = 0; c < w.outputs; c += kLanes<T>) {
    auto v = hn::Load(d, w.bias + c);
    for (std::size_t r = 0; r < w.inputs; ++r)
      v = hn::MulAdd(hn::Set(d, dt[r]), hn::Load(d, w.weight + r * w.outputs + c), v);
    hn::Store(softplus<T>(v), d, delta + c);
  }
}

/// s ← F s + Δ x B, g = (C·s + D x) SiLU(z); the state s is (d_state, d_inner). F is as the
/// Transition says (scan-inl.hpp).
template <class T, class Transition>
HWY_INLINE void scan_step(T* g, T* state, const T* x, const T* z, const T* delta, const T* B, const T* C,
                          const selective::Packed<T>& w, std::size_t states, std::size_t inner,
                          std::size_t padded) {
  const Tag<T> d;
  constexpr std::size_t U = Transition::kUnit;
  for (std::size_t c = 0; c < inner; c += kLanes<T>) {
    const std::size_t count = std::min(kLanes<T>, inner - c);
    const auto input = hn::Load(d, x + c);
    const auto step = hn::Load(d, delta + c);
    const auto step_input = hn::Mul(step, input);
    auto y = hn::Zero(d);
    for (std::size_t n = 0; n < states; n += U) {
      Vector<T> rates[U], factors[U], s[U], drive[U];
      MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
        rates[j] = hn::Load(d, w.rates + (n + j) * padded + c);
        s[j] = load_first(state + (n + j) * inner + c, count);
        drive[j] = hn::Mul(step_input, hn::Set(d, B[n + j]));
      }
      Transition::factors(factors, step, rates);
      Transition::advance(s, factors, drive);
      MAC_UNROLL for (std::size_t j = 0; j < U; ++j) {
        store_first(s[j], state + (n + j) * inner + c, count);
        y = hn::MulAdd(hn::Set(d, C[n + j]), s[j], y);
      }
    }
    y = hn::MulAdd(hn::Load(d, w.D + c), input, y);
    const auto gate = hn::Load(d, z + c);
    hn::Store(hn::Mul(y, hn::Mul(gate, sigmoid<T>(gate))), d, g + c);
  }
}

/// u ← Layer(u); Packed is a kind's.
template <class T, std::size_t S, class Transition, class Packed>
void selective_step(const Packed& packed, const StepTile<T>& a, T* state, std::size_t state_stride) {
  const selective::Packed<T>& w = packed;
  const selective::Sizes& sizes = w.sizes;
  const std::size_t inner = sizes.d_inner, rank = sizes.rank, states = sizes.d_state;
  T *const input = a.work, *const gate = input + w.inner, *const x = gate + w.inner;  // (padded d_inner)
  T *const delta = x + w.inner, *const g = delta + w.inner, *const narrow = g + w.inner;
  linear<T, S>(input, a.stride, a.u, a.stride, w.in_proj);
  for (std::size_t s = 0; s < S; ++s)
    conv_step(x + s * a.stride, state + s * state_stride, input + s * a.stride, w, inner, w.inner);
  linear<T, S>(narrow, a.stride, x, a.stride, w.x_proj);
  for (std::size_t s = 0; s < S; ++s) step_sizes(delta + s * a.stride, narrow + s * a.stride, w.dt_proj);
  for (std::size_t s = 0; s < S; ++s) {
    const T* B = narrow + s * a.stride + rank;
    scan_step<T, Transition>(g + s * a.stride, state + s * state_stride + (sizes.d_conv - 1) * inner,
                             x + s * a.stride, gate + s * a.stride, delta + s * a.stride, B, B + states, w,
                             states, inner, w.inner);
  }
  linear<T, S>(a.u, a.stride, g, a.stride, w.out_proj);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#endif
