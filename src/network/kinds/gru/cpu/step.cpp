// One step of a GRU layer with channels in lanes.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/gru/cpu/step.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/step_layers-inl.hpp"

#ifndef MAC_NETWORK_KINDS_GRU_CPU_STEP_ONCE
#define MAC_NETWORK_KINDS_GRU_CPU_STEP_ONCE
#include <algorithm>

#include "network/kinds/gru/cpu/step.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// With the gates' parts from the input and from the hidden state, each (3, padded d): hidden and out become
/// n + z (hidden − n), z the update gate, n = tanh(input part + r·hidden part)
template <class T>
HWY_INLINE void gru_gates(T* out, T* hidden, const T* from_input, const T* from_hidden, std::size_t count,
                          std::size_t padded) {
  const Tag<T> d;
  for (std::size_t c = 0; c < count; c += kLanes<T>) {
    const std::size_t lanes = std::min(kLanes<T>, count - c);
    const T *in = from_input + c, *hid = from_hidden + c;
    const auto r = sigmoid<T>(hn::Add(hn::Load(d, in), hn::Load(d, hid)));
    const auto z = sigmoid<T>(hn::Add(hn::Load(d, in + padded), hn::Load(d, hid + padded)));
    const auto n = tanh<T>(hn::MulAdd(r, hn::Load(d, hid + 2 * padded), hn::Load(d, in + 2 * padded)));
    const auto h = hn::MulAdd(z, hn::Sub(load_first(hidden + c, lanes), n), n);
    store_first(h, hidden + c, lanes);
    hn::Store(h, d, out + c);
  }
}

/// u ← GRU(u)
template <class T, std::size_t S>
void gru_step(const gru::Packed<T>& w, const StepTile<T>& a, T* state, std::size_t state_stride) {
  T *const from_input = a.work, *const from_hidden = from_input + 3 * w.padded;
  linear<T, S>(from_input, a.stride, a.u, a.stride, w.input);
  linear<T, S>(from_hidden, a.stride, state, state_stride, w.hidden);
  for (std::size_t s = 0; s < S; ++s)
    gru_gates(a.u + s * a.stride, state + s * state_stride, from_input + s * a.stride,
              from_hidden + s * a.stride, w.d, w.padded);
}

gru::StepKernels<float> gru_step_float() { return {&gru_step<float, 1>, &gru_step<float, kStepTile>}; }
gru::StepKernels<double> gru_step_double() { return {&gru_step<double, 1>, &gru_step<double, kStepTile>}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(gru::StepKernels<float>, gru::step_kernels<float>, gru_step_float)
MAC_DISPATCH(gru::StepKernels<double>, gru::step_kernels<double>, gru_step_double)
}  // namespace mac
#endif
