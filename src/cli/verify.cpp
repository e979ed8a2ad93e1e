// mac verify: whether files are as they were written
#include "run/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mac/error.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"

namespace mac::cli {

namespace {

const char* word(Soundness soundness) {
  switch (soundness) {
    case Soundness::whole:
      return "whole";
    case Soundness::without_checksum:
      return "readable";
    case Soundness::missing:
      return "missing";
    case Soundness::damaged:
      break;
  }
  return "DAMAGED";
}

}  // namespace

void add_verify(CLI::App& program) {
  struct Options {
    Common common;
    std::vector<std::string> paths;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("verify", "Check that files are as they were written, by their checksums");
  command->footer(
      "Examples:\n"
      "  mac verify model.safetensors data.h5\n"
      "  mac verify runs/burgers\n"
      "A file is whole (it fits its checksum), readable (it has none), DAMAGED or missing. Exit code 1 if "
      "one "
      "is damaged or missing.");
  command
      ->add_option("paths", options->paths,
                   "Networks, checkpoints, HDF5 files of mac, saved states, or folders with them")
      ->required()
      ->type_name("FILE|FOLDER");
  add_common(*command, options->common, true);
  command->callback([options] {
    std::vector<VerifiedFile> files;
    for (const std::string& path : options->paths) {
      auto found = verify(path);
      files.insert(files.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
    }
    nlohmann::json json = nlohmann::json::array();
    std::size_t bad = 0;
    for (const VerifiedFile& file : files) {
      const bool good = file.soundness == Soundness::whole || file.soundness == Soundness::without_checksum;
      bad += !good;
      json.push_back({{"file", file.path}, {"result", word(file.soundness)}, {"note", file.note}});
      if (options->common.json != "-" && !(options->common.quiet && good))
        show("{:<8}  {}: {}\n", word(file.soundness), printable_line(file.path), printable_line(file.note));
    }
    if (!options->common.json.empty()) write_json(options->common.json, json);
    if (bad > 0) throw Error("{} of {} files are damaged or missing", bad, files.size());
  });
}

}  // namespace mac::cli
