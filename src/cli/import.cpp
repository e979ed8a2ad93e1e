// mac import: files of other programs -> data.h5
#include <fmt/format.h>

#include <mac/error.hpp>
#include <mac/import.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/number_text.hpp"
#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "io/atomic_file.hpp"

namespace mac::cli {

namespace {

/// An option that is a key of --map as well.
struct ImportKey {
  enum class Kind { list, text, number, numbers, flag };
  const char* name;
  Kind kind;
  const char* type;
  const char* help;
  std::vector<std::string> choices = {};
};

const std::vector<ImportKey>& import_keys() {
  using enum ImportKey::Kind;
  static const std::vector<ImportKey> keys{
      {"variables", list, "NAMES", "Arrays or columns of the resolved variables (default: all that can be)"},
      {"time", text, "NAME", "Array or column of the times (default: time or t)"},
      {"dt", number, "X", "Time between two rows, where the files have no times"},
      {"trajectory", text, "NAME", "Column that numbers the trajectories"},
      {"group", text, "PATTERN", "HDF5: each group whose name matches is a file of its own, as in run*"},
      {"axes", list, "ROLES",
       "What the axes of arrays are: trajectory, time, variable in their order, or DIMENSION=ROLE for named "
       "ones"},
      {"names", list, "NAMES", "New names of the variables"},
      {"units", list, "UNITS", "Units of the variables (default: as the files say)"},
      {"time-unit", text, "UNIT", "Unit of the time (default: as the files say)"},
      {"closure", list, "NAMES", "Arrays or columns of the closure (default: computed by differences)"},
      {"forcing", list, "NAMES", "Arrays or columns of series that drive the system: inputs, no unknowns"},
      {"parameters", list, "NAMES", "Arrays or columns of numbers that are constant in each trajectory"},
      {"given", text, "FORMULAS",
       "Inputs that are expressions of the time, as in \"tide = sin(2*pi*t/12.4); sun = cos(2*pi*t/24)\""},
      {"targets", list, "NAMES", "Variables whose equations have a closure (default: all)"},
      {"system", text, "EXPERIMENT",
       "Experiment whose [system] has the reduced equations (default: none, dy/dt = 0 + closure)"},
      {"order", number, "N", "Of the differences by which the closure is computed: 4 (default), or 2"},
      {"missing", numbers, "NUMBERS", "Numbers that mark missing values"},
      {"gaps",
       text,
       "HOW",
       "Missing rows: refuse (default), split the trajectory there, fill them by interpolation, or mask: "
       "fill "
       "them and learn nothing there",
       {"refuse", "split", "fill", "mask"}},
      {"longest-gap", number, "X", "Gaps longer than this are not filled; the trajectory is cut there"},
      {"resample", number, "X", "Bring uneven times to this step by cubic interpolation"},
      {"outliers",
       text,
       "HOW",
       "Outliers: warn (default), drop them as missing, or refuse",
       {"warn", "drop", "refuse"}},
      {"split",
       text,
       "HOW",
       "Splits by trajectory (default), or by time: the end of each is for testing",
       {"trajectory", "time"}},
      {"validation", number, "SHARE", "Share for validation (default 0.1; 0: none)"},
      {"test", number, "SHARE", "Share for testing (default 0.1; 0: none)"},
      {"validation-files", list, "FILES", "Files for validation alone"},
      {"test-files", list, "FILES", "Files for testing alone"},
      {"seed", number, "N", "Of the splits (default 0)"},
      {"length", number, "X",
       "Length in time of the trajectories that are written (default: as keeps most rows)"},
      {"allow-leakage", flag, "", "Take files that share states with those for training"}};
  return keys;
}

std::string toml_text(const std::string& text) {
  if (text.find('\'') != std::string::npos)
    throw UsageError("\"{}\": names with an apostrophe go into a file for --map", text);
  return "'" + text + "'";
}

/// TOML knows no .05, 1. and 007.
std::string toml_number(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos && text[0] != '0';
  return digits ? text : fmt::format("{}", number_in(std::string_view(text).substr(text[0] == '+')));
}

std::string toml_value(const ImportKey& key, const std::string& text) {
  if (key.kind == ImportKey::Kind::text) return toml_text(text);
  if (key.kind == ImportKey::Kind::number) return toml_number(text);
  if (key.kind == ImportKey::Kind::flag) return "true";
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    parts.push_back(key.kind == ImportKey::Kind::list ? toml_text(part) : part);
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// A study that goes on with the data.
std::string study_text(const Experiment& experiment) {
  return experiment.config.text() +
         "\n[[models]]\nname = \"closure\"\nkind = \"mamba\"\n\n[training]\nrecipe = \"auto\"\nsteps = "
         "4000\n";
}

void print_report(const ImportReport& report, const std::string& output) {
  const System& system = *report.experiment.system;
  const auto list = [](const auto& names) {
    return printable_line(fmt::format("{}", fmt::join(names, ", ")));
  };
  show("{}: {}, closure of {}, step {:g}\n", output, list(system.resolved_names()),
       list(system.closure_names()), report.experiment.data.closure_step());
  for (const ImportReport::Split& split : report.splits)
    show("  {:<10} {} trajectories of {} times\n", split.name, split.trajectories, split.times);
  for (const std::string& note : report.notes) show("{}\n", printable_line(note));
}

}  // namespace

void add_import(CLI::App& program) {
  struct Options {
    Common common;
    std::vector<std::string> files;
    std::map<std::string, std::string> values;
    std::map<std::string, bool> flags;
    std::string output, map, study;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("import", "Make a data set of trajectories that another program saved");
  command->footer(
      "Examples:\n"
      "  mac import runs.nc --variables x,v --targets v -o data.h5\n"
      "  mac import run*.csv --time t --gaps split -o data.h5 --study study.toml\n"
      "  mac import y.npy --dt 0.05 --axes time,trajectory,variable -o data.h5\n"
      "NumPy (.npy, .npz), HDF5, NetCDF and CSV are told apart by their first bytes.");
  command->add_option("files", options->files, "Files of the same variables")
      ->required()
      ->type_name("FILE...");
  command->add_option("-o,--output", options->output, "Data file to write (HDF5)")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--map", options->map, "TOML file with these options as keys; options here are stronger")
      ->type_name("FILE");
  command->add_option("--study", options->study, "Write an experiment that trains on the data, too")
      ->type_name("FILE");
  for (const ImportKey& key : import_keys()) {
    const std::string flag = std::string("--") + key.name;
    if (key.kind == ImportKey::Kind::flag) {
      command->add_flag(flag, options->flags[key.name], key.help);
      continue;
    }
    CLI::Option* option = command->add_option(flag, options->values[key.name], key.help)->type_name(key.type);
    if (key.kind == ImportKey::Kind::number) option->check(non_negative_number());
    if (!key.choices.empty()) option->check(CLI::IsMember(key.choices));
  }
  add_common(*command, options->common, true);
  command->callback([options, command] {
    ImportPlan plan;
    if (!options->map.empty()) read_import_plan(ConfigTable::read(options->map), plan);
    std::string given;
    for (const ImportKey& key : import_keys())
      if (command->count(std::string("--") + key.name) > 0)
        given += fmt::format("{} = {}\n", key.name, toml_value(key, options->values[key.name]));
    read_import_plan(ConfigTable::parse(given, "mac import"), plan);
    const ImportReport report = import_data(options->files, plan, options->output, options->common.quiet);
    if (!options->study.empty()) write_file_atomically(options->study, study_text(report.experiment));
    if (!options->common.json.empty())
      write_json(options->common.json, {{"notes", report.notes}, {"warnings", report.warnings}});
    if (options->common.json != "-") print_report(report, options->output);
    for (const std::string& warning : report.warnings) say("warning: {}\n", warning);
  });
}

}  // namespace mac::cli
