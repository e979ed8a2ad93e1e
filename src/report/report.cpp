#include <fmt/format.h>

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

namespace mac {

namespace report {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_open_table = 8;  // rows below a figure; longer ones are folded away

const std::map<std::string, std::string, std::less<>> system_titles{
    {"burgers", "Viscous Burgers' equation"},
    {"kdv", "Korteweg–de Vries equation"},
    {"ks", "Kuramoto–Sivashinsky equation"},
    {"lorenz96", "Two-scale Lorenz '96 system"},
    {"power_grid", "3-bus power grid"}};

std::string system_title(const System& system) {
  const auto found = system_titles.find(system.name());
  return found == system_titles.end() ? std::string(system.name()) : found->second;
}

/// The settings of a table of the experiment on one line: all of them, or those that the file gives.
std::string settings(const Experiment& experiment, const char* name, bool defaults) {
  const auto table = experiment.config.table_if(name);
  if (!table) return {};
  std::vector<std::string> parts;
  for (const auto& [key, value] : table->values())
    if (key != "name" && (defaults || table->has(key))) parts.push_back(fmt::format("{} = {}", key, value));
  return fmt::format("{}", fmt::join(parts, ", "));
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

std::string wall_times(const nlohmann::json& timing) {
  const auto stages = timing.find("stages");
  if (stages == timing.end() || !stages->is_object()) return {};
  std::string text;
  for (const auto& [stage, seconds] : stages->items())
    if (seconds.is_number())
      text += fmt::format("{}{} {:.3g} s", text.empty() ? "" : ", ", stage, seconds.get<double>());
  if (const auto machine = timing.find("machine");
      machine != timing.end() && machine->is_string() && !text.empty())
    text += fmt::format(" ({})", machine->get<std::string>());
  return text;
}

Section what_was_run(const Source& source) {
  const Experiment& experiment = source.experiment;
  const std::string& text = experiment.config.text();
  Facts facts{{"System", system_title(*experiment.system)},
              {"Parameters", settings(experiment, "system", true)},
              {"Data", fmt::format("solver step {:g}, closure step {:g}, seed {}", experiment.data.dt,
                                   experiment.data.closure_step(), experiment.data.seed)}};
  for (const SplitPlan& split : experiment.data.splits)
    facts.emplace_back("  " + split.name,
                       fmt::format("{} {} to t = {:g}", split.trajectories,
                                   split.trajectories == 1 ? "trajectory" : "trajectories", split.horizon));
  if (const std::string training = settings(experiment, "training", false); !training.empty())
    facts.emplace_back("Training", training);
  std::string rollouts;
  for (const ModelMetrics& model : source.evaluation.models)
    rollouts += fmt::format("{}{}{}", rollouts.empty() ? "" : ", ", model.model,
                            model.files.size() > 1 ? fmt::format(" ({} seeds)", model.files.size()) : "");
  facts.emplace_back("Compared", rollouts);
  if (const std::string times = wall_times(source.timing); !times.empty())
    facts.emplace_back("Wall times", times);
  facts.emplace_back("Program", fmt::format("mac {} ({})", version(), commit()));

  std::string body = html_facts(facts);
  if (!source.models.empty()) body += html_table(models_table(source.models));
  std::set<std::string> told;
  for (const TrainedModel& trained : source.models)
    if (const std::string plan = value_of(trained.model, "training");
        plan != "-" && told.insert(trained.name).second)
      body += html_listing(fmt::format("Training of {}: every setting", trained.name), plan);
  return {"run", "What was run", body + html_listing("The experiment file", text)};
}

Section verdict_section(const Evaluation& evaluation) {
  Section section{"verdict", "Verdict", {}};
  for (const Verdict& verdict : verdicts(evaluation)) {
    section.body += html_paragraph(verdict.sentence + ".");
    for (const std::string& warning : verdict.warnings) section.body += html_warning(warning + ".");
  }
  if (section.body.empty()) section.body = html_paragraph("No learned or fitted closure is compared.");
  section.body += html_note(std::string(verdict_measure()) + ".");
  return section;
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
  Section section{"tables", "Tables",
                  html_paragraph("Errors beside the paper's own, where it gives one for the same quantity. "
                                 "Several seeds of a model are pooled.")};
  for (const Table& table : tables(evaluation)) section.body += html_table(table);
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
    figures.push_back(trajectory_figure(experiment, *shown, Quantity::resolved));
    if (Figure closure = trajectory_figure(experiment, *shown, Quantity::closure);
        closure.models().size() > 1)
      figures.push_back(std::move(closure));  // some model has a closure of its own
    if (fourier) figures.push_back(energy_figure(experiment, *shown));
  }
  return figures;
}

std::string html_figure(const Figure& figure, const DrawnFigure& drawn, const std::string& pdf) {
  std::string text =
      fmt::format("<figure id=\"{}\"><h3>{}</h3>\n<ul class=\"legend\">", figure.name, escaped(figure.title));
  for (const std::string& model : figure.models())
    text += fmt::format("<li>{}{}</li>", legend_sample(model), escaped(model));
  text += fmt::format("</ul>\n<div class=\"{}\">\n", drawn.svg.size() == 1 ? "single" : "panels");
  for (const std::string& svg : drawn.svg) text += svg + "\n";
  text += fmt::format("</div>\n<figcaption>{} <a href=\"{}\">PDF</a></figcaption>\n", escaped(figure.caption),
                      escaped(pdf));
  for (const Table& table : figure.tables)
    text += table.rows.size() > longest_open_table ? html_folded(table.title, html_table(table))
                                                   : html_table(table);
  return text + "</figure>\n";
}

Evaluation write_report(Source source, const std::string& output, const ReportOptions& options) {
  const fs::path page(output);
  const std::string files_name = page.stem().string() + "_files";
  const fs::path files = page.parent_path() / files_name;

  std::vector<Figure> figures = case_figures(source);
  const std::vector<StepTimes> times = step_times(source.rollouts);
  const Section run = what_was_run(source);
  const Evaluation& evaluation = source.evaluation;
  for (Figure& figure : series_figures(evaluation)) figures.push_back(std::move(figure));
  for (Figure& figure : statistics_figures(evaluation)) figures.push_back(std::move(figure));
  for (Figure& figure : verification_figures(evaluation)) figures.push_back(std::move(figure));
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(std::move(*figure));
  };
  if (const auto responses = memory_responses(source, options.threads); !responses.empty())
    figures.push_back(memory_figure(responses, source.kernel ? &*source.kernel : nullptr,
                                    evaluation.experiment.system->time_unit()));
  add(training_figure(source.histories));
  add(training_time_figure(source.timing, source.timing_file));
  add(step_time_figure(times));

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
      {verdict_section(evaluation), run, result_tables(evaluation), shown});

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
  for (const auto& figures : {report::series_figures(evaluation), report::statistics_figures(evaluation),
                              report::verification_figures(evaluation)})
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
