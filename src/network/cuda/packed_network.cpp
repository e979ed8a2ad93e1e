#include "network/cuda/packed_network.hpp"

#include "network/cuda/device_blocks.hpp"
#include "network/cuda/packing.hpp"
#include "network/kinds/gru/cuda/packed_layer.hpp"
#include "network/kinds/mamba/cuda/packed_layer.hpp"
#include "network/selective/decay_rate.hpp"

namespace mac::cuda {

namespace {

void pack_layer(const NetworkShape& shape, const float* layer, Packer& packer) {
  switch (shape.kind) {
    case LayerKind::mamba:
      return mamba::PackedLayer::pack(shape, layer, packer);
    case LayerKind::gru:
      return gru::PackedLayer::pack(shape, layer, packer);
    case LayerKind::mlp:
    case LayerKind::lstm:
    case LayerKind::oscillator:
      refuse_steps(shape.kind);
  }
}

}  // namespace

bool has_step_kernels(LayerKind kind) { return kind == LayerKind::mamba || kind == LayerKind::gru; }

PackedSizes packed_sizes(const NetworkShape& shape) {
  if (!has_step_kernels(shape.kind)) refuse_steps(shape.kind);
  if (shape.members > 1) refuse_ensemble();
  const auto size = [](std::size_t value) { return static_cast<int>(value); };
  return {shape.kind,          size(shape.d_in),     size(shape.d_out),
          size(shape.d_model), size(shape.n_blocks), size(shape.d_state)};
}

std::vector<int> packing(const NetworkShape& shape, Reading reading) {
  const ParameterLayout layout(shape);
  const std::vector<float> parameters(layout.size());
  const auto view = view_parameters<const float>(shape, layout, parameters.data());
  const std::size_t d = shape.d_model;
  Packer packer(reading, parameters.data());
  packer.linear(view.input_proj, d, shape.d_in);
  for (const auto& block : view.blocks) {
    packer.norm(block.norm, d);
    pack_layer(shape, block.layer, packer);
  }
  packer.norm(view.norm, d);
  packer.linear(view.hidden_proj, d, d);
  packer.linear(view.output_proj, shape.d_out, d);
  return packer.places();
}

std::vector<float> pack_parameters(const NetworkShape& shape, const std::vector<float>& parameters) {
  const std::vector<int> places = packing(shape.member(), Reading::forward);
  const std::size_t of_member = parameters.size() / shape.members;
  std::vector<float> packed;
  for (std::size_t m = 0; m < shape.members; ++m)
    for (const int place : places) {
      const float value = parameters[m * of_member + static_cast<std::size_t>(place >= 0 ? place : ~place)];
      packed.push_back(place >= 0 ? value : selective::decay_rate(value));
    }
  return packed;
}

}  // namespace mac::cuda
