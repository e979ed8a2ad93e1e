#include <algorithm>
#include <array>
#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/system_parameters.hpp>
#include <nlohmann/json.hpp>

#include "baselines/model_file.hpp"

namespace mac {

namespace {

/// The warm-up decides where data begin, not what the equations are.
SystemParameters without_warmup(SystemParameters parameters) {
  parameters.erase("warmup_steps");
  return parameters;
}

/// As a parameter that varies is spelt.
bool is_law(const std::string& value) {
  return std::ranges::any_of(std::array{"[uniform = ", "[log_uniform = ", "[list = ", "[grid = "},
                             [&](const char* law) { return value.starts_with(law); });
}

/// Earlier files have those of equations as text in one: "[F = 8, h = 1]".
SystemParameters expanded(SystemParameters parameters) {
  const auto joined = parameters.find("parameters");
  if (joined == parameters.end() || joined->second.size() < 2) return parameters;
  const std::string list = joined->second.substr(1, joined->second.size() - 2);
  parameters.erase(joined);
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(", ", begin), list.size());
    const std::string part = list.substr(begin, end - begin);
    if (const std::size_t equals = part.find(" = "); equals != std::string::npos)
      parameters["parameters." + part.substr(0, equals)] = part.substr(equals + 3);
    begin = end + 2;
  }
  return parameters;
}

}  // namespace

SystemParameters system_parameters(const ConfigTable& system) { return without_warmup(equations(system)); }

SystemParameters trained_parameters(const Model& model) {
  if (const auto own = model.provenance.find("system_parameters"); own != model.provenance.end()) {
    const auto json = nlohmann::json::parse(own->second, nullptr, false);
    SystemParameters parameters;
    if (json.is_object())
      for (const auto& [key, value] : json.items())
        if (value.is_string()) parameters[key] = value.get<std::string>();
    return without_warmup(expanded(std::move(parameters)));
  }
  for (const char* key : {"data_experiment", "experiment"})
    if (const auto text = model.provenance.find(key); text != model.provenance.end()) {
      const ConfigTable system = ConfigTable::parse(text->second, key).table("system");
      SystemDescription description;
      description.name = model.system;
      description.resolved_names = model.input_names;
      description.closure_names = model.output_names;
      description.closure_targets = model.closure_targets;
      make_system(middle_of(system), description);  // asks for every key, and gives its default
      return system_parameters(system);
    }
  return {};
}

std::optional<ResolvedRange> trained_range(const Model& model, const std::vector<std::string>& parameters) {
  const auto stored = model.provenance.find("parameter_range");
  if (stored == model.provenance.end() || parameters.empty()) return std::nullopt;
  const auto json = nlohmann::json::parse(stored->second, nullptr, false);
  ResolvedRange range;
  for (const std::string& name : parameters) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_array() || json[name].size() != 2)
      return std::nullopt;
    if (!json[name][0].is_number() || !json[name][1].is_number()) return std::nullopt;
    range.low.push_back(json[name][0]), range.high.push_back(json[name][1]);
  }
  return range;
}

SystemParameters trained_parameters(const std::string& path) {
  if (!is_baseline(path)) return trained_parameters(load_model(path));
  return system_parameters(read_provenance(h5::File::open(path), baseline_file_kind).config.table("system"));
}

SystemParameters without_lengths(SystemParameters parameters, const NetworkInputs& inputs,
                                 const System& system) {
  for (const Lattice& lattice : system.lattices()) {
    if (std::ranges::find(inputs.of, lattice.name) == inputs.of.end()) continue;
    for (const std::string& key : lattice.length_keys) parameters.erase(key);
  }
  return parameters;
}

std::string to_text(const SystemParameters& parameters) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : parameters)
    if (key != "name") parts.push_back(fmt::format("{} = {}", key, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<std::string> other_parameters(const std::string& model, const SystemParameters& trained,
                                            const std::string& source, const SystemParameters& others) {
  for (const auto& [key, value] : trained)
    if (const auto other = others.find(key);
        other != others.end() && other->second != value && !is_law(value))
      return fmt::format("{}: was trained with {} = {}, but in {} it is {}", model, key, value, source,
                         other->second);
  return std::nullopt;
}

void check_parameters(const std::string& model, const SystemParameters& trained, const std::string& source,
                      const Experiment& experiment, const NetworkInputs& inputs) {
  const auto compared = [&](const SystemParameters& all) {
    return without_lengths(all, inputs, *experiment.system);
  };
  if (const auto difference = other_parameters(
          model, compared(trained), source, compared(system_parameters(experiment.config.table("system")))))
    throw UsageError("{}; --allow-other-parameters uses it all the same", *difference);
}

std::optional<std::string> parameters_warning(const std::string& model, const std::string& source,
                                              const Experiment& experiment) {
  if (!std::filesystem::is_regular_file(model)) return std::nullopt;
  const NetworkInputs inputs = is_baseline(model) ? baseline_inputs(model) : load_model(model).inputs;
  const auto compared = [&](const SystemParameters& all) {
    return without_lengths(all, inputs, *experiment.system);
  };
  return other_parameters(model, compared(trained_parameters(model)), source,
                          compared(system_parameters(experiment.config.table("system"))));
}

}  // namespace mac
