// mac rollout: a model and data.h5 -> rollout.h5
#include <mac/error.hpp>
#include <mac/rollout.hpp>
#include <memory>

#include "cli/commands.hpp"

namespace mac::cli {

void add_rollout(CLI::App& program) {
  struct Options {
    Common common;
    std::string model, data, output, hold = "zero", target = "instant";
    std::vector<std::string> splits;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "rollout", "Advance the reduced model with a closure from the initial states of a data set");
  command->footer(
      "Examples:\n"
      "  mac rollout markov --data burgers.h5 -o markov.h5\n"
      "  mac rollout exact --hold linear --data burgers.h5 --split test -o exact.h5");
  command
      ->add_option("model", options->model,
                   "markov (no closure) or exact (the true closure, held over each step)")
      ->required()
      ->type_name("MODEL");
  command->add_option("--data", options->data, "Data file of mac generate")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "Rollout file to write (HDF5)")
      ->required()
      ->type_name("FILE");
  command->add_option("--split", options->splits, "Splits to roll out (default: test and ood)")
      ->type_name("NAME");
  command
      ->add_option("--hold", options->hold,
                   "The closure within a step: zero (constant) or linear (extrapolated)")
      ->capture_default_str();
  command
      ->add_option(
          "--target", options->target,
          "exact only: the closure at the start of the step (instant) or its mean over the step (mean)")
      ->capture_default_str();
  add_common(*command, options->common, false);
  command->callback([options] {
    const HeldClosure held{hold_from(options->hold), target_from(options->target)};
    std::unique_ptr<ClosureModel> model;
    if (options->model == "markov")
      model = make_markov();
    else if (options->model == "exact")
      model = make_exact(held);
    else
      throw UsageError("unknown model \"{}\", expected markov or exact", options->model);
    const DataFile data = DataFile::open(options->data);
    rollout(*model, data, options->output, {options->splits, options->common.threads, options->common.quiet});
  });
}

}  // namespace mac::cli
