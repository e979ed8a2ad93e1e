// mac rollout: a model and data.h5 -> rollout.h5
#include <mac/judge.hpp>
#include <mac/open_model.hpp>
#include <mac/rollout.hpp>
#include <mac/system_parameters.hpp>
#include <memory>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "data/open_on_ranks.hpp"
#include "parallel/ranks.hpp"

namespace mac::cli {

void add_rollout(CLI::App& program) {
  struct Options {
    Common common;
    ModelRequest request;
    RolloutOptions rollout;
    std::string data, output, hold, target, precision, device = "cpu";
    double to = 0;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "rollout", "Advance the reduced model with a closure from the states of a data set");
  command->footer(
      "Examples:\n"
      "  mac rollout markov --data burgers.h5 -o markov.h5\n"
      "  mac rollout exact --hold linear --data burgers.h5 --split test -o exact.h5\n"
      "  mac rollout mac.safetensors --data burgers.h5 -o mac.h5\n"
      "  mac rollout mac.safetensors --data burgers.h5 --from mac.h5 --to 4 -o longer.h5");
  command
      ->add_option("model", options->request.model,
                   "Model file, markov (no closure) or exact (the true closure)")
      ->required()
      ->type_name("CLOSURE");  // markov and exact are no files: rollout() looks after the model it overwrites
  command->add_option("--data", options->data, "Data file of mac generate")->required()->type_name("FILE");
  command->add_option("-o,--output", options->output, "Rollout file to write (HDF5)")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--split", options->rollout.splits,
                   "Splits to roll out (default: test, ood and statistics)")
      ->type_name("NAME");
  command->add_option(
      "--hold", options->hold,
      "The closure within a step: zero (constant), linear (extrapolated) or stage (predicted at every "
      "Runge-Kutta stage); default: as the model was trained");
  command->add_option("--target", options->target,
                      "exact only: the closure at the start of a step (instant) or its mean (mean)");
  command->add_option("--name", options->request.name, "Name of the model in files and tables");
  CLI::Option* to =
      command->add_option("--to", options->to, "End time, also beyond the data")->check(positive_number());
  command
      ->add_option("--from", options->rollout.from,
                   "Continue this rollout to the last bit as if it had not stopped")
      ->type_name("FILE");
  command
      ->add_option("--history", options->rollout.history,
                   "The model reads the true past up to this time, then runs free")
      ->check(non_negative_number())
      ->type_name("TIME");
  command
      ->add_option("--members", options->rollout.members,
                   "Runs from each state: of a stochastic model with other noise, of an ensemble one of each "
                   "network (default: 1)")
      ->check(CLI::Range(1, 1000))
      ->type_name("NUMBER");
  command->add_option("--seed", options->rollout.seed, "Seed of a stochastic model's noise (default: 0)")
      ->type_name("NUMBER");
  command->add_flag("--no-noise{false}", options->rollout.noise, "Run a stochastic model without its noise");
  command
      ->add_option("--lyapunov", options->rollout.lyapunov,
                   "Runs of the split statistics whose Lyapunov exponents are worked out (default: 5)")
      ->check(CLI::Range(0, 1000000))
      ->type_name("NUMBER");
  command->add_flag("--time-steps", options->rollout.time_steps,
                    "Record the wall time of every step in the file");
  add_precision(*command, options->precision);
  command->add_flag("--allow-other-parameters", options->request.allow_other_parameters,
                    "Take a model of other parameters of the system, with a warning");
  command->add_flag("--self-contained", options->rollout.self_contained,
                    "Copy the truth into the file instead of referring to the data file");
  command->add_option("--device", options->device, "Where a network is rolled out: cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("DEVICE");
  add_common(*command, options->common, false);
  command->callback([options, to] {
    if (!options->hold.empty()) options->request.hold = hold_from(options->hold);
    if (!options->target.empty()) options->request.target = target_from(options->target);
    if (!options->precision.empty()) options->request.precision = precision_from(options->precision);
    if (to->count() > 0) options->rollout.to = options->to;
    options->rollout.threads = options->common.threads;
    options->rollout.quiet = options->common.quiet;
    options->rollout.validation = validation_trajectories;
    options->request.on_device = options->device == "cuda";
    const DataFile data = open_on_ranks(options->data);
    rollout(options->request, data, options->output, options->rollout);
    if (!ranks().root()) return;
    const Alone rest;
    if (options->request.allow_other_parameters)
      if (const auto warning = parameters_warning(options->request.model, data.path(), data.experiment()))
        say("warning: {}\n", *warning);
    print_verdicts(judge_rollout(options->output, data, options->rollout));
  });
}

}  // namespace mac::cli
