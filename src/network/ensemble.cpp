#include <fmt/ranges.h>

#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <span>

#include "network/renormalise.hpp"

namespace mac {

namespace {

std::string words(const NetworkShape& shape) {
  return fmt::format("{}, {} blocks of {} channels{}", to_string(shape.kind), shape.n_blocks, shape.d_model,
                     shape.d_state > 0 ? fmt::format(", {} states", shape.d_state) : "");
}

void check_fits(const Model& first, const std::string& first_name, const Model& other,
                const std::string& name) {
  if (other.shape.members > 1) throw UsageError("{}: is an ensemble already", name);
  if (other.shape != first.shape)
    throw UsageError("{}: is a network of other sizes ({}) than {} ({})", name, words(other.shape),
                     first_name, words(first.shape));
  const auto same = [&](const char* what, const auto& a, const auto& b) {
    if (a != b) throw UsageError("{}: is the closure of another {} than {}", name, what, first_name);
  };
  same("system", other.system, first.system);
  same("set of variables", other.input_names, first.input_names);
  if (other.noise.channels > 0)
    throw UsageError("{}: is stochastic: its members are runs with other noise, mac rollout --members", name);
  same("set of inputs", other.inputs, first.inputs);
  same("set of equations", find_closure_targets(other), find_closure_targets(first));
  same("closure step", other.closure_step, first.closure_step);
  if (other.held.has_value() != first.held.has_value() ||
      (first.held && (first.held->hold != other.held->hold || first.held->target != other.held->target)))
    throw UsageError("{}: is coupled by another hold or target than {}", name, first_name);
}

}  // namespace

namespace {

/// The last layer times a factor.
void scale_output(const ParameterLayout& layout, double factor, std::span<double> parameters) {
  for (const char* tensor : {"output_proj.2.weight", "output_proj.2.bias"}) {
    const TensorSpec& spec = layout.at(tensor);
    for (std::size_t i = 0; i < spec.size; ++i) parameters[spec.offset + i] *= factor;
  }
}

}  // namespace

Model member_of(const Model& ensemble, std::size_t m) {
  Model one = ensemble;
  one.shape = ensemble.shape.member();
  const ParameterLayout layout(one.shape);
  const auto first = ensemble.parameters.begin() + static_cast<std::ptrdiff_t>(m * layout.size());
  one.parameters.assign(first, first + static_cast<std::ptrdiff_t>(layout.size()));
  scale_output(layout, static_cast<double>(ensemble.shape.members), one.parameters);
  return one;
}

Model make_ensemble(const std::vector<Model>& networks, const std::vector<std::string>& names) {
  if (networks.size() < 2) throw UsageError("an ensemble has at least two networks");
  Model ensemble = networks.front();
  ensemble.program.clear();
  ensemble.parameters.clear();
  for (const char* key : {"seed", "best_step", "validation_loss", "validation_rollout_error"})
    ensemble.provenance.erase(key);
  const double share = 1 / static_cast<double>(networks.size());
  const ParameterLayout layout(networks.front().shape);
  for (std::size_t m = 0; m < networks.size(); ++m) {
    check_fits(networks.front(), names.front(), networks[m], names[m]);
    std::vector<double> parameters = parameters_for(networks[m], ensemble.normalisation);
    scale_output(layout, share, parameters);
    ensemble.parameters.insert(ensemble.parameters.end(), parameters.begin(), parameters.end());
    if (networks[m].dtype == Dtype::f64) ensemble.dtype = Dtype::f64;
  }
  ensemble.shape.members = networks.size();
  ensemble.provenance["ensemble_of"] = fmt::format("{}", fmt::join(names, " "));
  return ensemble;
}

}  // namespace mac
