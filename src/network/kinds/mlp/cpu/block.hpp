// One block without memory over a chunk of time points: h + MLP(LayerNorm(h)), forward and backward, from the
// kernels that all kinds share.
#pragma once

#include "network/cpu/sequence_blocks.hpp"
#include "network/kinds/mlp/layer.hpp"

namespace mac::mlp {

using cpu::Rows;

/// The activations of a chunk and their gradients, reused by all blocks.
template <class T>
struct Work {
  Rows<T> u, stats;          // LayerNorm(h); mean and scale
  Rows<T> activated, slope;  // SiLU(W_up u + b_up)
  Rows<T> d_u, d_activated;

  Work(cpu::Arena<T>& arena, const Sizes& sizes, std::size_t chunk)
      : u(arena.rows(chunk, sizes.d)),
        stats(arena.rows(chunk, 2)),
        activated(arena.rows(chunk, sizes.inner)),
        slope(arena.rows(chunk, sizes.inner)),
        d_u(arena.rows(chunk, sizes.d)),
        d_activated(arena.rows(chunk, sizes.inner)) {}
};

template <class T>
class Block {
 public:
  using Work = mlp::Work<T>;

  Block(const Sizes& sizes, const cpu::Kernels<T>& kernels, cpu::Arena<T>&,
        const BlockParameters<const T>& weights)
      : sizes_(sizes), k_(kernels), w_(view(sizes, weights.layer)), norm_(weights.norm) {}

  static std::size_t place_of_state(const Sizes&, std::size_t i) { return i; }
  void take_weights() {}

  void forward(Rows<T> next, Rows<const T> h, T*, Work& a, std::size_t rows) const {
    activate(a, h, rows, {});
    k_.linear.forward(next, h, a.activated, w_.down.weight, w_.down.bias, rows, sizes_.inner, sizes_.d);
  }

  void backward(Rows<T> d_h, T*, const BlockParameters<T>& d_weights, Rows<const T> h, const T*, Work& a,
                std::size_t rows) const {
    const std::size_t d = sizes_.d, inner = sizes_.inner;
    const Parameters<T> d_w = view(sizes_, d_weights.layer);
    activate(a, h, rows, a.slope);
    k_.linear.backward_weight(d_w.down.weight, d_w.down.bias, d_h, a.activated, rows, inner, d);
    k_.linear.backward_input(a.d_activated, {}, d_h, w_.down.weight, rows, inner, d);
    k_.pointwise.multiply(a.d_activated, a.slope, rows, inner);
    k_.linear.backward_weight(d_w.up.weight, d_w.up.bias, a.d_activated, a.u, rows, d, inner);
    k_.linear.backward_input(a.d_u, {}, a.d_activated, w_.up.weight, rows, d, inner);
    k_.pointwise.norm_backward(d_h, d_weights.norm.weight, d_weights.norm.bias, a.d_u, h, a.stats,
                               norm_.weight, rows, d);
  }

 private:
  void activate(Work& a, Rows<const T> h, std::size_t rows, Rows<T> slope) const {
    k_.pointwise.norm_forward(a.u, a.stats, h, norm_.weight, norm_.bias, rows, sizes_.d);
    k_.linear.forward(a.activated, {}, a.u, w_.up.weight, w_.up.bias, rows, sizes_.d, sizes_.inner);
    k_.pointwise.silu_forward(a.activated, slope, a.activated, rows, sizes_.inner);
  }

  Sizes sizes_;
  const cpu::Kernels<T>& k_;
  Parameters<const T> w_;
  NormParameters<const T> norm_;
};

}  // namespace mac::mlp
