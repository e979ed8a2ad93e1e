#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <mac/system_parameters.hpp>

#include "coupling/input_map.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace {

InputMap bind(const std::string& path, const Model& model, const Experiment& experiment) {
  try {
    return {model.inputs, *experiment.system, experiment.data.input_names()};
  } catch (const UsageError& error) {
    throw UsageError("{}: {}", path, error.what());
  }
}

/// A device reads variables and what is given from outside, for the whole state.
void check_device_inputs(const std::string& path, const InputMap& inputs) {
  if (inputs.sites() > 1)
    throw UsageError(
        "{}: is a local closure, with which a CUDA device does not roll out yet: use --device cpu", path);
  for (std::size_t f = 0; f < inputs.features(); ++f)
    if (!inputs.is_given(f) && !inputs.variable_of(f))
      throw UsageError(
          "{}: reads {}, and a CUDA device rolls out with variables themselves only: use --device cpu", path,
          inputs.feature_names()[f]);
}

std::unique_ptr<ClosureModel> open_network(const ModelRequest& request, const DataFile& data) {
  const Model model = load_model(request.model);
  check_fits(request.model, model, data.experiment(), data.path(), request.allow_other_parameters);
  HeldClosure held = model.held.value_or(HeldClosure{});
  if (request.hold) held.hold = *request.hold;
  std::string name = request.name;
  if (const auto own = model.provenance.find("name"); name.empty() && own != model.provenance.end())
    name = own->second;
  if (name.empty()) name = std::filesystem::path(request.model).stem().string();
  if (request.on_device && model.noise.channels > 0)
    throw UsageError("{}: is stochastic, and stochastic closures run on the CPU: use --device cpu",
                     request.model);
  if (!request.on_device)
    return make_network_closure(model, name, held, request.precision, data.experiment().system);
  check_device_inputs(request.model, bind(request.model, model, data.experiment()));
  if (request.precision.value_or(model.precision()) == Precision::float64)
    throw UsageError(
        "{}: is rolled out in float64, on a CUDA device in float32: use --precision float32, "
        "or --device cpu",
        request.model);
  return make_device_network_closure(model, name, held, data.experiment().system);
}

}  // namespace

void check_fits(const std::string& path, const Model& model, const Experiment& experiment,
                const std::string& source, bool allow_other_parameters) {
  const System& system = *experiment.system;
  if (!model.system.empty() && model.system != system.name())
    throw UsageError("{}: is a closure for {}, but {} is about {}", path, model.system, source,
                     system.name());
  if (model.inputs.is_plain() && !model.input_names.empty() && model.input_names != system.resolved_names())
    throw UsageError("{}: reads the variables {}, but the data have {}", path,
                     fmt::join(model.input_names, " "), fmt::join(system.resolved_names(), " "));
  const InputMap inputs = bind(path, model, experiment);
  if (model.input_size() != inputs.features() || model.shape.d_out != inputs.outputs())
    throw UsageError("{}: maps {} variables to {} closure components, but {} has {} and {}", path,
                     model.input_size(), model.shape.d_out, source, inputs.features(), inputs.outputs());
  if (model.inputs.is_plain() && !model.closure_targets.empty() && !system.closure_targets().empty() &&
      !std::ranges::equal(model.closure_targets, system.closure_targets()))
    throw UsageError("{}: adds its closure to the equations {}, but {} to {}", path,
                     fmt::join(model.closure_targets, " "), system.name(),
                     fmt::join(system.closure_targets(), " "));
  const double step = experiment.data.closure_step();
  if (model.closure_step && std::abs(*model.closure_step - step) > 1e-9 * step)
    throw UsageError("{}: was trained for a closure step of {:g}, but {} saves every {:g}", path,
                     *model.closure_step, source, step);
  if (!allow_other_parameters)
    check_parameters(path, trained_parameters(model), source, experiment, model.inputs);
}

std::unique_ptr<ClosureModel> open_model(const ModelRequest& request, const DataFile& data) {
  const bool network = std::filesystem::exists(request.model) && !is_baseline(request.model);
  if (request.on_device && !network)
    throw UsageError("{}: only networks are rolled out on a CUDA device: use --device cpu", request.model);
  if (request.precision && !network) throw UsageError("{}: only networks have a --precision", request.model);
  if (request.target && request.model != "exact")
    throw UsageError("{}: only exact has a --target; a model predicts what it was trained for",
                     request.model);
  if (request.model == "markov") {
    if (request.hold) throw UsageError("markov: has no closure to hold, --hold does not apply");
    return make_markov();
  }
  if (request.model == "exact")
    return make_exact({request.hold.value_or(Hold::zero), request.target.value_or(Target::instant)});
  if (!std::filesystem::exists(request.model))
    throw Error("{}: does not exist; expected a model file, or markov, or exact", request.model);
  if (is_baseline(request.model)) {
    if (request.hold)
      throw UsageError("{}: is coupled as it was fitted, --hold does not apply", request.model);
    auto baseline = load_baseline(request.model, *data.experiment().system, request.name,
                                  data.experiment().data.input_names());
    if (!request.allow_other_parameters)
      check_parameters(request.model, trained_parameters(request.model), data.path(), data.experiment(),
                       baseline_inputs(request.model));
    return baseline;
  }
  return open_network(request, data);
}

void rollout(const ModelRequest& request, const DataFile& data, const std::string& path,
             const RolloutOptions& options) {
  const bool is_file = request.model != "markov" && request.model != "exact";
  if (is_file) check_output(path, {request.model});
  RolloutOptions with_range = options;
  if (is_file && std::filesystem::is_regular_file(request.model) && !is_baseline(request.model))
    with_range.parameter_range = trained_range(load_model(request.model), data.experiment().data.parameters);
  rollout(*open_model(request, data), data, path, with_range);
}

void check_trained_model(const std::string& path, const Experiment& experiment, bool allow_other_parameters) {
  if (!std::filesystem::is_regular_file(path))
    throw UsageError("{}: there is no such model file, but {} names it", path, experiment.config.file());
  const std::string& source = experiment.config.file();
  if (is_baseline(path)) {
    load_baseline(path, *experiment.system, "",
                  experiment.data.input_names());  // its step is checked when it starts
    if (!allow_other_parameters)
      check_parameters(path, trained_parameters(path), source, experiment, baseline_inputs(path));
  } else {
    check_fits(path, load_model(path), experiment, source, allow_other_parameters);
  }
}

}  // namespace mac
