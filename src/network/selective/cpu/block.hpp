// One selective block over a chunk of time points: h + Layer(LayerNorm(h)), forward and backward.
//
// The state of a block is, in vectors, the convolution's history (d_conv-1, d_inner), then the state-space
// state (d_inner, d_state).
#pragma once

#include <algorithm>

#include "network/cpu/sequence_blocks.hpp"
#include "network/selective/cpu/kernels.hpp"
#include "network/selective/layer.hpp"

namespace mac::selective {

/// The activations of a chunk and their gradients, reused by all blocks.
template <class T>
struct Work {
  static constexpr std::size_t kHistory = Sizes::d_conv - 1;

  Rows<T> u, stats;            // LayerNorm(h); mean and scale
  Rows<T> conv_in, z;          // in_proj(u); conv_in with the history before it
  Rows<T> x, x_slope;          // SiLU(conv)
  Rows<T> narrow;              // x_proj(x): dt, B, C
  Rows<T> delta, delta_slope;  // softplus(dt_proj(dt))
  Rows<T> y, g;                // scan, gated
  Rows<T> gate, gate_slope;    // SiLU(z)
  Rows<T> d_u, d_conv_in, d_z, d_x, d_narrow, d_delta, d_y, d_g;
  T* scan_scratch;

  Work(cpu::Arena<T>& arena, const Sizes& sizes, std::size_t chunk)
      : u(arena.rows(chunk, sizes.d_model)), stats(arena.rows(chunk, 2)) {
    const std::size_t inner = sizes.d_inner, narrow_width = sizes.rank + 2 * sizes.d_state;
    for (Rows<T>* wide : {&conv_in, &d_conv_in}) *wide = arena.rows(chunk + kHistory, inner);
    for (Rows<T>* wide : {&z, &x, &x_slope, &delta, &delta_slope, &y, &g, &gate, &gate_slope, &d_z, &d_x,
                          &d_delta, &d_y, &d_g})
      *wide = arena.rows(chunk, inner);
    narrow = arena.rows(chunk, narrow_width);
    d_narrow = arena.rows(chunk, narrow_width);
    d_u = arena.rows(chunk, sizes.d_model);
    scan_scratch = arena.vectors((2 * chunk + 1) * kScanTile);
  }
};

/// Recurrence<T> says what a kind makes of the rates, as each state's of a channel: rate(A_log, sizes, channel, state); and
/// has its kernels().
template <class T, template <class> class Recurrence>
class Block {
 public:
  using Work = selective::Work<T>;

  Block(const Sizes& sizes, const cpu::Kernels<T>& kernels, cpu::Arena<T>& arena,
        const BlockParameters<const T>& weights)
      : sizes_(sizes),
        k_(kernels),
        w_(view(sizes, weights.layer)),
        norm_(weights.norm),
        rates_(arena.numbers(sizes.d_inner * sizes.d_state)),
        d_(sizes.d_model),
        inner_(sizes.d_inner),
        rank_(sizes.rank),
        states_(sizes.d_state) {}

  /// The caller's state-space state is (d_state, d_inner), the kernels' (d_inner, d_state).
  static std::size_t place_of_state(const Sizes& s, std::size_t i) {
    const std::size_t history = (s.d_conv - 1) * s.d_inner;
    if (i < history) return i;
    const std::size_t n = (i - history) / s.d_inner, c = (i - history) % s.d_inner;
    return history + c * s.d_state + n;
  }

  void take_weights() {
    for (std::size_t c = 0; c < inner_; ++c)
      for (std::size_t n = 0; n < states_; ++n)
        rates_[c * states_ + n] = Recurrence<T>::rate(w_.A_log, sizes_, c, n);
  }

  /// next = h + Layer(LayerNorm(h)); the state is advanced.
  void forward(Rows<T> next, Rows<const T> h, T* state, Work& a, std::size_t rows) const {
    project(a, h, state, rows, narrow_width(), false);
    project_gate(a, rows);
    scan_.forward(a.y, state + history_size(), scan_input(a, rows));
    channels_.gate_forward(a.g, a.y, a.z, rows, inner_);
    k_.linear.forward(next, h, a.g, w_.out_proj, nullptr, rows, inner_, d_);
    std::copy_n(a.conv_in.row(rows), history_size(), state);
  }

