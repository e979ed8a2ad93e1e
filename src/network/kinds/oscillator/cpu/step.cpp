#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/oscillator/cpu/step.cpp"
#include <hwy/foreach_target.h>

#include "network/kinds/oscillator/cpu/step.hpp"
#include "network/kinds/oscillator/cpu/transition-inl.hpp"
#include "network/selective/cpu/step-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
oscillator::StepKernels<T> kernels() {
  return {&selective_step<T, 1, Turning<T>, oscillator::Packed<T>>,
          &selective_step<T, kStepTile, Turning<T>, oscillator::Packed<T>>};
}
oscillator::StepKernels<float> oscillator_step_float() { return kernels<float>(); }
oscillator::StepKernels<double> oscillator_step_double() { return kernels<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(oscillator::StepKernels<float>, oscillator::step_kernels<float>, oscillator_step_float)
MAC_DISPATCH(oscillator::StepKernels<double>, oscillator::step_kernels<double>, oscillator_step_double)
}  // namespace mac
#endif
