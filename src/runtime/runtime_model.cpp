#include "runtime/runtime_model.hpp"

#include <fmt/format.h>

#include <mac/error.hpp>
#include <span>

#include "io/xxh64.hpp"

namespace mac {

namespace {

std::variant<StepEngine<float>, StepEngine<double>> make_engine(const Model& model, Precision precision) {
  if (precision == Precision::float64)
    return StepEngine<double>(model.shape, std::span<const double>(model.parameters));
  return StepEngine<float>(model.shape, parameters_as<float>(model));
}

std::uint64_t identity(const Model& model) {
  const NetworkShape& shape = model.shape;
  const std::uint64_t sizes[] = {static_cast<std::uint64_t>(shape.kind),
                                 shape.d_in,
                                 shape.d_out,
                                 shape.d_model,
                                 shape.n_blocks,
                                 shape.d_state};
  const Normalisation& n = model.normalisation;
  std::uint64_t hash = content_hash(std::as_bytes(std::span(sizes)), 0);
  if (shape.members > 1) {  // saved states of single networks keep their id
    const std::uint64_t members = shape.members;
    hash = content_hash(std::as_bytes(std::span(&members, 1)), hash);
  }
  if (model.noise.channels > 0) {
    const double noise[] = {static_cast<double>(model.noise.channels),
                            shape.deviations ? -1 - model.noise.time : model.noise.time};
    hash = content_hash(std::as_bytes(std::span(noise)), hash);
  }
  if (const std::uint64_t modes = model.frame_modes(); modes > 0)
    hash = content_hash(std::as_bytes(std::span(&modes, 1)), hash);
  for (const auto* numbers :
       {&model.parameters, &n.input_mean, &n.input_scale, &n.output_mean, &n.output_scale})
    hash = content_hash(std::as_bytes(std::span(*numbers)), hash);
  return hash;
}

}  // namespace

RuntimeModel::RuntimeModel(const Safetensors& tensors, std::optional<Precision> precision)
    : file(tensors.file()),
      model(model_from(tensors)),
      normalisers(model.normalisation),
      held(model.held.value_or(HeldClosure{})),
      closure_targets(find_closure_targets(model)),
      metadata(tensors.metadata()),
      id(identity(model)),
      parameters(model.parameters.size()),
      engine(make_engine(model, precision.value_or(model.precision()))) {}

const derivative::StepDerivative& RuntimeModel::derivative() const {
  if (model.noise.channels > 0)
    throw UsageError("{}: is stochastic, and derivatives are those of deterministic closures", file);
  std::call_once(derivative_made_, [&] {
    std::vector<double> weights = model.parameters;
    if (precision() == Precision::float32)
      for (double& weight : weights) weight = static_cast<float>(weight);
    derivative_.emplace(model.shape, weights);
  });
  return *derivative_;
}

std::string describe_component(std::size_t component, const std::vector<std::string>& names) {
  if (component >= names.size()) return fmt::format("component {}", component);
  return fmt::format("component {} ({})", component, names[component]);
}

}  // namespace mac
