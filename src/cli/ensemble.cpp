// mac ensemble: several networks as one model
#include <fmt/format.h>

#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <mac/system_parameters.hpp>
#include <memory>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"

namespace mac::cli {

void add_ensemble(CLI::App& program) {
  struct Options {
    Common common;
    std::vector<std::string> models;
    std::string output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("ensemble", "Make one model of several networks, whose closures are averaged");
  command->footer(
      "Examples:\n"
      "  mac ensemble runs/burgers/models/mac-seed*.safetensors -o mac-five.safetensors\n"
      "  mac rollout mac-five.safetensors --data burgers.h5 -o five.h5\n"
      "The networks are of one kind and size and for the same closure: several seeds of a training, say.");
  command->add_option("models", options->models, "Network files (safetensors)")
      ->required()
      ->type_name("FILE...");
  command->add_option("-o,--output", options->output, "Model file to write")->required()->type_name("FILE");
  add_common(*command, options->common, false);
  command->callback([options] {
    std::vector<Model> networks;
    for (const std::string& path : options->models) networks.push_back(load_model(path));
    const SystemParameters first = trained_parameters(networks.front());
    for (std::size_t i = 1; i < networks.size(); ++i)
      if (const auto other = other_parameters(options->models[0], first, options->models[i],
                                              trained_parameters(networks[i])))
        throw UsageError("{}", *other);
    const Model ensemble = make_ensemble(networks, options->models);
    save_model(ensemble, options->output);
    if (options->common.quiet) return;
    show("{}: {} networks, {} parameters, {} numbers of memory\n", options->output, networks.size(),
         ensemble.parameters.size(), ensemble.shape.state_size());
  });
}

}  // namespace mac::cli
