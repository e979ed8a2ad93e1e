// mac diagnose memory: how far back a trained closure remembers
#include <fmt/format.h>

#include <filesystem>
#include <mac/error.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "evaluation/memory_response.hpp"
#include "io/atomic_file.hpp"
#include "parallel/ranks.hpp"
#include "report/figures.hpp"
#include "report/gnuplot.hpp"

namespace mac::cli {

namespace {

using nlohmann::json;

/// (lags, closure, resolved) as nested lists.
json nested(const std::vector<double>& values, const MemoryResponse& response) {
  const std::size_t c = response.closure_names.size(), d = response.resolved_names.size();
  json result = json::array();
  for (std::size_t l = 0; l < response.lags; ++l) {
    json matrix = json::array();
    for (std::size_t j = 0; j < c; ++j) {
      const auto row = values.begin() + static_cast<std::ptrdiff_t>((l * c + j) * d);
      matrix.push_back(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(d)));
    }
    result.push_back(std::move(matrix));
  }
  return result;
}

json to_json(const MemoryResponse& response) {
  json times = json::object();
  for (std::size_t j = 0; j < response.closure_names.size(); ++j) {
    const auto time = response.memory_time(j);
    times[response.closure_names[j]] = time ? json(*time) : json(nullptr);
  }
  return {{"closure", response.closure_names},     {"resolved", response.resolved_names},
          {"samples", response.samples},           {"threshold", response.threshold},
          {"memory_time", std::move(times)},       {"lag", response.lag_times()},
          {"rms", nested(response.rms, response)}, {"mean", nested(response.mean, response)}};
}

Table table_of(const MemoryResponse& response) {
  Table table{
      fmt::format("Response at lag τ to impulses of the variables' own sizes, and the lag beyond which it "
                  "stays below {:g} % of its maximum",
                  100 * response.threshold),
      {"closure", "at 0"},
      {}};
  std::vector<std::size_t> shown;
  for (std::size_t l = 1; l < response.lags; l *= 4) {
    shown.push_back(l);
    table.header.push_back(fmt::format("at {:.4g}", static_cast<double>(l) * response.step));
  }
  table.header.push_back("memory time");
  for (std::size_t j = 0; j < response.closure_names.size(); ++j) {
    const std::vector<double> strength = response.strength(j);
    std::vector<std::string> row{response.closure_names[j], fmt::format("{:.3g}", strength[0])};
    for (const std::size_t l : shown) row.push_back(fmt::format("{:.3g}", strength[l]));
    const auto time = response.memory_time(j);
    row.push_back(time ? fmt::format("{:.4g}", *time)
                       : fmt::format("> {:.4g}", static_cast<double>(response.lags - 1) * response.step));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void write_figure(const std::string& path, const std::string& name, const MemoryResponse& response,
                  const std::string& kernel_path, const System& system) {
  std::optional<MemoryKernel> kernel;
  if (!kernel_path.empty()) kernel = load_memory_kernel(kernel_path);
  if (kernel && kernel->variables != response.resolved_names.size())
    throw UsageError("{}: is a kernel of {} variables, the model has {}", kernel_path, kernel->variables,
                     response.resolved_names.size());
  const report::Figure figure =
      report::memory_figure({{name, response}}, kernel ? &*kernel : nullptr, system.time_unit());
  write_file_atomically(path, report::draw(figure).pdf);
}

}  // namespace

CLI::App* add_diagnose_memory(CLI::App& diagnose) {
  struct Options {
    Common common;
    MemoryOptions memory;
    std::string model, data, output, kernel;
    double longest = 0;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = diagnose.add_subcommand("memory", "How far back a trained closure remembers");
  command->footer(
      "The response of the closure to an impulse in each resolved variable at lag τ, along true "
      "trajectories.\n"
      "Examples:\n"
      "  mac diagnose memory mac.safetensors --data data.h5\n"
      "  mac diagnose memory mac.safetensors --data data.h5 --longest-lag 0.5 -o memory.pdf --json "
      "memory.json");
  command->add_option("model", options->model, "Model file")->required()->type_name("MODEL");
  command->add_option("--data", options->data, "Data file of mac generate")->required()->type_name("FILE");
  command->add_option("--split", options->memory.split, "Whose trajectories")
      ->capture_default_str()
      ->type_name("NAME");
  auto* longest =
      command
          ->add_option("--longest-lag", options->longest, "Look back this far (default: half a trajectory)")
          ->check(positive_number())
          ->type_name("TIME");
  command->add_option("--trajectories", options->memory.trajectories, "How many of them at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--threshold", options->memory.threshold, "Forgotten: below this share of the maximum")
      ->check(non_negative_number() & CLI::Range(0.0, 1.0))
      ->capture_default_str();
  auto* output =
      command->add_option("-o,--output", options->output, "Write the figure (PDF)")->type_name("FILE");
  command->add_option("--kernel", options->kernel, "A memory kernel to draw beside it in the figure")
      ->needs(output)
      ->type_name("FILE");
  add_common(*command, options->common, true);
  command->callback([options, longest] {
    if (!ranks().root()) return;
    const Alone alone;
    if (longest->count() > 0) options->memory.longest = options->longest;
    options->memory.threads = options->common.threads;
    const DataFile data = DataFile::open(options->data);
    const MemoryResponse response = memory_response(load_model(options->model), data, options->memory);
    if (!options->common.json.empty()) write_json(options->common.json, to_json(response));
    if (!options->output.empty())
      write_figure(options->output, std::filesystem::path(options->model).stem().string(), response,
                   options->kernel, *data.experiment().system);
    if (options->common.json != "-") show("{}", render(table_of(response), TableFormat::text));
  });
  return command;
}

}  // namespace mac::cli
