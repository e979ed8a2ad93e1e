// mac predict: a model and recorded sequences -> the closure at every time
#include "predict/predict.hpp"

#include <fmt/format.h>

#include <mac/error.hpp>
#include <mac/system_parameters.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "io/input_file.hpp"

namespace mac::cli {

namespace {

void print_errors(const std::vector<ClosureError>& errors) {
  for (const ClosureError& split : errors) {
    show("closure of split {}, relative error in %\n", split.split);
    for (std::size_t c = 0; c < split.components.size(); ++c)
      show("  {:<10} {:>18}\n", printable_line(split.components[c]), percent(split.errors[c]));
  }
}

nlohmann::json to_json(const std::vector<ClosureError>& errors) {
  nlohmann::json splits = nlohmann::json::object();
  for (const ClosureError& split : errors) {
    std::vector<double> mean, deviation;
    for (const MeanStd& error : split.errors) mean.push_back(error.mean), deviation.push_back(error.std);
    splits[split.split] = {
        {"components", split.components}, {"relative_error", mean}, {"deviation", deviation}};
  }
  return {{"closure_error", splits}};
}

}  // namespace

void add_predict(CLI::App& program) {
  struct Options {
    Common common;
    bool allow_other_parameters = false;
    std::string model, input, output, engine = "cpu", precision, mode = "sequence";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "predict", "Apply a network to recorded sequences, without coupling it to equations");
  command->footer(
      "Examples:\n"
      "  mac predict model.safetensors --input data.h5 -o prediction.h5\n"
      "  mac predict model.safetensors --input x.safetensors -o y.safetensors --precision float64\n"
      "A data file gives an HDF5 file with closure and true_closure of each split, and their distance. A\n"
      "safetensors file with a tensor x (batch, time, inputs) gives one with y (batch, time, outputs).");
  command->add_option("model", options->model, "Network file (safetensors)")->required()->type_name("MODEL");
  command->add_option("--input", options->input, "Data file of mac generate, or safetensors with a tensor x")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", options->output, "File to write")->required()->type_name("FILE");
  command->add_option("--engine", options->engine, "reference (plain loops) or cpu (SIMD and threads)")
      ->check(CLI::IsMember({"reference", "cpu"}))
      ->capture_default_str();
  add_precision(*command, options->precision);
  command
      ->add_option("--mode", options->mode,
                   "sequence (many times at once) or step (one after the other, as in a rollout)")
      ->check(CLI::IsMember({"sequence", "step"}))
      ->capture_default_str();
  command->add_flag("--allow-other-parameters", options->allow_other_parameters,
                    "Take data of other parameters of the system, with a warning");
  add_common(*command, options->common, true);
  command->callback([options] {
    PredictOptions how;
    how.engine = options->engine == "cpu" ? EngineChoice::cpu : EngineChoice::reference;
    if (!options->precision.empty()) how.precision = precision_from(options->precision);
    how.mode = options->mode == "sequence" ? ModeChoice::sequence : ModeChoice::step;
    how.threads = options->common.threads;
    how.quiet = options->common.quiet;
    how.allow_other_parameters = options->allow_other_parameters;
    const Model model = load_model(options->model);
    if (file_kind(options->input) == FileKind::hdf5) {
      const auto errors = predict_data(model, options->model, options->input, options->output, how);
      if (how.allow_other_parameters)
        if (const auto warning = parameters_warning(options->model, options->input,
                                                    DataFile::open(options->input).experiment()))
          say("warning: {}\n", *warning);
      if (!options->common.json.empty()) write_json(options->common.json, to_json(errors));
      if (options->common.json != "-") print_errors(errors);
      return;
    }
    if (!options->common.json.empty())
      throw UsageError("--json reports the distance from the true closure, which {} does not hold",
                       options->input);
    predict_safetensors(model, options->input, options->output, how);
  });
}

}  // namespace mac::cli
