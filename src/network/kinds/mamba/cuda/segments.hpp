// Few long sequences on a large device: the Mamba's layers in segments of time that run at once.
//
// The state after a segment is linear in the state before it, s_end = exp(A Σ_t Δ_t) s_start + (s_end from
// zero), element by element. For each layer a first pass over all segments at once, from zero, gives
// Σ_t Δ_t and the last term; a walk over the segments then gives the states before each; and the layer's
// usual pass runs over all segments at once with these. The backward pass does the same with the states'
// gradients, from the end. Where segments meet, the convolution reaches back into the one before: its inputs
// there are computed beforehand, and their gradients go on to h afterwards.
//
// This is half as much work again, and layers run one after the other instead of at once.
#pragma once

#include <cstddef>

#include "network/kinds/mamba/cuda/problem.hpp"

namespace mac::cuda {

/// As many as `slots`, the blocks that the device holds, have room for; one, if cutting would not pay. Other
/// models that run at the same time do not count: each has the bytes it has alone.
Segments cut_sequences(int batch, int layers, int quads, int slots);

/// What a forward pass in segments leaves for the backward pass, beside the tape. The state of a layer is
/// that of StateOfLayer.
struct SegmentStates {
  float* starts;     // (layer, segment of a sequence, state of a layer)
  float* step_sums;  // (layer, segment of a sequence, d_inner): Σ_t Δ_t
};

/// Problems of whole sequences, whose `quads` are all_quads(); `counters` are those of
/// segment_counters(..). `borders` is room for the states of a layer at all segments' ends.
std::size_t segment_counters(int sequences, int layers, Segments segments);
void forward_in_segments(const MambaForward& problem, Segments segments, const SegmentStates& states,
                         float* borders, const LaunchPlan& plan, cudaStream_t stream);

/// The partials are (layer, model, segment of a sequence, offsets.size), `gradients` those of one layer, and
/// `borders` is twice as large.
void backward_in_segments(const MambaBackward& problem, Segments segments, const SegmentStates& states,
                          float* borders, const LaunchPlan& plan, cudaStream_t stream);

}  // namespace mac::cuda
