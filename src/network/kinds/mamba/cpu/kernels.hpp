// The kernels of a Mamba block in the sequence engine beside those of every selective block.
#pragma once

#include "network/selective/cpu/kernels.hpp"

namespace mac::mamba {

using cpu::Rows;

/// What segments ask for (network/cpu/segments.hpp).
template <class T>
struct SegmentKernels {
  /// The state alone: advanced as by forward. step_sums (d_inner, lane) += Σ_t Δ_t
  void (*advance)(T* state, T* step_sums, const selective::ScanRows<T>& in);
  /// Its gradient alone: that after the last row becomes that before the first. in.x and in.B are not read.
  void (*retreat)(T* d_state, Rows<const T> d_y, const selective::ScanRows<T>& in);
  /// decays (d_inner, d_state, lane) = exp(A Σ Δ): what of a state is left after rows with these sums
  void (*decays)(T* decays, const T* step_sums, const T* decay_rate, std::size_t inner, std::size_t states);
};

template <class T>
selective::ScanKernels<T> scan_kernels();
template <class T>
SegmentKernels<T> segment_kernels();

}  // namespace mac::mamba
