// One step of an LSTM layer with channels in lanes.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/lstm/cpu/step.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/step_layers-inl.hpp"

#ifndef MAC_NETWORK_KINDS_LSTM_CPU_STEP_ONCE
#define MAC_NETWORK_KINDS_LSTM_CPU_STEP_ONCE
#include <algorithm>

#include "network/kinds/lstm/cpu/step.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// With the gates' parts from the input and from the hidden state, each (4, padded d): cell becomes
/// f cell + i g, hidden and out become o tanh(cell)
template <class T>
HWY_INLINE void lstm_gates(T* out, T* hidden, T* cell, const T* from_input, const T* from_hidden,
                           std::size_t count, std::size_t padded) {
  const Tag<T> d;
  for (std::size_t k = 0; k < count; k += kLanes<T>) {
    const std::size_t lanes = std::min(kLanes<T>, count - k);
    const T *in = from_input + k, *hid = from_hidden + k;
    const auto i = sigmoid<T>(hn::Add(hn::Load(d, in), hn::Load(d, hid)));
    const auto f = sigmoid<T>(hn::Add(hn::Load(d, in + padded), hn::Load(d, hid + padded)));
    const auto g = tanh<T>(hn::Add(hn::Load(d, in + 2 * padded), hn::Load(d, hid + 2 * padded)));
    const auto o = sigmoid<T>(hn::Add(hn::Load(d, in + 3 * padded), hn::Load(d, hid + 3 * padded)));
    const auto c = hn::MulAdd(f, load_first(cell + k, lanes), hn::Mul(i, g));
    const auto h = hn::Mul(o, tanh<T>(c));
    store_first(c, cell + k, lanes);
    store_first(h, hidden + k, lanes);
    hn::Store(h, d, out + k);
  }
}

/// u ← LSTM(u)
template <class T, std::size_t S>
void lstm_step(const lstm::Packed<T>& w, const StepTile<T>& a, T* state, std::size_t state_stride) {
  T *const from_input = a.work, *const from_hidden = from_input + 4 * w.padded;
  linear<T, S>(from_input, a.stride, a.u, a.stride, w.input);
  linear<T, S>(from_hidden, a.stride, state, state_stride, w.hidden);
  for (std::size_t s = 0; s < S; ++s) {
    T* const hidden = state + s * state_stride;
    lstm_gates(a.u + s * a.stride, hidden, hidden + w.d, from_input + s * a.stride,
               from_hidden + s * a.stride, w.d, w.padded);
  }
}

lstm::StepKernels<float> lstm_step_float() { return {&lstm_step<float, 1>, &lstm_step<float, kStepTile>}; }
lstm::StepKernels<double> lstm_step_double() {
  return {&lstm_step<double, 1>, &lstm_step<double, kStepTile>};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(lstm::StepKernels<float>, lstm::step_kernels<float>, lstm_step_float)
MAC_DISPATCH(lstm::StepKernels<double>, lstm::step_kernels<double>, lstm_step_double)
}  // namespace mac
#endif
