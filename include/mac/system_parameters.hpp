// The parameters of the system (viscosity, forcing, ...) that a model was trained with. They are no inputs of
// a network: with other values it is another closure. Those that varied in training are no such: the network has
// seen a range of them, and the verdict warns of values outside of it.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>
#include <map>
#include <optional>
#include <string>

namespace mac {

using SystemParameters = std::map<std::string, std::string>;

/// What [system] says of the equations, as a model remembers it: without the grid and the warm-up of the
/// data.
SystemParameters system_parameters(const ConfigTable& system);

/// A network's, from its metadata, else from the experiment in them; empty where the file says neither.
SystemParameters trained_parameters(const Model& model);
/// Those of a model file, a network's or a baseline's.
SystemParameters trained_parameters(const std::string& path);

/// Without what says how long the lattices of a local network are: it runs on those of any length.
SystemParameters without_lengths(SystemParameters parameters, const NetworkInputs& inputs,
                                 const System& system);

/// The range of each parameter that varied in a network's training, as the data name them; none where the file
/// does not say, or of other parameters.
std::optional<ResolvedRange> trained_range(const Model& model, const std::vector<std::string>& parameters);

/// "viscosity = 0.1, modes = 3"; the name of the system is left out.
std::string to_text(const SystemParameters& parameters);

/// The sentence about the first parameter that both know and that differs; `source` is where `others` come
/// from.
std::optional<std::string> other_parameters(const std::string& model, const SystemParameters& trained,
                                            const std::string& source, const SystemParameters& others);

/// Throws UsageError with that sentence. `inputs` are those of a network.
void check_parameters(const std::string& model, const SystemParameters& trained, const std::string& source,
                      const Experiment& experiment, const NetworkInputs& inputs = {});

/// The warning where a model file is used with other parameters all the same; none of markov and exact.
std::optional<std::string> parameters_warning(const std::string& model, const std::string& source,
                                              const Experiment& experiment);

}  // namespace mac
