// The scan of an oscillator block.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/oscillator/cpu/scan.cpp"
#include <hwy/foreach_target.h>

#include "network/kinds/oscillator/cpu/block.hpp"
#include "network/kinds/oscillator/cpu/transition-inl.hpp"
#include "network/selective/cpu/scan-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
selective::ScanKernels<T> scan_table() {
  return {&scan_forward<T, Turning<T>>, &scan_backward<T, Turning<T>>};
}
selective::ScanKernels<float> oscillator_scan_float() { return scan_table<float>(); }
selective::ScanKernels<double> oscillator_scan_double() { return scan_table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(selective::ScanKernels<float>, oscillator::scan_kernels<float>, oscillator_scan_float)
MAC_DISPATCH(selective::ScanKernels<double>, oscillator::scan_kernels<double>, oscillator_scan_double)
}  // namespace mac
#endif
