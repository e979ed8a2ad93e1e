#include "network/cuda/device_blocks.hpp"
#include "network/kinds/gru/cuda/problem.hpp"

namespace mac::gru {

namespace {

using namespace cuda;

class GruBlocks final : public DeviceBlocks {
 public:
  explicit GruBlocks(const NetworkShape& shape) : sizes_{static_cast<int>(shape.d_model)} {
    const ParameterLayout layout(shape);
    const auto offset = [&](const char* name) { return offset_in_block(layout, name); };
    offsets_ = {offset("norm.weight"),      offset("norm.bias"),      offset("gru.weight_ih_l0"),
                offset("gru.weight_hh_l0"), offset("gru.bias_ih_l0"), offset("gru.bias_hh_l0"),
                block_size(layout, shape)};
    const auto forward = plan_gru_forward(sizes_, shared_memory());
    const auto backward = plan_gru_backward(sizes_, shared_memory());
    if (!forward || !backward) return;
    fits_ = true;
    forward_plan_ = *forward, backward_plan_ = *backward;
  }

  bool fits() const { return fits_; }

  Segments segments(SequenceDims dims) const override { return {1, quads_of(dims)}; }
  std::size_t activations_per_quad() const override {
    return 4 * static_cast<std::size_t>(sizes_.tape_rows());
  }
  std::size_t further_tape(SequenceDims) const override { return 0; }
  std::size_t counters_in_segments(SequenceDims) const override { return 0; }

  void forward(const BlocksProblem& problem, SequenceDims, float* final_state, DeviceTape*,
               cudaStream_t stream) override {
    launch_gru_forward({{problem, sizes_, offsets_}, final_state}, forward_plan_, stream);
  }
  void backward(const BlocksProblem& problem, const BlocksGradients& gradients, SequenceDims, DeviceTape&,
                cudaStream_t stream) override {
    launch_gru_backward({{problem, sizes_, offsets_}, gradients}, backward_plan_, stream);
  }

 private:
  bool fits_ = false;
  GruSizes sizes_;
  GruOffsets offsets_;
};

}  // namespace

std::unique_ptr<DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t) {
  auto blocks = std::make_unique<GruBlocks>(shape);
  return blocks->fits() ? std::move(blocks) : nullptr;
}

}  // namespace mac::gru
