#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/derivative/kernels.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/step_layers-inl.hpp"

#ifndef MAC_NETWORK_DERIVATIVE_KERNELS_ONCE
#define MAC_NETWORK_DERIVATIVE_KERNELS_ONCE
#include <algorithm>

#include "network/derivative/kernels.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

void linear_samples(double* out, std::size_t out_stride, const double* in, std::size_t in_stride,
                    const PackedLinear<double>& w, std::size_t samples) {
  std::size_t s = 0;
  for (; s + kStepTile <= samples; s += kStepTile)
    linear<double, kStepTile>(out + s * out_stride, out_stride, in + s * in_stride, in_stride, w);
  for (; s < samples; ++s)
    linear<double, 1>(out + s * out_stride, out_stride, in + s * in_stride, in_stride, w);
}

template <class Function>
HWY_INLINE void map(double* out, const double* in, std::size_t count, const Function& function) {
  for (std::size_t c = 0; c < count; c += kLanes<double>) {
    const std::size_t part = std::min(kLanes<double>, count - c);
    store_first(function(load_first(in + c, part)), out + c, part);
  }
}

void sigmoid_array(double* out, const double* in, std::size_t count) {
  map(out, in, count, [](auto x) HWY_ATTR { return sigmoid<double>(x); });
}
void tanh_array(double* out, const double* in, std::size_t count) {
  map(out, in, count, [](auto x) HWY_ATTR { return tanh<double>(x); });
}
void softplus_array(double* out, const double* in, std::size_t count) {
  map(out, in, count, [](auto x) HWY_ATTR { return softplus<double>(x); });
}
void decay_array(double* out, const double* delta, const double* rate, std::size_t count) {
  for (std::size_t c = 0; c < count; c += kLanes<double>) {
    const std::size_t part = std::min(kLanes<double>, count - c);
    store_first(decay<double>(load_first(delta + c, part), load_first(rate + c, part)), out + c, part);
  }
}

void turn_array(double* cosine, double* sine, const double* delta, const double* rate, std::size_t count) {
  for (std::size_t c = 0; c < count; c += kLanes<double>) {
    const std::size_t part = std::min(kLanes<double>, count - c);
    Vector<double> along, across;
    turn<double>(load_first(delta + c, part), load_first(rate + c, part), along, across);
    store_first(along, cosine + c, part);
    store_first(across, sine + c, part);
  }
}

derivative::Kernels derivative_kernels() {
  return {kLanes<double>,  &linear_samples, &sigmoid_array, &tanh_array,
          &softplus_array, &decay_array,    &turn_array};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
HWY_EXPORT(derivative_kernels);
derivative::Kernels derivative::kernels() { return HWY_DYNAMIC_DISPATCH(derivative_kernels)(); }
}  // namespace mac
#endif
