// A study in a scratch folder, and the program run on it.
#pragma once

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac::test {

inline const std::string study =
    "[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = 10\n"
    "[data.test]\ntrajectories = 3\nhorizon = 0.2\n[evaluation]\nintervals = [[0, 0.1], [0, 0.2]]\n";

class CommandLine : public ::testing::Test {
 protected:
  CommandLine() { write_bytes(file("study.toml"), study); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  /// @ stands for the scratch folder.
  ProgramResult mac(const std::string& arguments, const std::string& prefix = "") const {
    return run_program_in(folder_.path(), arguments, prefix);
  }
  void generate() { ASSERT_EQ(mac("generate @/study.toml -o @/data.h5").exit_code, 0); }
  ScratchFolder folder_;
};

struct Misuse {
  const char* arguments;
  int exit_code;
  const char* message;
};

}  // namespace mac::test
