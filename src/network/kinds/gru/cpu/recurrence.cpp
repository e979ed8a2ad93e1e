// The recurrence of a GRU block: with h the state that comes in,
//
//   r = σ(in_r + W_r h + b_r),  z = σ(in_z + W_z h + b_z),  q = W_n h + b_n,  n = tanh(in_n + r q)
//   h' = n + z (h − n)
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/gru/cpu/recurrence.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/linear-inl.hpp"
#include "network/kinds/gru/cpu/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void gru_forward(Rows<T> hidden, Rows<T> saved, Rows<const T> from_input, const T* weight, const T* bias,
                 T* scratch, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t gate = channels * W;  // from one gate to the next
  for (std::size_t t = 0; t < rows; ++t) {
    const T* before = hidden.row(t);
    affine<T>({{scratch, 0}, {}, {before, 0}, {weight, channels, 1}, bias, channels}, 1, 3 * channels);
    for (std::size_t c = 0; c < gate; c += W) {
      const T *in = from_input.row(t) + c, *hid = scratch + c;
      const auto r = sigmoid<T>(hn::Add(hn::Load(d, in), hn::Load(d, hid)));
      const auto z = sigmoid<T>(hn::Add(hn::Load(d, in + gate), hn::Load(d, hid + gate)));
      const auto q = hn::Load(d, hid + 2 * gate);
      const auto n = tanh<T>(hn::MulAdd(r, q, hn::Load(d, in + 2 * gate)));
      hn::Store(hn::MulAdd(z, hn::Sub(hn::Load(d, before + c), n), n), d, hidden.row(t + 1) + c);
      if (!saved.data) continue;
      T* keep = saved.row(t) + c;
      hn::Store(r, d, keep), hn::Store(z, d, keep + gate);
      hn::Store(n, d, keep + 2 * gate), hn::Store(q, d, keep + 3 * gate);
    }
  }
}

template <class T>
void gru_backward(Rows<T> d_input, Rows<T> d_recurrent, T* d_hidden, Rows<const T> d_out,
                  Rows<const T> hidden, Rows<const T> saved, const T* weight, std::size_t rows,
                  std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t gate = channels * W;
  const auto one = hn::Set(d, T(1));
  for (std::size_t t = rows; t-- > 0;) {
    for (std::size_t c = 0; c < gate; c += W) {
      const T* keep = saved.row(t) + c;
      const auto r = hn::Load(d, keep), z = hn::Load(d, keep + gate);
      const auto n = hn::Load(d, keep + 2 * gate), q = hn::Load(d, keep + 3 * gate);
      const auto d_h = hn::Add(hn::Load(d, d_out.row(t) + c), hn::Load(d, d_hidden + c));
      const auto d_n = hn::Mul(hn::Mul(d_h, hn::Sub(one, z)), hn::NegMulAdd(n, n, one));
      const auto d_z =
          hn::Mul(hn::Mul(d_h, hn::Sub(hn::Load(d, hidden.row(t) + c), n)), hn::Mul(z, hn::Sub(one, z)));
      const auto d_r = hn::Mul(hn::Mul(d_n, q), hn::Mul(r, hn::Sub(one, r)));
      T *in = d_input.row(t) + c, *recurrent = d_recurrent.row(t) + c;
      hn::Store(d_r, d, in), hn::Store(d_r, d, recurrent);
      hn::Store(d_z, d, in + gate), hn::Store(d_z, d, recurrent + gate);
      hn::Store(d_n, d, in + 2 * gate), hn::Store(hn::Mul(d_n, r), d, recurrent + 2 * gate);
      hn::Store(hn::Mul(d_h, z), d, d_hidden + c);
    }
    const Rows<T> carried{d_hidden, 0};
    affine<T>({carried, carried, {d_recurrent.row(t), 0}, {weight, 1, channels}, nullptr, 3 * channels}, 1,
              channels);
  }
}

template <class T>
gru::Kernels<T> table() {
  return {&gru_forward<T>, &gru_backward<T>};
}
gru::Kernels<float> gru_table_float() { return table<float>(); }
gru::Kernels<double> gru_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(gru::Kernels<float>, gru::kernels<float>, gru_table_float)
MAC_DISPATCH(gru::Kernels<double>, gru::kernels<double>, gru_table_double)
}  // namespace mac
#endif
