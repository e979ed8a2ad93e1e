// mac range: what a network's training data looked like, into its file
#include <fmt/format.h>

#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <memory>

#include "cli/commands.hpp"
#include "training/training_range.hpp"

namespace mac::cli {

void add_range(CLI::App& program) {
  struct Options {
    Common common;
    std::string model, data, output, split = "train";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "range", "Write the range of its training data into a network that was trained without it");
  command->footer(
      "Examples:\n"
      "  mac range from-pytorch.safetensors --data burgers.h5 -o guarded.safetensors\n"
      "Guards of the runtime compare with that range: docs/hosts.md. A network of mac train has it. All else "
      "in the "
      "file stays as it is.");
  command->add_option("model", options->model, "Network file (safetensors)")->required()->type_name("MODEL");
  command->add_option("--data", options->data, "Data file it was trained with")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "Network file to write")->required()->type_name("FILE");
  command->add_option("--split", options->split, "Trajectories of the data file that it has seen")
      ->capture_default_str()
      ->type_name("NAME");
  add_common(*command, options->common, false);
  command->callback([options] {
    Model model = load_model(options->model);
    const DataFile data = DataFile::open(options->data);
    check_fits(options->model, model, data.experiment(), options->data);
    const DataSplit& split = data.split(options->split);
    const InputMap inputs(model.inputs, *data.experiment().system, split.input_names());
    model.training_range = fit_training_range(split, inputs, model.held.value_or(HeldClosure{}).target);
    save_model(model, options->output);
    if (options->common.quiet) return;
    const TrainingRange& range = *model.training_range;
    for (std::size_t i = 0; i < inputs.features(); ++i)
      show("{} {:.6g} to {:.6g}\n", inputs.feature_names()[i], range.input_low[i], range.input_high[i]);
    for (std::size_t i = 0; i < inputs.outputs(); ++i)
      show("{} {:.6g} to {:.6g}\n", inputs.output_names()[i], range.output_low[i], range.output_high[i]);
  });
}

}  // namespace mac::cli
