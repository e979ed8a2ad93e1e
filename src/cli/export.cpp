// mac export: model.safetensors -> step.onnx
#include <fmt/format.h>

#include <mac/error.hpp>
#include <mac/onnx.hpp>
#include <memory>

#include "cli/commands.hpp"

namespace mac::cli {

void add_export(CLI::App& program) {
  struct Options {
    Common common;
    std::string model, output;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("export", "Write a network's step as an ONNX graph for any onnxruntime");
  command->footer(
      "Examples:\n"
      "  mac export mac.safetensors -o step.onnx\n"
      "The graph takes resolved (batch, variables) and state (batch, numbers), and gives closure and "
      "next_state.\n"
      "resolved and closure are float64 in physical units; the state is float32 and starts as zeros.");
  command->add_option("model", options->model, "Network file (safetensors)")->required()->type_name("MODEL");
  command->add_option("-o,--output", options->output, "ONNX file to write")->required()->type_name("FILE");
  add_common(*command, options->common, false);
  command->callback([options] {
    const Model model = export_onnx(options->model, options->output);
    if (options->common.quiet) return;
    show("{}: resolved (batch, {}), state (batch, {}){} -> closure (batch, {}), next_state\n",
         options->output, model.input_size(), model.shape.state_size(),
         model.noise.channels > 0 ? fmt::format(", noise (batch, {})", model.noise.channels) : "",
         model.shape.d_out);
  });
}

}  // namespace mac::cli
