// Shapes of the closure network: sizes, tensor names, and the place of each tensor in the flat parameter
// array.
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <utility>

namespace mac {

std::string_view to_string(LayerKind kind) { return kind == LayerKind::mamba ? "mamba" : "gru"; }

LayerKind layer_kind_from(std::string_view name) {
  if (name == "mamba") return LayerKind::mamba;
  if (name == "gru") return LayerKind::gru;
  throw UsageError("unknown network kind '{}': expected 'mamba' or 'gru'", name);
}

std::size_t NetworkShape::state_size() const {
  const std::size_t block = kind == LayerKind::mamba ? (d_conv - 1 + d_state) * d_inner() : d_model;
  return n_blocks * block;
}

void validate(const NetworkShape& shape) {
  // The bounds are far above any closure network and keep every product of sizes within 64 bits.
  const auto check = [](std::string_view name, std::size_t value, std::size_t largest) {
    if (value < 1 || value > largest)
      throw UsageError("network size {} is {}: expected 1 to {}", name, value, largest);
  };
  check("d_in", shape.d_in, 65536);
  check("d_out", shape.d_out, 65536);
  check("d_model", shape.d_model, 16384);
  check("n_blocks", shape.n_blocks, 1024);
  if (shape.kind == LayerKind::mamba) check("d_state", shape.d_state, 4096);
  if (shape.kind == LayerKind::gru && shape.d_state != 0)
    throw UsageError("network size d_state is {}: a GRU has none, expected 0", shape.d_state);
}

namespace {

using NamedShape = std::pair<const char*, std::vector<std::size_t>>;

std::vector<NamedShape> mamba_tensors(const NetworkShape& shape) {
  const std::size_t d = shape.d_model, inner = shape.d_inner(), rank = shape.dt_rank(),
                    states = shape.d_state;
  return {
      {"mamba.in_proj.weight", {2 * inner, d}}, {"mamba.conv1d.weight", {inner, 1, NetworkShape::d_conv}},
      {"mamba.conv1d.bias", {inner}},           {"mamba.x_proj.weight", {rank + 2 * states, inner}},
      {"mamba.dt_proj.weight", {inner, rank}},  {"mamba.dt_proj.bias", {inner}},
      {"mamba.A_log", {inner, states}},         {"mamba.D", {inner}},
      {"mamba.out_proj.weight", {d, inner}},
  };
}

std::vector<NamedShape> gru_tensors(const NetworkShape& shape) {
  const std::size_t d = shape.d_model;
  return {
      {"gru.weight_ih_l0", {3 * d, d}},
      {"gru.weight_hh_l0", {3 * d, d}},
      {"gru.bias_ih_l0", {3 * d}},
      {"gru.bias_hh_l0", {3 * d}},
  };
}

}  // namespace

ParameterLayout::ParameterLayout(const NetworkShape& shape) {
  validate(shape);
  const auto add = [this](std::string name, std::vector<std::size_t> sizes) {
    std::size_t count = 1;
    for (const std::size_t size : sizes) count *= size;
    tensors_.push_back({std::move(name), std::move(sizes), size_, count});
    size_ += count;
  };
  const std::size_t d = shape.d_model;

  add("input_proj.weight", {d, shape.d_in});
  add("input_proj.bias", {d});
  for (std::size_t block = 0; block < shape.n_blocks; ++block) {
    const std::string prefix = fmt::format("blocks.{}.", block);
    add(prefix + "norm.weight", {d});
    add(prefix + "norm.bias", {d});
    for (auto& [name, sizes] : shape.kind == LayerKind::mamba ? mamba_tensors(shape) : gru_tensors(shape))
      add(prefix + name, sizes);
  }
  add("norm.weight", {d});
  add("norm.bias", {d});
  add("output_proj.0.weight", {d, d});
  add("output_proj.0.bias", {d});
  add("output_proj.2.weight", {shape.d_out, d});
  add("output_proj.2.bias", {shape.d_out});
}

const TensorSpec& ParameterLayout::at(std::string_view name) const {
  for (const TensorSpec& tensor : tensors_)
    if (tensor.name == name) return tensor;
  throw Error("the network has no tensor '{}'", name);
}

std::size_t parameter_count(const NetworkShape& shape) { return ParameterLayout(shape).size(); }

}  // namespace mac
