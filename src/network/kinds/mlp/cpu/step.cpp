// One step of a layer without memory with channels in lanes.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/mlp/cpu/step.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/step_layers-inl.hpp"

#ifndef MAC_NETWORK_KINDS_MLP_CPU_STEP_ONCE
#define MAC_NETWORK_KINDS_MLP_CPU_STEP_ONCE
#include "network/kinds/mlp/cpu/step.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// u ← W_down SiLU(W_up u + b_up) + b_down
template <class T, std::size_t S>
void mlp_step(const mlp::Packed<T>& w, const StepTile<T>& a, T*, std::size_t) {
  linear<T, S>(a.work, a.stride, a.u, a.stride, w.up);
  for (std::size_t s = 0; s < S; ++s) silu_in_place(a.work + s * a.stride, w.up.outputs);
  linear<T, S>(a.u, a.stride, a.work, a.stride, w.down);
}

mlp::StepKernels<float> mlp_step_float() { return {&mlp_step<float, 1>, &mlp_step<float, kStepTile>}; }
mlp::StepKernels<double> mlp_step_double() { return {&mlp_step<double, 1>, &mlp_step<double, kStepTile>}; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(mlp::StepKernels<float>, mlp::step_kernels<float>, mlp_step_float)
MAC_DISPATCH(mlp::StepKernels<double>, mlp::step_kernels<double>, mlp_step_double)
}  // namespace mac
#endif
