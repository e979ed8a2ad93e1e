// Runs the program itself, as a user would.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace mac::test {

struct ProgramResult {
  int exit_code;
  std::string output;  // standard output and standard error
};

/// A command through the shell.
inline ProgramResult run_command(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  ProgramResult result{-1, {}};
  if (!pipe) return result;
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

/// `mac ARGUMENTS`; `prefix` may set limits or variables.
inline ProgramResult run_program(const std::string& arguments, const std::string& prefix = "") {
  return run_command(prefix + " " + std::string(MAC_PROGRAM) + " " + arguments + " 2>&1 < /dev/null");
}

/// The same with @ for a folder.
inline ProgramResult run_program_in(const std::filesystem::path& folder, std::string arguments,
                                    const std::string& prefix = "") {
  for (std::size_t at; (at = arguments.find('@')) != std::string::npos;)
    arguments.replace(at, 1, folder.string());
  return run_program(arguments, prefix);
}

}  // namespace mac::test
