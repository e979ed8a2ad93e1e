// mac evaluate: rollouts -> tables and metrics.json
#include <fmt/format.h>

#include <cstdio>
#include <mac/evaluation.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "io/atomic_file.hpp"

namespace mac::cli {

void write_json(const std::string& path, const nlohmann::json& value) {
  const std::string text = value.dump(2) + "\n";
  if (path == "-")
    fmt::print("{}", text);
  else
    write_file_atomically(path, text);
}

namespace {

const std::map<std::string, TableFormat> formats = {{"text", TableFormat::text},
                                                    {"markdown", TableFormat::markdown},
                                                    {"csv", TableFormat::csv},
                                                    {"latex", TableFormat::latex}};

}  // namespace

void add_evaluate(CLI::App& program) {
  struct Options {
    Common common;
    std::vector<std::string> rollouts;
    std::string format = "text";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("evaluate", "Compare rollouts with the truth, and with the paper");
  command->footer(
      "Examples:\n"
      "  mac evaluate markov.h5 exact.h5 --json metrics.json\n"
      "  mac evaluate mac-seed*.h5 gru-seed*.h5 --format latex\n"
      "Files of one model (several seeds) are pooled.");
  command->add_option("rollouts", options->rollouts, "Rollout files")->required()->type_name("FILE...");
  command->add_option("--format", options->format, "Tables as text, markdown, csv or latex")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  add_common(*command, options->common, true);
  command->callback([options] {
    std::vector<RolloutFile> rollouts;
    for (const std::string& path : options->rollouts) rollouts.push_back(RolloutFile::open(path));
    const Evaluation evaluation = evaluate(std::move(rollouts));
    if (!options->common.json.empty()) write_json(options->common.json, to_json(evaluation));
    if (options->common.json == "-") return;
    for (const Table& table : tables(evaluation))
      fmt::print("{}\n", render(table, formats.at(options->format)));
    for (const ModelMetrics& model : evaluation.models)
      for (const auto& [split, metrics] : model.splits)
        for (const BlowUp& blow_up : metrics.blow_ups)
          fmt::print(stderr, "{}: trajectory {} of split {} blew up at t = {:g}; it is in no mean\n",
                     blow_up.file, blow_up.trajectory, split, blow_up.time);
  });
}

}  // namespace mac::cli
