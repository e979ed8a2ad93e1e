// mac generate: experiment.toml -> data.h5
#include <mac/data.hpp>
#include <memory>

#include "cli/commands.hpp"

namespace mac::cli {

void add_generate(CLI::App& program) {
  struct Options {
    Common common;
    std::string experiment, output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("generate", "Simulate the full system and write a data set");
  command->footer("Example:\n  mac generate experiments/burgers.toml -o burgers.h5");
  command->add_option("experiment", options->experiment, "Experiment file (TOML)")
      ->required()
      ->type_name("EXPERIMENT");
  command->add_option("-o,--output", options->output, "Data file to write (HDF5)")
      ->required()
      ->type_name("FILE");
  add_common(*command, options->common, false);
  command->callback([options] {
    const Experiment experiment = Experiment::read(options->experiment);
    generate(experiment, options->output, {options->common.threads, options->common.quiet});
  });
}

}  // namespace mac::cli
