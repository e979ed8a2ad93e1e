// mac new-system: a folder with a system of one's own, to begin with
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/system.hpp>
#include <memory>

#include "base/standard_streams.hpp"
#include "cli/commands.hpp"
#include "cli/skeletons.hpp"
#include "io/atomic_file.hpp"

namespace mac::cli {

namespace {

namespace fs = std::filesystem;

struct SkeletonKind {
  const char *name, *extension, *source, *compile, *about;
};
constexpr SkeletonKind skeleton_kinds[] = {
    {"equations", "", "", "", ""},
    {"cpp", "cpp", skeleton_cpp, "$(CXX) -std=c++20 -O2 -shared -fPIC -I'$(MAC_HEADERS)' $< -o $@",
     "the system in C++, `mac/own_plugin.hpp`"},
    {"c", "c", skeleton_c, "$(CC) -O2 -shared -fPIC -I'$(MAC_HEADERS)' $< -o $@",
     "the system in C, `mac/plugin.h`"},
    {"fortran", "f90", skeleton_fortran, "gfortran -O2 -shared -fPIC $< -o $@",
     "the system in Fortran, the functions of `mac/plugin.h`"}};

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values)
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size())
      text.replace(at, key.size(), value);
  return text;
}

/// Where a compiler finds mac/plugin.h: beside the installed program, or where it was built.
std::string headers() {
  std::error_code failure;
  const fs::path installed = fs::canonical("/proc/self/exe", failure).parent_path().parent_path() / "include";
  return fs::exists(installed / "mac" / "plugin.h", failure) ? installed.string() : MAC_HEADERS;
}

void check_name(const std::string& name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (name.empty() || name.size() > 40 || !(name[0] >= 'a' && name[0] <= 'z') ||
      !std::ranges::all_of(name, fits))
    throw UsageError(
        "\"{}\" is no name of a system: expected a small letter, then small letters, digits and _", name);
  if (std::ranges::count(system_names(), name) > 0)
    throw UsageError("there is a system \"{}\" already", name);
}

std::vector<std::string> write_skeleton(const std::string& name, const SkeletonKind& kind,
                                        const fs::path& folder) {
  const bool plugged = *kind.source != '\0';
  const std::string source = name + "." + kind.extension;
  const auto text = [&](const char* of) {
    return filled(of, {{"@SYSTEM@", plugged ? skeleton_plugged : skeleton_equations},
                       {"@FILES@", plugged ? fmt::format("| `{}` | {} |\n| `Makefile` | how it is compiled |",
                                                         source, kind.about)
                                           : "| `README.md` | this |"},
                       {"@BUILD@", plugged ? "make test" : "sh test.sh"},
                       {"@COMPILE@", kind.compile},
                       {"@SOURCE@", source},
                       {"@HEADERS@", headers()},
                       {"@KIND@", kind.name},
                       {"@NAME@", name}});
  };
  std::vector<std::pair<std::string, std::string>> files{{name + ".toml", text(skeleton_experiment)},
                                                         {"README.md", text(skeleton_readme)},
                                                         {"test.sh", text(skeleton_test)}};
  if (plugged) {
    files.emplace_back(source, text(kind.source));
    files.emplace_back("Makefile", text(skeleton_makefile));
  }
  // All of it, or nothing: under another name until it is whole.
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const fs::path last = whole.has_filename() ? whole : whole.parent_path();
  const fs::path unfinished = last.string() + ".partial-" + process_tag();
  std::vector<std::string> names;
  remove_left_over(last);
  try {
    make_folder(unfinished);
    for (const auto& [file, content] : files) {
      write_file_atomically(unfinished / file, content);
      names.push_back(file);
    }
    std::error_code failure;
    fs::rename(unfinished, last, failure);
    if (failure) throw Error("{}: cannot be made: {}", folder.string(), failure.message());
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(unfinished, ignored);
    throw;
  }
  return names;
}

}  // namespace

void add_new_system(CLI::App& program) {
  struct Options {
    Common common;
    std::string name, output;
    std::vector<char> chosen = std::vector<char>(std::size(skeleton_kinds));
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("new-system", "Write a folder with a system of one's own to begin with");
  command->footer(
      "Examples:\n"
      "  mac new-system pendulum                      # equations as text, in pendulum/\n"
      "  mac new-system pendulum --fortran -o work    # a plug-in with its Makefile, in work/\n"
      "Each has a study that runs as it is, and a test.");
  command->add_option("name", options->name, "Name of the system")->required()->type_name("NAME");
  command->add_option("-o,--output", options->output, "Folder to make (default: the name)")->type_name("DIR");
  const char* const about[] = {"Equations as text in the experiment (the default)", "A plug-in in C++",
                               "A plug-in in C", "A plug-in in Fortran"};
  std::vector<CLI::Option*> flags;
  for (std::size_t i = 0; i < std::size(skeleton_kinds); ++i)
    flags.push_back(command->add_flag_callback(
        std::string("--") + skeleton_kinds[i].name, [options, i] { options->chosen[i] = 1; }, about[i]));
  for (CLI::Option* one : flags)
    for (CLI::Option* other : flags)
      if (one != other) one->excludes(other);
  add_common(*command, options->common, false);
  command->callback([options] {
    check_name(options->name);
    const fs::path folder = options->output.empty() ? options->name : options->output;
    if (fs::exists(folder)) throw UsageError("{}: exists already", folder.string());
    const auto chosen = std::ranges::find(options->chosen, 1);
    const std::size_t kind =
        chosen == options->chosen.end() ? 0 : static_cast<std::size_t>(chosen - options->chosen.begin());
    const auto files = write_skeleton(options->name, skeleton_kinds[kind], folder);
    if (!options->common.quiet)
      show("{}: {}\nNext: cd {} && {}\n", folder.string(), fmt::join(files, ", "), folder.string(),
           kind == 0 ? "sh test.sh" : "make test");
  });
}

}  // namespace mac::cli
