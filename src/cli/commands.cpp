#include "cli/commands.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "base/portable.hpp"
#include "base/standard_streams.hpp"
#include "evaluation/escape.hpp"
#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "network/cuda_engine.hpp"

namespace mac::cli {

namespace {

void check_outputs(const CLI::App& command) {
  std::vector<std::pair<std::string, std::string>> files;  // option, path
  const std::set<std::string> file_types{"FILE", "FILE...", "EXPERIMENT", "MODEL", "METRICS"};
  for (const CLI::Option* option : command.get_options())
    if (file_types.contains(option->get_type_name()))
      for (const std::string& path : option->results()) files.emplace_back(option->get_name(), path);
  for (const auto& [output, path] : files)
    if (output == "--json" && path.empty()) throw UsageError("--json: the name of the file is empty");
  for (const auto& [output, path] : files)
    for (const auto& [other, other_path] : files)
      if ((output == "--output" || output == "--json") && other != output && same_file(path, other_path))
        throw UsageError("{} {}: would overwrite {} {}", output, path, other, other_path);
}

CLI::Validator finite_number(const char* expected, bool (*fits)(double)) {
  const auto complaint = [=](const std::string& text) {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && fits(value);
    return good ? std::string() : fmt::format("{} is not {}", text, expected);
  };
  return {complaint, ""};
}

}  // namespace

CLI::Validator positive_number() {
  return finite_number("a finite number above 0", [](double value) { return value > 0; });
}

CLI::Validator non_negative_number() {
  return finite_number("a finite number from 0 on", [](double value) { return value >= 0; });
}

void add_common(CLI::App& command, Common& common, bool with_json) {
  command
      .add_option("--threads", common.threads, "Number of threads (default: OMP_NUM_THREADS, or all cores)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command.add_flag("--quiet", common.quiet, "No progress, only results and errors");
  if (with_json)
    command.add_option("--json", common.json, "Write the results as JSON to FILE (- for standard output)")
        ->type_name("FILE");
  command.add_flag("--portable", common.portable,
                   "Networks give the same bytes on every processor with AVX2, with or without AVX-512");
  command.parse_complete_callback([&command, &common] {
    check_outputs(command);
    if (common.portable) use_portable_instructions();
  });
}

void add_precision(CLI::App& command, std::string& precision) {
  command
      .add_option("--precision", precision,
                  "Scalar of the network: float32 or float64 (default: what its file stores)")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->type_name("SCALAR");
}

void set_products(const std::string& precision, const std::string& device) {
  if (precision != "tf32") return;
  if (device != "cuda") throw UsageError("--precision tf32: applies to --device cuda only");
  cuda::set_product_precision(cuda::ProductPrecision::tf32);
}

void print_verdicts(const std::vector<Verdict>& verdicts, bool only_warnings) {
  if (!only_warnings && !verdicts.empty()) {
    for (const Verdict& verdict : verdicts) show("verdict: {}\n", printable_line(verdict.sentence));
    show("({})\n", verdict_measure());
    std::fflush(stdout);  // before what follows on standard error
  }
  for (const Verdict& verdict : verdicts)
    for (const std::string& warning : verdict.warnings) say("warning: {}\n", printable_line(warning));
}

void print_verdicts_as_list(const std::vector<Verdict>& verdicts) {
  for (const Verdict& verdict : verdicts) show("- {}\n", markdown(verdict.sentence));
  show("\n({})\n\n", verdict_measure());
}

void write_json(const std::string& path, const nlohmann::json& value) {
  // Bytes that are no UTF-8 come from files of others.
  write_text(path, value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void write_text(const std::string& path, const std::string& text) {
  if (path != "-")
    write_file_atomically(path, text);
  else if (::isatty(STDOUT_FILENO) == 1)
    show("{}", text);
  else  // a program reads it
    std::fwrite(text.data(), 1, text.size(), stdout);
}

std::vector<std::uint64_t> seed_range(const std::string& text) {
  constexpr std::uint64_t most = 10000;
  std::uint64_t first = 0, last = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, first_error] = std::from_chars(text.data(), end, first);
  if (first_error == std::errc() && colon != end && *colon == ':') {
    const auto [rest, last_error] = std::from_chars(colon + 1, end, last);
    if (last_error == std::errc() && rest == end && last > first && last - first <= most) {
      std::vector<std::uint64_t> seeds;
      for (std::uint64_t seed = first; seed < last; ++seed) seeds.push_back(seed);
      return seeds;
    }
  }
  throw UsageError(
      "--seeds {}: expected FIRST:END with FIRST < END and at most {} seeds, as in 0:5 for the seeds 0 to 4",
      text, most);
}

}  // namespace mac::cli
