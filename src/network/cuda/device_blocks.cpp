#include "network/cuda/device_blocks.hpp"

#include <string>

namespace mac::cuda {

void DeviceTape::expect(SequenceDims backward) const {
  if (dims.batch != backward.batch || dims.time != backward.time)
    throw Error("the tape holds a forward pass of {} × {} steps, the backward pass asks for {} × {}",
                dims.batch, dims.time, backward.batch, backward.time);
}

int offset_in_block(const ParameterLayout& layout, const char* name) {
  return static_cast<int>(layout.at(std::string("blocks.0.") + name).offset -
                          layout.at("blocks.0.norm.weight").offset);
}

int block_size(const ParameterLayout& layout, const NetworkShape& shape) {
  const std::size_t blocks = layout.at("norm.weight").offset - layout.at("blocks.0.norm.weight").offset;
  return static_cast<int>(blocks / shape.n_blocks);
}

void refuse_steps(LayerKind kind) {
  throw UsageError("a network of kind {} does not roll out on a CUDA device: use --device cpu",
                   to_string(kind));
}

void refuse_ensemble() { throw UsageError("an ensemble does not run on a CUDA device: use --device cpu"); }

std::unique_ptr<DeviceBlocks> make_device_blocks(const NetworkShape& shape, std::size_t models) {
#define MAC_KIND(name)  \
  case LayerKind::name: \
    return name::make_device_blocks(shape, models);
  switch (shape.kind) { MAC_LAYER_KINDS(MAC_KIND) }
#undef MAC_KIND
  throw Error("no kind of layer has the number {}", static_cast<int>(shape.kind));
}

}  // namespace mac::cuda
