#include "training/fine_tuning.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <mac/error.hpp>

namespace mac {

std::vector<double> parameters_for(const Model& model, const Normalisation& other) {
  const Normalisation& own = model.normalisation;
  const ParameterLayout layout(model.shape);
  std::vector<double> parameters = model.parameters;
  const auto tensor = [&](const char* name) { return parameters.data() + layout.at(name).offset; };

  const std::size_t d_in = model.shape.d_in, d_out = model.shape.d_out, d = model.shape.d_model;
  double *const W = tensor("input_proj.weight"), *const b = tensor("input_proj.bias");  // (d, d_in), (d)
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d_in; ++j) {
      double& w = W[i * d_in + j];
      b[i] += w * (other.input_mean[j] - own.input_mean[j]) / own.input_scale[j];
      w *= other.input_scale[j] / own.input_scale[j];
    }
  double *const V = tensor("output_proj.2.weight"), *const c = tensor("output_proj.2.bias");  // (d_out, d)
  for (std::size_t k = 0; k < d_out; ++k) {
    const double ratio = own.output_scale[k] / other.output_scale[k];
    for (std::size_t i = 0; i < d; ++i) V[k * d + i] *= ratio;
    c[k] = c[k] * ratio + (own.output_mean[k] - other.output_mean[k]) / other.output_scale[k];
  }
  return parameters;
}

FineTuningStart start_from(const std::string& file, const NetworkShape& shape, const Experiment& experiment,
                           const Normalisation& normalisation) {
  const Model model = load_model(file);
  const System& system = *experiment.system;
  if (!model.input_names.empty() &&
      (model.input_names != system.resolved_names() || model.output_names != system.closure_names()))
    throw UsageError("{}: is a closure {} of {}, training needs {} of {}", file,
                     fmt::join(model.output_names, " "), fmt::join(model.input_names, " "),
                     fmt::join(system.closure_names(), " "), fmt::join(system.resolved_names(), " "));
  if (model.shape != shape)
    throw UsageError("{}: is a network of another kind or other sizes than [[models]] says", file);
  FineTuningStart start{parameters_for(model, normalisation), ""};
  if (model.normalisation != normalisation)
    start.remark =
        "the data have other scales than those it was trained on; input_proj and output_proj take up "
        "the difference";
  const double step = experiment.data.closure_step();
  if (model.closure_step && std::abs(*model.closure_step / step - 1) > 1e-9)
    start.remark += fmt::format("{}its closure step is {:g}, that of the data {:g}",
                                start.remark.empty() ? "" : "; ", *model.closure_step, step);
  return start;
}

}  // namespace mac
