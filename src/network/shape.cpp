// Shapes of the closure network: sizes, tensor names and first values, and the place of each tensor in the
// flat parameter array.
#include <cmath>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <utility>

#include "network/kinds/layer.hpp"

namespace mac {

const Layer& layer_of(LayerKind kind) {
#define MAC_KIND(name)  \
  case LayerKind::name: \
    return name::layer();
  switch (kind) { MAC_LAYER_KINDS(MAC_KIND) }
#undef MAC_KIND
  throw Error("no kind of layer has the number {}", static_cast<int>(kind));
}

std::string_view to_string(LayerKind kind) {
#define MAC_KIND(name)  \
  case LayerKind::name: \
    return #name;
  switch (kind) { MAC_LAYER_KINDS(MAC_KIND) }
#undef MAC_KIND
  throw Error("no kind of layer has the number {}", static_cast<int>(kind));
}

std::vector<std::string> layer_kind_names() {
  std::vector<std::string> names;
  for (const LayerKind kind : layer_kinds) names.emplace_back(to_string(kind));
  return names;
}

LayerKind layer_kind_from(std::string_view name) {
  for (const LayerKind kind : layer_kinds)
    if (name == to_string(kind)) return kind;
  throw UsageError("unknown network kind '{}': expected one of {}", name,
                   fmt::join(layer_kind_names(), ", "));
}

bool has_states(LayerKind kind) { return layer_of(kind).states().has_value(); }

std::size_t NetworkShape::state_size() const { return members * n_blocks * layer_of(kind).state_size(*this); }

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
  check("members", shape.members, 1024);
  if (shape.deviations && shape.d_in <= shape.d_out)
    throw UsageError("network size d_in is {}: expected more than the noise of {} outputs with deviations",
                     shape.d_in, shape.d_out);
  if (has_states(shape.kind))
    check("d_state", shape.d_state, 4096);
  else if (shape.d_state != 0)
    throw UsageError("network size d_state is {}: a network of kind {} has none, expected 0", shape.d_state,
                     to_string(shape.kind));
}

InitialValue constant(double value) {
  return [value](std::size_t, const Uniform&) { return value; };
}

InitialValue uniform_for(std::size_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return [bound](std::size_t, const Uniform& uniform) { return uniform(-bound, bound); };
}

std::vector<LayerTensor> network_tensors(const NetworkShape& shape) {
  const std::size_t d = shape.d_model;
  const NetworkShape core = shape.core();
  std::vector<LayerTensor> tensors;
  const auto linear = [&](const std::string& name, std::size_t outputs, std::size_t inputs) {
    tensors.push_back({name + ".weight", {outputs, inputs}, uniform_for(inputs)});
    tensors.push_back({name + ".bias", {outputs}, uniform_for(inputs)});
  };
  const auto norm = [&](const std::string& name) {
    tensors.push_back({name + ".weight", {d}, constant(1)});
    tensors.push_back({name + ".bias", {d}, constant(0)});
  };
  linear("input_proj", d, core.d_in);
  for (std::size_t block = 0; block < shape.n_blocks; ++block) {
    const std::string prefix = fmt::format("blocks.{}.", block);
    norm(prefix + "norm");
    for (LayerTensor& tensor : layer_of(shape.kind).tensors(shape)) {
      tensor.name = prefix + tensor.name;
      tensors.push_back(std::move(tensor));
    }
  }
  norm("norm");
  linear("output_proj.0", d, d);
  linear("output_proj.2", core.d_out, d);
  return tensors;
}

std::string member_prefix(const NetworkShape& shape, std::size_t member) {
  return shape.members > 1 ? fmt::format("members.{}.", member) : "";
}

ParameterLayout::ParameterLayout(const NetworkShape& shape) {
  validate(shape);
  for (std::size_t m = 0; m < shape.members; ++m)
    for (LayerTensor& tensor : network_tensors(shape)) {
      std::size_t count = 1;
      for (const std::size_t size : tensor.shape) count *= size;
      tensors_.push_back({member_prefix(shape, m) + tensor.name, std::move(tensor.shape), size_, count});
      size_ += count;
    }
}

const TensorSpec& ParameterLayout::at(std::string_view name) const {
  for (const TensorSpec& tensor : tensors_)
    if (tensor.name == name) return tensor;
  throw Error("the network has no tensor '{}'", name);
}

std::size_t parameter_count(const NetworkShape& shape) { return ParameterLayout(shape).size(); }

}  // namespace mac
