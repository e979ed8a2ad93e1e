// mac: simulate, learn the closure, roll out, evaluate. One command a stage; see docs/cli.md.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/version.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "base/nearest.hpp"
#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "cli/join.hpp"
#include "parallel/ranks.hpp"
#include "systems/plugin.hpp"

namespace mac::cli {

namespace {

constexpr std::string_view shared_commands[]{"run", "sweep", "generate", "train", "rollout", "diagnose"};

/// A first word that is no command, said before the parser complains about what is missing.
void check_command(const CLI::App& program, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) == names.end())
    throw UsageError("unknown command \"{}\"{}", argv[1], suggestion(argv[1], names));
}

/// Whether the ranks share the command's work; what others do takes one process, rank 0.
bool is_shared(const CLI::App& program, int argc, char** argv) {
  const auto commands = program.get_subcommands({});
  for (int i = 1; i < argc; ++i)
    if (std::ranges::any_of(commands,
                            [&](const CLI::App* command) { return command->get_name() == argv[i]; }))
      return std::ranges::find(shared_commands, argv[i]) != std::end(shared_commands);
  return false;
}

/// Runs the command, or prints the help or the complaint; gives the exit code.
int parse(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
}

int run(int argc, char** argv) {
  CLI::App program{"MAC learns the missing part of a reduced-order model.", "mac"};
  program.set_version_flag("--version", [] { return version_text() + ", " + mpi_description(); });
  program.require_subcommand(1);
  program
      .add_option_function<std::vector<std::string>>(
          "--plugin",
          [](const std::vector<std::string>& paths) {
            for (const std::string& path : paths) load_plugin(path);
          },
          "Shared library with a system of one's own; may be repeated (also $MAC_PLUGINS)")
      ->expected(1)
      ->take_all()
      ->type_name("FILE");
  program.footer(
      "A study from start to end, and the same step by step:\n"
      "  mac run experiments/burgers.toml -o runs/burgers\n"
      "  mac generate experiments/burgers.toml -o data.h5\n"
      "  mac train experiments/burgers.toml --data data.h5 --model mac -o mac.safetensors\n"
      "  mac rollout mac.safetensors --data data.h5 -o mac.h5\n"
      "  mac rollout markov --data data.h5 -o markov.h5\n"
      "  mac evaluate mac.h5 markov.h5");
  add_run(program);
  add_sweep(program);
  add_generate(program);
  add_import(program);
  add_new_system(program);
  add_train(program);
  add_rollout(program);
  add_evaluate(program);
  add_bench(program);
  add_predict(program);
  add_ensemble(program);
  add_range(program);
  add_export(program);
  add_info(program);
  add_verify(program);
  add_diagnose(program);
  add_report(program);
  program.failure_message([](const CLI::App* app, const CLI::Error& error) {
    std::string command = app->get_name();
    while (!app->get_subcommands().empty()) {
      app = app->get_subcommands().front();
      command += " " + app->get_name();
    }
    return printable(fmt::format("mac: {}\nRun '{} --help' for usage.\n", error.what(), command));
  });
  open_closed_streams();
  watch_interrupts();
  const auto failed = [](int exit_code, std::string_view why) {
    return leave_ranks(exit_code, why.empty() ? "" : fmt::format("mac: {}\n", why));
  };
  try {
    join_ranks();
    check_command(program, argc, argv);
    if (const char* plugins = std::getenv("MAC_PLUGINS")) load_plugins(plugins);
    std::optional<Alone> alone;
    if (!is_shared(program, argc, argv)) {
      if (!ranks().root()) return leave_ranks(0, "");
      alone.emplace();
    }
    const int exit_code = parse(program, argc, argv);
    finish_output();
    return leave_ranks(exit_code, "");
  } catch (const Interrupted&) {
    return failed(interrupt_exit_code(), "interrupted");
  } catch (const FailedElsewhere&) {
    return failed(1, "");
  } catch (const UsageError& error) {
    return failed(2, error.what());
  } catch (const std::length_error&) {
    return failed(1, "more memory was asked for than any machine has");
  } catch (const std::exception& error) {
    return failed(1, error.what());
  }
}

pid_t process = 0;
bool returned = false;

/// HDF5 ends the program itself where it has no memory for a call, and a plug-in may do so: that is said, too. Children
/// are no concern of this.
void at_the_end() {
  if (!returned && ::getpid() == process && ranks().size() == 1)
    std::fputs("mac: a library ended the program, as HDF5 does where there is not enough memory\n", stderr);
}

}  // namespace
}  // namespace mac::cli

int main(int argc, char** argv) {
  mac::cli::process = ::getpid();
  std::atexit(mac::cli::at_the_end);
  int exit_code = 1;
  try {
    exit_code = mac::cli::run(argc, argv);
  } catch (const std::exception& error) {  // before the command was known
    mac::say("mac: {}\n", error.what());
  }
  mac::cli::returned = true;
  return exit_code;
}
