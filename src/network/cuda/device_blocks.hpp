// The blocks of a network on the device, as their kind computes them.
#pragma once

#include <mac/network.hpp>
#include <memory>

#include "network/cuda/blocks_problem.hpp"
#include "network/cuda/device.hpp"

namespace mac::cuda {

/// What a forward pass leaves on the device for its backward pass.
class DeviceTape final : public Tape {
 public:
  SequenceDims dims{};                // of the forward pass it holds
  DeviceArray<float> h;               // (layer + 1, sequence, quad, d_model, 4): the residual stream
  DeviceArray<float> activations;     // see BlocksProblem::tape
  DeviceArray<float> checkpoints;     // Mamba only
  DeviceArray<float> segment_states;  // see SegmentStates, of a pass in segments
  DeviceArray<char> general;          // all that a pass of the general path leaves, in its scalar

  /// Throws Error if the backward pass is of other dims.
  void expect(SequenceDims backward) const;
};

inline int quads_of(SequenceDims dims) { return static_cast<int>((dims.time + 3) / 4); }

/// Offset of a tensor of blocks.0 within the block.
int offset_in_block(const ParameterLayout& layout, const char* name);
/// Parameters of a block.
int block_size(const ParameterLayout& layout, const NetworkShape& shape);

class DeviceBlocks {
 public:
  virtual ~DeviceBlocks() = default;

  const LaunchPlan& forward_plan() const { return forward_plan_; }
  const LaunchPlan& backward_plan() const { return backward_plan_; }

  /// How sequences are cut in time.
  virtual Segments segments(SequenceDims dims) const = 0;
  /// Numbers of the tape for a quad of steps of one layer.
  virtual std::size_t activations_per_quad() const = 0;
  /// Numbers that a forward pass leaves beside the residual stream and these, of one model.
  virtual std::size_t further_tape(SequenceDims dims) const = 0;
  /// Counters of a pipeline in more than one segment.
  virtual std::size_t counters_in_segments(SequenceDims dims) const = 0;

  virtual void forward(const BlocksProblem& problem, SequenceDims dims, float* final_state, DeviceTape* tape,
                       cudaStream_t stream) = 0;
  virtual void backward(const BlocksProblem& problem, const BlocksGradients& gradients, SequenceDims dims,
                        DeviceTape& tape, cudaStream_t stream) = 0;

 protected:
  LaunchPlan forward_plan_{}, backward_plan_{};
};

/// For kinds that have no kernels for single steps, and for ensembles.
[[noreturn]] void refuse_steps(LayerKind kind);
[[noreturn]] void refuse_ensemble();

/// Null if the network does not fit the device, or its kind has no such kernels.
std::unique_ptr<DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t models);

}  // namespace mac::cuda

namespace mac {

// Each kind defines its own.
#define MAC_KIND(kind)                                                                                   \
  namespace kind {                                                                                       \
  std::unique_ptr<cuda::DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t models); \
  }
MAC_LAYER_KINDS(MAC_KIND)
#undef MAC_KIND

}  // namespace mac
