// The commands of the program, one file each.
#pragma once

#include <CLI/CLI.hpp>
#include <mac/verdict.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/standard_streams.hpp"

namespace mac::cli {

/// Options every command has.
struct Common {
  int threads = 0;  // 0: all cores
  bool quiet = false;
  bool portable = false;  // networks compute the same bytes on every machine
  std::string json;       // file for results as JSON, "-" for standard output; empty: none
};

/// Adds --threads, --portable and --quiet, and --json where a command prints results. Before the command runs, UsageError
/// if a file it would write (-o, --json) is one it was given.
void add_common(CLI::App& command, Common& common, bool with_json);

/// Adds --precision; `precision` stays empty where it is not given.
void add_precision(CLI::App& command, std::string& precision);

/// Takes --precision tf32; throws UsageError where the device is not cuda.
void set_products(const std::string& precision, const std::string& device);

/// Checks of options, finite numbers only.
CLI::Validator positive_number();
CLI::Validator non_negative_number();

/// The sentence of each verdict, its warnings on standard error; nothing where there is none.
void print_verdicts(const std::vector<Verdict>& verdicts, bool only_warnings = false);
/// The sentences alone, as Markdown.
void print_verdicts_as_list(const std::vector<Verdict>& verdicts);

/// Writes results to a file, or to standard output for "-".
void write_json(const std::string& path, const nlohmann::json& value);
void write_text(const std::string& path, const std::string& text);

/// The seeds of "0:5": 0, 1, 2, 3, 4. Throws UsageError for anything else.
std::vector<std::uint64_t> seed_range(const std::string& text);

/// The settings of an experiment as tables in Markdown: docs/experiments.md has them word for word.
std::string settings_reference();

// Each adds its command to the program; the command runs when it is chosen.
void add_generate(CLI::App& program);
void add_import(CLI::App& program);
void add_train(CLI::App& program);
void add_rollout(CLI::App& program);
void add_run(CLI::App& program);
void add_sweep(CLI::App& program);
void add_evaluate(CLI::App& program);
void add_bench(CLI::App& program);
void add_predict(CLI::App& program);
void add_info(CLI::App& program);
void add_ensemble(CLI::App& program);
void add_range(CLI::App& program);
void add_new_system(CLI::App& program);
void add_export(CLI::App& program);
void add_diagnose(CLI::App& program);
CLI::App* add_diagnose_memory(CLI::App& diagnose);  // mac diagnose memory
void add_report(CLI::App& program);
void add_verify(CLI::App& program);

}  // namespace mac::cli
