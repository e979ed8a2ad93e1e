#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/report.hpp>
#include <mac/verdict.hpp>
#include <mac/version.hpp>
#include <map>
#include <set>

#include "base/number_text.hpp"
#include "io/atomic_file.hpp"
#include "report/figures.hpp"
#include "report/gnuplot.hpp"
#include "report/html.hpp"
#include "report/run_folder.hpp"
#include "report/search_table.hpp"
#include "report/summary.hpp"
#include "report/training_summary.hpp"

namespace mac {

namespace report {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_table = 12;  // rows of a table of the evaluation; longer ones are folded away

const std::map<std::string, std::string, std::less<>> system_titles{
    {"burgers", "Viscous Burgers' equation"},    {"kdv", "Korteweg–de Vries equation"},
    {"ks", "Kuramoto–Sivashinsky equation"},     {"ks_cells", "Kuramoto–Sivashinsky equation in cells"},
    {"lorenz96", "Two-scale Lorenz '96 system"}, {"power_grid", "3-bus power grid"}};

std::string system_title(const System& system) {
  const auto found = system_titles.find(system.name());
  return found == system_titles.end() ? std::string(system.name()) : found->second;
}

/// The settings of a table of the experiment on one line, defaults included.
std::string settings(const Experiment& experiment, const char* name) {
  const auto table = experiment.config.table_if(name);
  if (!table) return {};
  std::vector<std::string> parts;
  for (const auto& [key, value] : table->values())
    if (key != "name") parts.push_back(fmt::format("{} = {}", key, value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "uniform, scale = 1": how the trajectories of a split begin, where the experiment says or a default does.
std::string initial_words(const Experiment& experiment, const std::string& split) {
  const auto data = experiment.config.table_if("data");
  const auto table = data ? data->table_if(split) : std::nullopt;
  if (!table || !table->has("initial") || !table->holds_table("initial")) return {};
  std::vector<std::string> parts;
  for (const auto& [key, value] : table->table("initial").values())
    parts.push_back(fmt::format("{} = {}", key, value));
  return parts.empty() ? std::string() : fmt::format("; initial: {}", fmt::join(parts, ", "));
}

std::string value_of(const Model& model, const std::string& key) {
  const auto found = model.provenance.find(key);
  return found == model.provenance.end() ? "-" : found->second;
}

Table models_table(const std::vector<TrainedModel>& models) {
  Table table{"Networks",
              {"file", "layers", "parameters", "state", "recipe", "hold", "target", "steps", "best step",
               "validation"},
              {}};
  for (const TrainedModel& trained : models) {
    const Model& model = trained.model;
    const NetworkShape& shape = model.shape;
    std::string validation = value_of(model, "validation_rollout_error");
    if (validation == "-") validation = value_of(model, "validation_loss");
    table.rows.push_back({trained.file,
                          fmt::format("{} × {} {}", shape.n_blocks, shape.d_model, to_string(shape.kind)),
                          fmt::format("{}", model.parameters.size()), fmt::format("{}", shape.state_size()),
                          model.recipe.empty() ? "-" : model.recipe,
                          model.held ? std::string(to_string(model.held->hold)) : "-",
                          model.held ? std::string(to_string(model.held->target)) : "-",
                          value_of(model, "steps"), value_of(model, "best_step"),
                          validation == "-" ? validation : fmt::format("{:.4g}", number_in(validation))});
  }
  return table;
}

/// What took longest first; the sum in the title.
std::optional<Table> wall_times(const nlohmann::json& timing) {
  const auto stages = timing.find("stages");
  if (stages == timing.end() || !stages->is_object()) return std::nullopt;
  std::vector<std::pair<std::string, double>> times;
  double sum = 0;
  for (const auto& [stage, seconds] : stages->items())
    if (seconds.is_number()) times.emplace_back(stage, seconds.get<double>()), sum += times.back().second;
  if (times.empty()) return std::nullopt;
  std::ranges::stable_sort(times, std::greater{}, &std::pair<std::string, double>::second);
  const auto machine = timing.find("machine");
  Table table{
      fmt::format("Wall times: {}{}", duration(sum),
                  machine != timing.end() && machine->is_string() ? ", " + machine->get<std::string>() : ""),
      {"stage", "time"},
      {}};
  for (const auto& [stage, seconds] : times) table.rows.push_back({stage, duration(seconds)});
  return table;
}

Section what_was_run(const Source& source, bool with_times) {
  const Experiment& experiment = source.experiment;
  const std::string& text = experiment.config.text();
  Facts facts{{"System", system_title(*experiment.system)},
              {"Parameters", settings(experiment, "system")},
              {"Data", fmt::format("solver step {:g}, closure step {:g}, seed {}", experiment.data.dt,
                                   experiment.data.closure_step(), experiment.data.seed)}};
  for (const SplitPlan& split : experiment.data.splits)
    facts.emplace_back("  " + split.name, fmt::format("{} {} to t = {:g}{}", split.trajectories,
                                                      split.trajectories == 1 ? "trajectory" : "trajectories",
                                                      split.horizon, initial_words(experiment, split.name)));
  std::string rollouts;
  for (const ModelMetrics& model : source.evaluation.models)
    rollouts += fmt::format("{}{}{}", rollouts.empty() ? "" : ", ", model.model,
                            model.files.size() > 1 ? fmt::format(" ({} seeds)", model.files.size()) : "");
  facts.emplace_back("Compared", rollouts);
  facts.emplace_back("Program", fmt::format("mac {} ({})", version(), commit()));

  std::string body = html_facts(facts);
  if (!source.models.empty()) body += html_table(models_table(source.models));
  for (const TrainedModel& trained : source.models)
    if (const auto search = search_of(trained.model)) {
      Table tried = search_table(*search);
      tried.title = fmt::format("{}: {}", trained.file, tried.title);
      body += html_table(tried) + html_note(fmt::format("{}.", fmt::join(search->notes, "; ")));
      body += html_paragraph(search->reason + ".");
      if (!search->warning.empty()) body += html_warning(search->warning + ".");
    }
  std::set<std::string> told;
  for (const TrainedModel& trained : source.models) {
    const std::string plan = value_of(trained.model, "training");
    if (plan == "-" || !told.insert(trained.name).second) continue;
    if (const Table stages = stages_table(trained.name, plan); !stages.rows.empty())
      body += html_table(stages);
    body += html_listing(fmt::format("Training of {}: every setting in force", trained.name), plan);
  }
  if (const auto times = with_times ? wall_times(source.timing) : std::nullopt)
    body += html_folded(times->title, html_table({"", times->header, times->rows}));
  return {"run", "What was run", body + html_listing("The experiment file", text)};
}

Section blow_ups(const Evaluation& evaluation, Section section) {
  for (const ModelMetrics& model : evaluation.models)
    for (const auto& [split, metrics] : model.splits)
      for (const BlowUp& blow_up : metrics.blow_ups)
        section.body += html_paragraph(
            fmt::format("{}: trajectory {} of split {} blew up at t = {:g}; it is in no mean.",
                        fs::path(blow_up.file).filename().string(), blow_up.trajectory, split, blow_up.time));
  return section;
}

Section result_tables(const Evaluation& evaluation) {
  Section section{
      "tables", "Tables",
      html_paragraph(
          "Mean over the trajectories, and below it the standard deviation. The paper's own numbers stand "
          "beside ours where it has them. Several seeds of a model are pooled. Errors of closures and "
          "tables of many variables are folded.")};
  for (const Table& table : tables(evaluation))
    section.body += table.of_closures || table.rows.size() > longest_table
                        ? html_folded(table.title, html_table(table))
                        : html_table(table);
  return blow_ups(evaluation, std::move(section));
}

/// The responses of the first seed of each network.
std::vector<NamedResponse> memory_responses(const Source& source, int threads) {
  std::vector<NamedResponse> responses;
  if (!source.data) return responses;
  MemoryOptions options;
  options.threads = threads;
  options.allow_other_parameters = true;  // whoever made the run allowed them
  if (!source.data->has(options.split)) return responses;
  for (const TrainedModel& trained : source.models)
    if (trained.model.noise.channels == 0 &&
        std::ranges::find(responses, trained.name, &NamedResponse::model) == responses.end())
      responses.push_back({trained.name, memory_response(trained.model, *source.data, options)});
  // The panels are closure components: a network of other ones (a local one beside one of the whole state) has none.
  std::erase_if(responses, [&](const NamedResponse& named) {
    return named.response.closure_names != responses.front().response.closure_names;
  });
  return responses;
}

/// One trajectory of each split.
std::vector<Figure> case_figures(Source& source) {
  std::vector<Figure> figures;
  const Experiment& experiment = source.experiment;
  const bool fourier = experiment.system->fourier_modes() > 0;
  for (const SplitPlan& split : experiment.data.splits) {
    if (fourier && split.name == "ood") continue;  // named fields: shown by their physical-space errors
    if (split.name == statistics_split) continue;  // no trajectory of it means anything
    const auto shown = representative_case(source.evaluation, source.rollouts, source.truths, split.name);
    if (!shown) continue;
    for (Figure& figure : trajectory_figures(experiment, *shown, Quantity::resolved))
      figures.push_back(std::move(figure));
    for (Figure& closure : trajectory_figures(experiment, *shown, Quantity::closure))
      if (closure.models().size() > 1)
        figures.push_back(std::move(closure));  // some model has a closure of its own
    if (fourier) figures.push_back(energy_figure(experiment, *shown));
    if (auto field = space_time_figure(experiment, *shown)) figures.push_back(std::move(*field));
  }
  return figures;
}

Evaluation write_report(Source source, const std::string& output, const ReportOptions& options) {
  const fs::path page(output);
  const std::string files_name = page.stem().string() + "_files";
  const fs::path files = page.parent_path() / files_name;

  std::vector<Figure> figures = case_figures(source);
  const Section run = what_was_run(source, options.times);
  const Evaluation& evaluation = source.evaluation;
  for (Figure& figure : series_figures(evaluation)) figures.push_back(std::move(figure));
  for (Figure& figure : statistics_figures(evaluation)) figures.push_back(std::move(figure));
  for (Figure& figure : verification_figures(evaluation)) figures.push_back(std::move(figure));
  for (Figure& figure : parameter_figures(evaluation)) figures.push_back(std::move(figure));
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(std::move(*figure));
  };
  if (const auto responses = memory_responses(source, options.threads); !responses.empty())
    figures.push_back(memory_figure(responses, source.kernel ? &*source.kernel : nullptr,
                                    evaluation.experiment.system->time_unit()));
  add(training_figure(source.histories));
  if (options.times) {
    add(training_time_figure(source.timing, source.timing_file));
    add(step_time_figure(step_times(source.rollouts)));
  }

  make_names_safe(figures);
  std::vector<DrawnFigure> drawn;
  for (const Figure& figure : figures) drawn.push_back(draw(figure));
  Section shown{"figures", "Figures", {}};
  for (std::size_t i = 0; i < figures.size(); ++i)
    shown.body += html_figure(figures[i], drawn[i], files_name + "/" + figures[i].name + ".pdf");
  const System& system = *evaluation.experiment.system;
  const std::string text = html_page(
      system_title(system) + ": learned closures",
      fmt::format(
          "A reduced model of {} resolved variables, closed by {} models and compared with the full system.",
          system.resolved_size(), evaluation.models.size()),
      {verdict_section(evaluation), shown, result_tables(evaluation), run});

  make_folder(files);
  for (std::size_t i = 0; i < figures.size(); ++i)
    write_file_atomically(files / (figures[i].name + ".pdf"), drawn[i].pdf);
  write_file_atomically(page, text);
  return std::move(source.evaluation);
}

}  // namespace
}  // namespace report

void draw_series(const Evaluation& evaluation, const std::string& folder) {
  namespace fs = std::filesystem;
  make_folder(folder);
  std::vector<report::Figure> figures;
  for (const auto& some : {report::series_figures(evaluation), report::statistics_figures(evaluation),
                           report::parameter_figures(evaluation), report::verification_figures(evaluation)})
    figures.insert(figures.end(), some.begin(), some.end());
  report::make_names_safe(figures);
  for (const report::Figure& figure : figures)
    write_file_atomically(fs::path(folder) / (figure.name + ".svg"), report::draw(figure).whole_svg);
}

Evaluation report_run(const std::string& folder, const std::string& output, const ReportOptions& options) {
  return report::write_report(report::read_run(folder), output, options);
}

Evaluation report_rollouts(const std::vector<std::string>& rollouts, const std::string& output,
                           const ReportOptions& options) {
  return report::write_report(report::read_rollouts(rollouts, options.data), output, options);
}

}  // namespace mac