  /// d_h comes in as the gradient of `next`, leaves as that of h; likewise d_state. `state` is the one before
  /// the chunk: all activations are computed again from it and h.
  void backward(Rows<T> d_h, T* d_state, const BlockParameters<T>& d_weights, Rows<const T> h, const T* state,
                Work& a, std::size_t rows) const {
    const Parameters<T> d_w = view(sizes_, d_weights.layer);
    project(a, h, state, rows, narrow_width(), true);
    project_gate(a, rows);
    k_.pointwise.silu_forward(a.gate, a.gate_slope, a.z, rows, inner_);

    k_.linear.backward_input(a.d_g, {}, d_h, w_.out_proj, rows, inner_, d_);
    channels_.gate_backward_y(a.d_y, a.d_g, a.gate, rows, inner_);
    const ScanRowGradients<T> d_scan{a.d_x,     a.d_delta, B(a.d_narrow),           C(a.d_narrow),
                                     d_w.A_log, d_w.D,     d_state + history_size()};
    scan_.backward(d_scan, a.y, a.d_y, state + history_size(), a.scan_scratch, scan_input(a, rows));
    channels_.gate_backward_z(a.d_z, a.g, a.d_g, a.y, a.gate, a.gate_slope, rows, inner_);
    k_.linear.backward_weight(d_w.out_proj, nullptr, d_h, a.g, rows, inner_, d_);

    k_.pointwise.multiply(a.d_delta, a.delta_slope, rows, inner_);
    k_.linear.backward_weight(d_w.step.weight, d_w.step.bias, a.d_delta, a.narrow, rows, rank_, inner_);
    k_.linear.backward_input(a.d_narrow, {}, a.d_delta, w_.step.weight, rows, rank_, inner_);
    k_.linear.backward_weight(d_w.x_proj, nullptr, a.d_narrow, a.x, rows, inner_, narrow_width());
    k_.linear.backward_input(a.d_x, a.d_x, a.d_narrow, w_.x_proj, rows, inner_, narrow_width());

    k_.pointwise.multiply(a.d_x, a.x_slope, rows, inner_);
    channels_.conv_backward(a.d_conv_in, d_w.conv_weight, d_w.conv_bias, a.d_x, a.conv_in, d_state,
                            w_.conv_weight, rows, inner_);
    std::copy_n(a.d_conv_in.data, history_size(), d_state);

    const Rows<T> d_input = a.d_conv_in.skip(Work::kHistory);
    k_.linear.backward_weight(d_w.in_proj, nullptr, d_input, a.u, rows, d_, inner_);
    k_.linear.backward_weight(d_w.in_proj + inner_ * d_, nullptr, a.d_z, a.u, rows, d_, inner_);
    k_.linear.backward_input(a.d_u, {}, d_input, w_.in_proj, rows, d_, inner_);
    k_.linear.backward_input(a.d_u, a.d_u, a.d_z, w_.in_proj + inner_ * d_, rows, d_, inner_);
    k_.pointwise.norm_backward(d_h, d_weights.norm.weight, d_weights.norm.bias, a.d_u, h, a.stats,
                               norm_.weight, rows, d_);
  }

 protected:
  Rows<T> history_rows(T* state) const { return {state, inner_ * k_.lanes}; }
  std::size_t history_size() const { return Work::kHistory * inner_ * k_.lanes; }
  std::size_t narrow_width() const { return rank_ + 2 * states_; }
  Rows<T> B(Rows<T> narrow) const { return {narrow.data + rank_ * k_.lanes, narrow.stride}; }
  Rows<T> C(Rows<T> narrow) const { return {narrow.data + (rank_ + states_) * k_.lanes, narrow.stride}; }

  ScanRows<T> scan_input(const Work& a, std::size_t rows) const {
    return {a.x, a.delta, B(a.narrow), C(a.narrow), rates_, w_.D, rows, inner_, states_};
  }

  /// Everything before the scan but the gate's input: of x_proj `narrow` outputs; the slopes too if a backward
  /// pass wants them.
  void project(Work& a, Rows<const T> h, const T* state, std::size_t rows, std::size_t narrow,
               bool slopes) const {
    k_.pointwise.norm_forward(a.u, a.stats, h, norm_.weight, norm_.bias, rows, d_);
    std::copy_n(state, history_size(), a.conv_in.data);
    k_.linear.forward(a.conv_in.skip(Work::kHistory), {}, a.u, w_.in_proj, nullptr, rows, d_, inner_);
    channels_.conv_forward(a.x, slopes ? a.x_slope : Rows<T>{}, a.conv_in, w_.conv_weight, w_.conv_bias, rows,
                           inner_);
    k_.linear.forward(a.narrow, {}, a.x, w_.x_proj, nullptr, rows, inner_, narrow);
    k_.linear.forward(a.delta, {}, a.narrow, w_.step.weight, w_.step.bias, rows, rank_, inner_);
    channels_.softplus_forward(a.delta, slopes ? a.delta_slope : Rows<T>{}, rows, inner_);
  }

  void project_gate(Work& a, std::size_t rows) const {
    k_.linear.forward(a.z, {}, a.u, w_.in_proj + inner_ * d_, nullptr, rows, d_, inner_);
  }

  Sizes sizes_;
  const cpu::Kernels<T>& k_;
  ChannelKernels<T> channels_ = channel_kernels<T>();
  ScanKernels<T> scan_ = Recurrence<T>::kernels();
  Parameters<const T> w_;
  NormParameters<const T> norm_;
  T* rates_;  // (d_inner, d_state)
  std::size_t d_, inner_, rank_, states_;
};

}  // namespace mac::selective
