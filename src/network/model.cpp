#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <set>

#include "network/kinds/layer.hpp"
#include "network/model_metadata.hpp"

namespace mac {

namespace {

std::string dimensions(const std::vector<std::size_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

/// Size `axis` of a tensor that every network has.
std::size_t extent(const Safetensors& file, const std::string& tensor, std::size_t rank, std::size_t axis) {
  const TensorInfo& info = file.at(tensor);
  if (info.shape.size() != rank)
    throw Error("{}: tensor '{}' has shape {}: expected {} dimensions", file.file(), tensor,
                dimensions(info.shape), rank);
  return info.shape[axis];
}

/// The tensor of block 0 that no other kind has.
std::string mark_of(LayerKind kind) { return "blocks.0." + layer_of(kind).tensors({}).front().name; }

LayerKind infer_kind(const Safetensors& file, const std::string& prefix) {
  std::vector<std::string> marks;
  for (const LayerKind kind : layer_kinds) {
    marks.push_back(mark_of(kind));
    if (file.find(prefix + marks.back())) return kind;
  }
  throw Error("{}: is not a closure network: it has no tensor '{}'", file.file(),
              fmt::join(marks, "', nor '"));
}

/// Kind and sizes as the tensors' names and shapes have them.
NetworkShape infer_shape(const Safetensors& file) {
  NetworkShape shape;
  const bool ensemble = file.find("members.0.input_proj.weight");
  while (ensemble && file.find(fmt::format("members.{}.input_proj.weight", shape.members))) ++shape.members;
  const std::string prefix = ensemble ? "members.0." : "";
  shape.kind = infer_kind(file, prefix);
  shape.d_in = extent(file, prefix + "input_proj.weight", 2, 1);
  shape.d_out = extent(file, prefix + "output_proj.2.weight", 2, 0);
  if (file.metadata().contains("deviations")) {
    if (shape.d_out % 2 != 0)
      throw Error(
          "{}: metadata 'deviations' is there, but the network has {} outputs: expected an even number",
          file.file(), shape.d_out);
    shape.deviations = true, shape.d_out /= 2, shape.d_in += shape.d_out;
  }
  shape.d_model = extent(file, prefix + "input_proj.weight", 2, 0);
  while (file.find(fmt::format("{}blocks.{}.norm.weight", prefix, shape.n_blocks))) ++shape.n_blocks;
  if (shape.n_blocks == 0) throw Error("{}: has no tensor '{}blocks.0.norm.weight'", file.file(), prefix);
  if (const auto states = layer_of(shape.kind).states())
    shape.d_state = extent(file, prefix + "blocks.0." + states->tensor, states->rank, states->axis);
  try {
    validate(shape);
  } catch (const UsageError& error) {
    throw Error("{}: {}", file.file(), error.what());
  }
  return shape;
}

void check_tensors(const Safetensors& file, const ParameterLayout& layout) {
  std::set<std::string_view> known;
  for (const TensorSpec& spec : layout.tensors()) {
    const TensorInfo& info = file.at(spec.name);
    if (info.shape != spec.shape)
      throw Error("{}: tensor '{}' has shape {}: expected {}", file.file(), spec.name, dimensions(info.shape),
                  dimensions(spec.shape));
    known.insert(spec.name);
  }
  for (const TensorInfo& info : file.tensors())
    if (!known.contains(info.name))
      throw Error("{}: tensor '{}' does not belong to this network", file.file(), info.name);
}

std::vector<double> read_parameters(const Safetensors& file, const ParameterLayout& layout) {
  std::vector<double> parameters;
  parameters.reserve(layout.size());
  for (const TensorSpec& spec : layout.tensors()) {
    const std::vector<double> values = file.numbers(spec.name);
    if (const auto bad = std::ranges::find_if_not(values, [](double v) { return std::isfinite(v); });
        bad != values.end())
      throw Error("{}: tensor '{}' is {} at element {}: weights must be finite", file.file(), spec.name, *bad,
                  bad - values.begin());
    parameters.insert(parameters.end(), values.begin(), values.end());
  }
  return parameters;
}

}  // namespace

Normalisation Normalisation::identity(const NetworkShape& shape, const NoiseInputs& noise) {
  const std::size_t inputs = shape.d_in - noise.channels;
  return {std::vector<double>(inputs, 0), std::vector<double>(inputs, 1), std::vector<double>(shape.d_out, 0),
          std::vector<double>(shape.d_out, 1)};
}

Model model_from(const Safetensors& file) {
  Model model;
  model.shape = infer_shape(file);
  const ParameterLayout layout(model.shape);
  check_tensors(file, layout);
  model.parameters = read_parameters(file, layout);
  const bool any_double = std::ranges::any_of(
      file.tensors(), [](const TensorInfo& tensor) { return tensor.dtype == Dtype::f64; });
  model.dtype = any_double ? Dtype::f64 : Dtype::f32;
  read_metadata(file, model);
  return model;
}

Model load_model(const std::filesystem::path& path) { return model_from(Safetensors::read(path)); }

std::vector<std::size_t> find_closure_targets(const Model& model) {
  const bool framed =
      model.frame_modes() > 0;  // then it reads all modes first, and closes them in their order
  if (!model.closure_targets.empty() || !(model.inputs.is_plain() || framed)) return model.closure_targets;
  std::vector<std::size_t> named, in_order;
  for (std::size_t j = 0; j < model.shape.d_out; ++j) {
    in_order.push_back(j);
    if (j >= model.output_names.size()) continue;
    for (std::size_t i = 0; i < model.input_names.size() && named.size() == j; ++i)
      if (!model.input_names[i].empty() && model.output_names[j] == "C_" + model.input_names[i])
        named.push_back(i);
  }
  if (named.size() == model.shape.d_out) return named;
  return framed || model.shape.d_out == model.input_size() ? in_order : std::vector<std::size_t>{};
}

void save_model(const Model& model, const std::filesystem::path& path) {
  const ParameterLayout layout(model.shape);
  if (model.parameters.size() != layout.size())
    throw Error("{}: the model has {} parameters, its shape needs {}", path.string(), model.parameters.size(),
                layout.size());
  SafetensorsWriter writer;
  write_metadata(model, writer);
  const auto rounded = parameters_as<float>(model);
  for (const TensorSpec& tensor : layout.tensors()) {
    if (model.dtype == Dtype::f64)
      writer.add(tensor.name, tensor.shape, std::span(model.parameters).subspan(tensor.offset, tensor.size));
    else
      writer.add(tensor.name, tensor.shape, std::span(rounded).subspan(tensor.offset, tensor.size));
  }
  model_from(Safetensors::parse(writer.bytes(), path.string()));  // nothing is written that would not load
  writer.write(path);
}

}  // namespace mac
