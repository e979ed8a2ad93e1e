// The recurrence of an LSTM block: with h and c the state that comes in,
//
//   i = σ(in_i + W_i h + b_i),  f = σ(in_f + W_f h + b_f),  g = tanh(in_g + W_g h + b_g),  o = σ(in_o + W_o h + b_o)
//   c' = f c + i g,  h' = o q,  q = tanh(c')
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/kinds/lstm/cpu/recurrence.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/linear-inl.hpp"
#include "network/kinds/lstm/cpu/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void lstm_forward(Rows<T> hidden, Rows<T> cell, Rows<T> saved, Rows<const T> from_input, const T* weight,
                  const T* bias, T* scratch, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t gate = channels * W;  // from one gate to the next
  for (std::size_t t = 0; t < rows; ++t) {
    affine<T>({{scratch, 0}, {}, {hidden.row(t), 0}, {weight, channels, 1}, bias, channels}, 1, 4 * channels);
    for (std::size_t k = 0; k < gate; k += W) {
      const T *in = from_input.row(t) + k, *hid = scratch + k;
      const auto i = sigmoid<T>(hn::Add(hn::Load(d, in), hn::Load(d, hid)));
      const auto f = sigmoid<T>(hn::Add(hn::Load(d, in + gate), hn::Load(d, hid + gate)));
      const auto g = tanh<T>(hn::Add(hn::Load(d, in + 2 * gate), hn::Load(d, hid + 2 * gate)));
      const auto o = sigmoid<T>(hn::Add(hn::Load(d, in + 3 * gate), hn::Load(d, hid + 3 * gate)));
      const auto c = hn::MulAdd(f, hn::Load(d, cell.row(t) + k), hn::Mul(i, g));
      const auto q = tanh<T>(c);
      hn::Store(c, d, cell.row(t + 1) + k);
      hn::Store(hn::Mul(o, q), d, hidden.row(t + 1) + k);
      if (!saved.data) continue;
      T* keep = saved.row(t) + k;
      hn::Store(i, d, keep), hn::Store(f, d, keep + gate), hn::Store(g, d, keep + 2 * gate);
      hn::Store(o, d, keep + 3 * gate), hn::Store(q, d, keep + 4 * gate);
    }
  }
}

template <class T>
void lstm_backward(Rows<T> d_gates, T* d_state, Rows<const T> d_out, Rows<const T> cell, Rows<const T> saved,
                   const T* weight, std::size_t rows, std::size_t channels) {
  const Tag<T> d;
  constexpr std::size_t W = kLanes<T>;
  const std::size_t gate = channels * W;
  const auto one = hn::Set(d, T(1));
  T *const d_hidden = d_state, *const d_cell = d_state + gate;
  for (std::size_t t = rows; t-- > 0;) {
    for (std::size_t k = 0; k < gate; k += W) {
      const T* keep = saved.row(t) + k;
      const auto i = hn::Load(d, keep), f = hn::Load(d, keep + gate), g = hn::Load(d, keep + 2 * gate);
      const auto o = hn::Load(d, keep + 3 * gate), q = hn::Load(d, keep + 4 * gate);
      const auto d_h = hn::Add(hn::Load(d, d_out.row(t) + k), hn::Load(d, d_hidden + k));
      const auto d_c = hn::MulAdd(hn::Mul(d_h, o), hn::NegMulAdd(q, q, one), hn::Load(d, d_cell + k));
      const auto slope = [&](auto s) { return hn::Mul(s, hn::Sub(one, s)); };  // of a sigmoid
      T* const to = d_gates.row(t) + k;
      hn::Store(hn::Mul(hn::Mul(d_c, g), slope(i)), d, to);
      hn::Store(hn::Mul(hn::Mul(d_c, hn::Load(d, cell.row(t) + k)), slope(f)), d, to + gate);
      hn::Store(hn::Mul(hn::Mul(d_c, i), hn::NegMulAdd(g, g, one)), d, to + 2 * gate);
      hn::Store(hn::Mul(hn::Mul(d_h, q), slope(o)), d, to + 3 * gate);
      hn::Store(hn::Mul(d_c, f), d, d_cell + k);
    }
    affine<T>({{d_hidden, 0}, {}, {d_gates.row(t), 0}, {weight, 1, channels}, nullptr, 4 * channels}, 1,
              channels);
  }
}

template <class T>
lstm::Kernels<T> table() {
  return {&lstm_forward<T>, &lstm_backward<T>};
}
lstm::Kernels<float> lstm_table_float() { return table<float>(); }
lstm::Kernels<double> lstm_table_double() { return table<double>(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
MAC_DISPATCH(lstm::Kernels<float>, lstm::kernels<float>, lstm_table_float)
MAC_DISPATCH(lstm::Kernels<double>, lstm::kernels<double>, lstm_table_double)
}  // namespace mac
#endif
