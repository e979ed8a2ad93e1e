// A selective layer packed for steps.
#pragma once

#include "network/cpu/packer.hpp"
#include "network/cpu/step_blocks.hpp"
#include "network/selective/layer.hpp"

namespace mac::selective {

template <class T>
struct Packed {
  Sizes sizes;
  std::size_t inner;             // padded d_inner
  cpu::PackedLinear<T> in_proj;  // d_model -> x, then z, each padded
  const T* conv_weight;          // (d_conv, padded d_inner)
  const T* conv_bias;            // (padded d_inner)
  cpu::PackedLinear<T> x_proj;   // d_inner -> dt, B, C without gaps
  cpu::PackedLinear<T> dt_proj;  // rank -> d_inner
  const T* rates;                // (d_state, padded d_inner): those of the kind
  const T* D;                    // (padded d_inner)
  cpu::PackedLinear<T> out_proj;

  /// rate(A_log, sizes, channel, state) is the kind's.
  template <class Rate>
  Packed(cpu::Packer<T>& packer, const Sizes& s, const Parameters<const T>& w, const Rate& rate)
      : sizes(s),
        inner(packer.padded(s.d_inner)),
        in_proj(packer.linear(w.in_proj, nullptr, s.d_model, s.d_inner, 2)),
        conv_weight(packer.pack(
            s.d_conv, s.d_inner,
            [&](std::size_t tap, std::size_t c) { return w.conv_weight[c * Sizes::d_conv + tap]; })),
        conv_bias(packer.row(w.conv_bias, s.d_inner)),
        x_proj(packer.linear(w.x_proj, nullptr, s.d_inner, s.rank + 2 * s.d_state)),
        dt_proj(packer.linear(w.step.weight, w.step.bias, s.rank, s.d_inner)),
        rates(packer.pack(s.d_state, s.d_inner,
                          [&](std::size_t n, std::size_t c) { return rate(w.A_log, s, c, n); })),
        D(packer.row(w.D, s.d_inner)),
        out_proj(packer.linear(w.out_proj, nullptr, s.d_inner, s.d_model)) {}

  /// x, z, the convolution's output, Δ and the gated output, of d_inner; x_proj's output.
  std::size_t scratch_size() const { return 5 * inner + x_proj.outputs; }
};

}  // namespace mac::selective
