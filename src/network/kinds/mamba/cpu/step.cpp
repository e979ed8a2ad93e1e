#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/mamba/cpu/step.cpp"
#include <hwy/foreach_target.h>

#include "network/kinds/mamba/cpu/step.hpp"
#include "network/kinds/mamba/cpu/transition-inl.hpp"
#include "network/selective/cpu/step-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
mamba::StepKernels<T> kernels() {
  return {&selective_step<T, 1, Decaying<T>, mamba::Packed<T>>,
          &selective_step<T, kStepTile, Decaying<T>, mamba::Packed<T>>};
}
mamba::StepKernels<float> mamba_step_float() { return kernels<float>(); }
mamba::StepKernels<double> mamba_step_double() { return kernels<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(mamba::StepKernels<float>, mamba::step_kernels<float>, mamba_step_float)
MAC_DISPATCH(mamba::StepKernels<double>, mamba::step_kernels<double>, mamba_step_double)
}  // namespace mac
#endif
