#include "report/gnuplot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <regex>
#include <thread>

#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "report/html.hpp"
#include "report/script.hpp"
#include "report/style.hpp"

extern char** environ;

namespace mac::report {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_open_table = 8;  // rows below a figure; longer ones are folded away

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code failure;
    const fs::path all = fs::temp_directory_path(failure);
    if (failure) {
      const char* named = std::getenv("TMPDIR");
      throw Error("{}: is no folder for temporary files; TMPDIR names one", named ? named : "/tmp");
    }
    [[maybe_unused]] static const bool tidy = remove_leftovers(all);
    static std::atomic<int> count{0};
    const std::string name = (all / fmt::format("mac-report-{}.partial-{}", count++, process_tag())).string();
    if (::mkdir(name.c_str(), 0700) != 0)
      throw Error("{}: cannot make a folder for gnuplot ({})", name, std::strerror(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  /// Those of programs that were killed.
  static bool remove_leftovers(const fs::path& folder) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().filename().string().starts_with("mac-report-") && is_left_over(entry.path()))
        fs::remove_all(entry.path(), ignored);
    return true;
  }
  fs::path path_;
};

/// Runs gnuplot on `script` inside the folder; no shell, no name of a user's file.
void run_gnuplot(const fs::path& folder, const std::string& script, const std::string& figure) {
  std::ofstream file_of_script(folder / "script.gp", std::ios::binary);
  if (!(file_of_script << script) || !file_of_script.flush())
    throw Error("{}: cannot be written, for the figure {}; is the disk full? TMPDIR names another folder",
                (folder / "script.gp").string(), figure);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "messages", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "gnuplot", defaults = "-d", file = "script.gp";  // -d: not the user's settings
  char* const arguments[] = {program.data(), defaults.data(), file.data(), nullptr};
  pid_t child = 0;
  const int failure = posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT)
    throw Error("the report needs gnuplot, which is not installed: apt-get install gnuplot-nox");
  if (failure != 0) throw Error("cannot start gnuplot ({})", std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (interrupted()) ::kill(child, SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw_if_interrupted();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error("gnuplot failed on the figure {}: {}", figure, read_file(folder / "messages"));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// gnuplot's SVG as an element of a page: the page's text colour for black, no ids that would clash with
/// those of other figures, no unused definitions.
std::string page_svg(std::string text, const std::string& label, const PanelSize& size) {
  const std::size_t body = text.find("<g id=\"gnuplot_canvas\">"), definitions = text.find("</defs>");
  const std::size_t end = text.rfind("</svg>");
  if (body == std::string::npos || definitions == std::string::npos || end == std::string::npos)
    throw Error("gnuplot wrote an SVG file of another kind than version 5 does");
  text = "<g>" + text.substr(definitions + 7, end - definitions - 7);
  static const std::regex plot_group("<g id=\"[^\"]*\" ?><title>[^<]*</title>");
  text = std::regex_replace(text, plot_group, "<g>");
  replace_all(text, " color=\"black\"", "");
  replace_all(text, " color=\"white\"", "");
  replace_all(text, "stroke='black'", "stroke='currentColor'");
  replace_all(text, "'rgb(  0,   0,   0)'", "'currentColor'");  // of curves
  replace_all(text, "stroke=\"black\"", "stroke=\"currentColor\"");
  replace_all(text, "fill=\"black\"", "fill=\"currentColor\"");
  static const std::regex empty_group("<g [^>]*>\\s*</g>\\s*");
  text = std::regex_replace(text, empty_group, "");
  return fmt::format(
      "<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">{}</svg>",
      size.width, size.height, escaped(label), text);
}

/// Cairo writes the date into the file; the same figure should be the same bytes.
std::string without_date(std::string pdf) {
  static constexpr std::string_view key = "/CreationDate (D:", fixed = "20000101000000";
  if (const std::size_t at = pdf.find(key); at != std::string::npos)
    pdf.replace(at + key.size(), fixed.size(), fixed);
  return pdf;
}

}  // namespace

DrawnFigure draw(const Figure& figure) {
  const TemporaryFolder folder;
  run_gnuplot(folder.path(), gnuplot_script(figure), figure.name);
  DrawnFigure drawn;
  for (std::size_t p = 0; p < figure.panels.size(); ++p) {
    const Panel& panel = figure.panels[p];
    const std::string& label = panel.title.empty() ? panel.axes.front().y_label : panel.title;
    drawn.svg.push_back(page_svg(read_file(folder.path() / fmt::format("panel{}.svg", p)),
                                 figure.title + ": " + label, svg_size(figure)));
  }
  drawn.pdf = without_date(read_file(folder.path() / "figure.pdf"));
  drawn.whole_svg = read_file(folder.path() / "figure.svg");
  // gnuplot does not notice that its disk is full.
  if (drawn.pdf.find("%%EOF", drawn.pdf.size() - std::min<std::size_t>(drawn.pdf.size(), 64)) ==
          std::string::npos ||
      drawn.whole_svg.find("</svg>") == std::string::npos)
    throw Error("gnuplot did not finish the figure {}; is the disk of {} full? TMPDIR names another folder",
                figure.name, folder.path().parent_path().string());
  return drawn;
}

std::string legend_sample(const std::string& model) {
  const LineStyle style = style_of(model);
  std::vector<double> dash = style.dash;
  for (double& length : dash) length *= style.width * dash_length / 2;  // as gnuplot draws it
  return fmt::format(
      "<svg class=\"sample\" viewBox=\"0 0 36 8\" aria-hidden=\"true\"><path d=\"M0,4 H36\" fill=\"none\" "
      "stroke=\"{}\" stroke-width=\"{:g}\" stroke-dasharray=\"{}\"/></svg>",
      style.colour == text_colour ? "currentColor" : style.colour, style.width,
      dash.empty() ? "none" : fmt::format("{:g}", fmt::join(dash, ",")));
}

std::string html_figure(const Figure& figure, const DrawnFigure& drawn, const std::string& file) {
  std::string text = fmt::format("<figure id=\"{}\"><h3>{}</h3>\n", figure.name, escaped(figure.title));
  std::string drawing = "<ul class=\"legend\">";
  for (const std::string& model : figure.models())
    drawing += fmt::format("<li>{}{}</li>", legend_sample(model), escaped(model));
  drawing += fmt::format("</ul>\n<div class=\"{}\">\n", figure.multiples        ? "multiples"
                                                        : drawn.svg.size() == 1 ? "single"
                                                                                : "panels");
  for (const std::string& svg : drawn.svg) drawing += svg + "\n";
  drawing += "</div>\n";
  text += figure.multiples ? html_folded(fmt::format("{} small panels", drawn.svg.size()), drawing) : drawing;
  text += fmt::format(
      "<figcaption>{} <a href=\"{}\">{}<span class=\"unseen\"> of the figure {}</span></a></figcaption>\n",
      escaped(figure.caption), escaped(file), file.ends_with(".pdf") ? "PDF" : "SVG", escaped(figure.title));
  for (const Table& table : figure.tables)
    text += table.rows.size() > longest_open_table ? html_folded(table.title, html_table(table))
                                                   : html_table(table);
  return text + "</figure>\n";
}

}  // namespace mac::report
