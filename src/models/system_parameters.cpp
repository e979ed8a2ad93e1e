#include <algorithm>
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

/// "[a = 1, N = 8]" without N.
std::string without_entry(const std::string& table, const std::string& key) {
  const std::string entry = key + " = ";
  std::size_t at = table.find(entry);
  while (at != std::string::npos && (at == 0 || (table[at - 1] != '[' && table[at - 1] != ' ')))
    at = table.find(entry, at + 1);
  if (at == std::string::npos) return table;
  const std::size_t end = table.find_first_of(",]", at);
  return table.substr(0, at) + table.substr(table[end] == ',' ? end + 2 : end);
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
    return without_warmup(std::move(parameters));
  }
  for (const char* key : {"data_experiment", "experiment"})
    if (const auto text = model.provenance.find(key); text != model.provenance.end()) {
      const ConfigTable system = ConfigTable::parse(text->second, key).table("system");
      SystemDescription description;
      description.name = model.system;
      description.resolved_names = model.input_names;
      description.closure_names = model.output_names;
      description.closure_targets = model.closure_targets;
      make_system(system, description);  // asks for every key, and gives its default
      return system_parameters(system);
    }
  return {};
}

SystemParameters trained_parameters(const std::string& path) {
  if (!is_baseline(path)) return trained_parameters(load_model(path));
  return system_parameters(read_provenance(h5::File::open(path), baseline_file_kind).config.table("system"));
}

SystemParameters without_lengths(SystemParameters parameters, const NetworkInputs& inputs,
                                 const System& system) {
  for (const Lattice& lattice : system.lattices()) {
    if (std::ranges::find(inputs.of, lattice.name) == inputs.of.end()) continue;
    for (const std::string& key : lattice.length_keys) {
      const std::size_t dot = key.find('.');
      const auto found = parameters.find(key.substr(0, dot));
      if (found == parameters.end()) continue;
      if (dot == std::string::npos)
        parameters.erase(found);
      else
        found->second = without_entry(found->second, key.substr(dot + 1));
    }
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
    if (const auto other = others.find(key); other != others.end() && other->second != value)
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
  const NetworkInputs inputs = is_baseline(model) ? NetworkInputs{} : load_model(model).inputs;
  const auto compared = [&](const SystemParameters& all) {
    return without_lengths(all, inputs, *experiment.system);
  };
  return other_parameters(model, compared(trained_parameters(model)), source,
                          compared(system_parameters(experiment.config.table("system"))));
}

}  // namespace mac
