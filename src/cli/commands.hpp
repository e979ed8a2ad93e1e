// The commands of the program, one file each.
#pragma once

#include <CLI/CLI.hpp>

namespace mac::cli {

/// Options every command has.
struct Common {
  int threads = 0;  // 0: all cores
  bool quiet = false;
  std::string json;  // file for results as JSON, "-" for standard output; empty: none
};

/// Adds --threads and --quiet, and --json where a command prints results.
void add_common(CLI::App& command, Common& common, bool with_json);

// Each adds its command to the program; the callback runs the command. Options live as long as the program.

}  // namespace mac::cli
