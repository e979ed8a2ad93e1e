#include <algorithm>

#include "network/cuda/device_blocks.hpp"
#include "network/kinds/mamba/cuda/problem.hpp"
#include "network/kinds/mamba/cuda/segments.hpp"
#include "network/kinds/mamba/layer.hpp"

namespace mac::mamba {

namespace {

using namespace cuda;

class MambaBlocks final : public DeviceBlocks {
 public:
  MambaBlocks(const NetworkShape& shape, std::size_t models) : shape_(shape), models_(models) {
    const ParameterLayout layout(shape);
    const auto offset = [&](const char* name) { return offset_in_block(layout, name); };
    offsets_ = {offset("norm.weight"),           offset("norm.bias"),
                offset("mamba.in_proj.weight"),  offset("mamba.conv1d.weight"),
                offset("mamba.conv1d.bias"),     offset("mamba.x_proj.weight"),
                offset("mamba.dt_proj.weight"),  offset("mamba.dt_proj.bias"),
                offset("mamba.A_log"),           offset("mamba.D"),
                offset("mamba.out_proj.weight"), block_size(layout, shape)};
    plan();
  }

  bool fits() const { return fits_; }

  Segments segments(SequenceDims dims) const override {
    const int blocks = std::min(forward_plan_.blocks, backward_plan_.blocks);
    return cut_sequences(static_cast<int>(dims.batch), static_cast<int>(shape_.n_blocks), quads_of(dims),
                         multiprocessors() * blocks);
  }
  std::size_t activations_per_quad() const override {
    return 4 * static_cast<std::size_t>(sizes_.tape_rows());
  }
  std::size_t further_tape(SequenceDims dims) const override {
    return (checkpoints_size(dims) + segment_states_size(dims)) / models_;
  }
  std::size_t counters_in_segments(SequenceDims dims) const override {
    return segment_counters(static_cast<int>(models_ * dims.batch), static_cast<int>(shape_.n_blocks),
                            segments(dims));
  }

  void forward(const BlocksProblem& problem, SequenceDims dims, float* final_state, DeviceTape* tape,
               cudaStream_t stream) override {
    const MambaForward forward{with_sizes(problem, dims, tape), final_state};
    const Segments cut = segments(dims);
    if (cut.count == 1) return launch_mamba_forward(forward, forward_plan_, stream);
    const SegmentStates states = segment_states(dims, tape ? tape->segment_states : segment_states_);
    borders_.reserve(border_size(dims));
    forward_in_segments(forward, cut, states, borders_.data(), forward_plan_, stream);
  }

  void backward(const BlocksProblem& problem, const BlocksGradients& gradients, SequenceDims dims,
                DeviceTape& tape, cudaStream_t stream) override {
    MambaBackward backward{with_sizes(problem, dims, &tape), gradients};
    const Segments cut = segments(dims);
    if (!backward_plan_.shared_sums) {
      const std::size_t layers = cut.count == 1 ? shape_.n_blocks : 1;
      const std::size_t parts = cut.count == 1 ? static_cast<std::size_t>(problem.groups.count)
                                               : dims.batch * static_cast<std::size_t>(cut.count);
      gradient_sums_.reserve(models_ * parts * layers * mamba_gradient_floats(sizes_));
    }
    backward.gradients = gradient_sums_.data();
    if (cut.count == 1) return launch_mamba_backward(backward, backward_plan_, stream);
    borders_.reserve(2 * border_size(dims));
    backward_in_segments(backward, cut, segment_states(dims, tape.segment_states), borders_.data(),
                         backward_plan_, stream);
  }

 private:
  void plan() {
    const Sizes s(shape_);
    for (const int states_per_thread : {3, 4}) {
      sizes_ = {static_cast<int>(s.d_model), static_cast<int>(s.d_inner), static_cast<int>(s.d_state),
                static_cast<int>(s.rank), states_per_thread};
      if (sizes_.padded_state() < sizes_.d_state) continue;
      const auto forward = plan_mamba_forward(sizes_, shared_memory());
      const auto backward = plan_mamba_backward(sizes_, shared_memory());
      if (!forward || !backward) continue;
      forward_plan_ = *forward, backward_plan_ = *backward;
      fits_ = true;
      return;
    }
  }

  MambaProblem with_sizes(const BlocksProblem& problem, SequenceDims dims, DeviceTape* tape) const {
    MambaProblem mamba{problem, sizes_, offsets_, {1, problem.time}, nullptr};
    if (!tape) return mamba;
    tape->checkpoints.reserve(checkpoints_size(dims));
    mamba.checkpoints = tape->checkpoints.data();
    return mamba;
  }

  /// Numbers of the checkpoints of all sequences and layers.
  std::size_t checkpoints_size(SequenceDims dims) const {
    return models_ * dims.batch * shape_.n_blocks * static_cast<std::size_t>(segments(dims).all_quads()) *
           static_cast<std::size_t>(sizes_.checkpoint_size());
  }
  /// Numbers of the states of a layer at all segments' ends.
  std::size_t border_size(SequenceDims dims) const {
    return models_ * dims.batch * static_cast<std::size_t>(segments(dims).count) *
           (shape_.state_size() / shape_.n_blocks);
  }
  /// Numbers of SegmentStates.
  std::size_t segment_states_size(SequenceDims dims) const {
    const Segments cut = segments(dims);
    const std::size_t of_layer =
        models_ * dims.batch * static_cast<std::size_t>(cut.count) * static_cast<std::size_t>(sizes_.d_inner);
    return cut.count == 1 ? 0 : shape_.n_blocks * (border_size(dims) + of_layer);
  }
  SegmentStates segment_states(SequenceDims dims, DeviceArray<float>& memory) const {
    memory.reserve(segment_states_size(dims));
    return {memory.data(), memory.data() + shape_.n_blocks * border_size(dims)};
  }

  bool fits_ = false;
  NetworkShape shape_;
  std::size_t models_;
  MambaSizes sizes_{};
  MambaOffsets offsets_;
  DeviceArray<float> gradient_sums_;   // see MambaBackward::gradients
  DeviceArray<float> segment_states_;  // of forward passes without a tape
  DeviceArray<float> borders_;         // see forward_in_segments
};

}  // namespace

std::unique_ptr<DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t models) {
  auto blocks = std::make_unique<MambaBlocks>(shape, models);
  return blocks->fits() ? std::move(blocks) : nullptr;
}

}  // namespace mac::mamba
