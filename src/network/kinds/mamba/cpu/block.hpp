// A Mamba block over a chunk of time points, and what its segments ask for.
#pragma once

#include "network/kinds/mamba/cpu/kernels.hpp"
#include "network/kinds/mamba/layer.hpp"
#include "network/selective/cpu/block.hpp"

namespace mac::mamba {

template <class T>
struct Recurrence : Rates<T> {
  static selective::ScanKernels<T> kernels() { return scan_kernels<T>(); }
};

template <class T>
class Block : public selective::Block<T, Recurrence> {
  using Base = selective::Block<T, Recurrence>;
  using Base::channels_, Base::d_, Base::history_rows, Base::history_size, Base::inner_, Base::k_,
      Base::narrow_width, Base::norm_, Base::project, Base::project_gate, Base::rank_, Base::rates_,
      Base::scan_input, Base::sizes_, Base::states_, Base::w_;

 public:
  using Base::Base;
  using Work = selective::Work<T>;

  // --- Segments (cpu::SegmentBlocks): after a segment, s = exp(A Σ Δ) s_before + s_from_zero. ------------------

  static constexpr std::size_t kReach = Work::kHistory;

  std::size_t history_vectors() const { return Work::kHistory * inner_; }
  std::size_t sum_vectors() const { return inner_; }

  void find_history(T* state, Rows<const T> h, Work& a) const {
    k_.pointwise.norm_forward(a.u, a.stats, h, norm_.weight, norm_.bias, kReach, d_);
    k_.linear.forward(history_rows(state), {}, a.u, w_.in_proj, nullptr, kReach, d_, inner_);
  }

  void advance(T* state, T* step_sums, Rows<const T> h, Work& a, std::size_t rows) const {
    project(a, h, state, rows, rank_ + states_, false);
    segments_.advance(state + history_size(), step_sums, scan_input(a, rows));
    std::copy_n(a.conv_in.row(rows), history_size(), state);
  }

  void retreat(T* d_state, Rows<const T> d_h, Rows<const T> h, const T* state, Work& a,
               std::size_t rows) const {
    project(a, h, state, rows, narrow_width(), false);
    project_gate(a, rows);
    k_.pointwise.silu_forward(a.gate, {}, a.z, rows, inner_);
    k_.linear.backward_input(a.d_g, {}, d_h, w_.out_proj, rows, inner_, d_);
    channels_.gate_backward_y(a.d_y, a.d_g, a.gate, rows, inner_);
    segments_.retreat(d_state + history_size(), a.d_y, scan_input(a, rows));
  }

  void find_decays(T* decays, const T* step_sums) const {
    segments_.decays(decays + history_size(), step_sums, rates_, inner_, states_);
  }

  void history_backward(Rows<T> d_h, const BlockParameters<T>& d_weights, Rows<const T> h, T* d_state,
                        Work& a) const {
    const Parameters<T> d_w = view(sizes_, d_weights.layer);
    const Rows<T> d_input = history_rows(d_state);
    k_.pointwise.norm_forward(a.u, a.stats, h, norm_.weight, norm_.bias, kReach, d_);
    k_.linear.backward_weight(d_w.in_proj, nullptr, d_input, a.u, kReach, d_, inner_);
    k_.linear.backward_input(a.d_u, {}, d_input, w_.in_proj, kReach, d_, inner_);
    k_.pointwise.norm_backward(d_h, d_weights.norm.weight, d_weights.norm.bias, a.d_u, h, a.stats,
                               norm_.weight, kReach, d_);
  }

 private:
  SegmentKernels<T> segments_ = segment_kernels<T>();
};

}  // namespace mac::mamba
