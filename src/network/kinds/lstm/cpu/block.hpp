// One LSTM block over a chunk of time points: h + LSTM(LayerNorm(h)), forward and backward. Its state is, in
// vectors, the hidden state (d_model), then the cell (d_model).
#pragma once

#include <algorithm>

#include "network/cpu/sequence_blocks.hpp"
#include "network/kinds/lstm/cpu/kernels.hpp"
#include "network/kinds/lstm/layer.hpp"

namespace mac::lstm {

/// The activations of a chunk and their gradients, reused by all blocks.
template <class T>
struct Work {
  Rows<T> u, stats;      // LayerNorm(h); mean and scale
  Rows<T> from_input;    // W_i u + b_i: i, f, g, o
  Rows<T> hidden, cell;  // one row before the first: the state that comes in
  Rows<T> saved;         // i, f, g, o, q
  Rows<T> d_u, d_gates;
  T* scratch;

  Work(cpu::Arena<T>& arena, const Sizes& sizes, std::size_t chunk) {
    const std::size_t d = sizes.d;
    u = arena.rows(chunk, d), stats = arena.rows(chunk, 2), d_u = arena.rows(chunk, d);
    hidden = arena.rows(chunk + 1, d), cell = arena.rows(chunk + 1, d);
    saved = arena.rows(chunk, 5 * d);
    from_input = arena.rows(chunk, 4 * d), d_gates = arena.rows(chunk, 4 * d);
    scratch = arena.vectors(4 * d);
  }
};

template <class T>
class Block {
 public:
  using Work = lstm::Work<T>;

  Block(const Sizes& sizes, const cpu::Kernels<T>& kernels, cpu::Arena<T>&,
        const BlockParameters<const T>& weights)
      : sizes_(sizes), k_(kernels), w_(view(sizes, weights.layer)), norm_(weights.norm), d_(sizes.d) {}

  static std::size_t place_of_state(const Sizes&, std::size_t i) { return i; }
  void take_weights() {}

  void forward(Rows<T> next, Rows<const T> h, T* state, Work& a, std::size_t rows) const {
    run(a, h, state, rows, {});
    k_.pointwise.add(next, h, a.hidden.skip(1), rows, d_);
    std::copy_n(a.hidden.row(rows), d_ * k_.lanes, state);
    std::copy_n(a.cell.row(rows), d_ * k_.lanes, state + d_ * k_.lanes);
  }

  void backward(Rows<T> d_h, T* d_state, const BlockParameters<T>& d_weights, Rows<const T> h, const T* state,
                Work& a, std::size_t rows) const {
    const Parameters<T> d_w = view(sizes_, d_weights.layer);
    run(a, h, state, rows, a.saved);
    lstm_.backward(a.d_gates, d_state, d_h, a.cell, a.saved, w_.hidden.weight, rows, d_);
    k_.linear.backward_weight(d_w.hidden.weight, d_w.hidden.bias, a.d_gates, a.hidden, rows, d_, 4 * d_);
    k_.linear.backward_weight(d_w.input.weight, d_w.input.bias, a.d_gates, a.u, rows, d_, 4 * d_);
    k_.linear.backward_input(a.d_u, {}, a.d_gates, w_.input.weight, rows, d_, 4 * d_);
    k_.pointwise.norm_backward(d_h, d_weights.norm.weight, d_weights.norm.bias, a.d_u, h, a.stats,
                               norm_.weight, rows, d_);
  }

 private:
  void run(Work& a, Rows<const T> h, const T* state, std::size_t rows, Rows<T> saved) const {
    k_.pointwise.norm_forward(a.u, a.stats, h, norm_.weight, norm_.bias, rows, d_);
    k_.linear.forward(a.from_input, {}, a.u, w_.input.weight, w_.input.bias, rows, d_, 4 * d_);
    std::copy_n(state, d_ * k_.lanes, a.hidden.data);
    std::copy_n(state + d_ * k_.lanes, d_ * k_.lanes, a.cell.data);
    lstm_.forward(a.hidden, a.cell, saved, a.from_input, w_.hidden.weight, w_.hidden.bias, a.scratch, rows,
                  d_);
  }

  Sizes sizes_;
  const cpu::Kernels<T>& k_;
  Kernels<T> lstm_ = kernels<T>();
  Parameters<const T> w_;
  NormParameters<const T> norm_;
  std::size_t d_;
};

}  // namespace mac::lstm
