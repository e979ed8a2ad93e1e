#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/report.hpp>
#include <nlohmann/json.hpp>

#include "report/html.hpp"
#include "report/page_check.hpp"
#include "report/search_table.hpp"
#include "report/summary.hpp"
#include "report/tiny_run.hpp"
#include "report/training_summary.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::count;
using test::ScratchFolder;

/// The page of a run, and the run itself, made once for all tests.
struct Report {
  explicit Report(const char* experiment) {
    test::make_run(folder.path() / "run", experiment, 2);
    report_run(folder.file("run"), folder.file("report.html"));
    page = test::read_bytes(folder.file("report.html"));
  }
  ScratchFolder folder;
  std::string page;
};
const Report& burgers() {
  static const Report report(test::tiny_burgers);
  return report;
}
const Report& lorenz() {
  static const Report report(test::tiny_lorenz);
  return report;
}

/// The metrics of the Burgers run.
std::string burgers_metrics() {
  const std::string path = burgers().folder.file("metrics.json");
  if (!fs::exists(path)) {
    std::vector<std::string> rollouts;
    for (const char* name : {"mac-seed0", "mac-seed1", "markov", "exact"})
      rollouts.push_back(burgers().folder.file(fmt::format("run/rollouts/{}.h5", name)));
    test::write_bytes(path, metrics_text(evaluate_files(rollouts)));
  }
  return path;
}

void expect_figures(const Report& report, const std::vector<std::string>& names) {
  EXPECT_EQ(count(report.page, "<figure "), names.size());
  for (const std::string& name : names) {
    EXPECT_NE(report.page.find("<figure id=\"" + name + "\">"), std::string::npos) << name;
    const std::string pdf = test::read_bytes(report.folder.file("report_files/" + name + ".pdf"));
    EXPECT_TRUE(pdf.starts_with("%PDF-")) << name;
  }
}

TEST(Report, ShowsEveryFigureOfABurgersRun) {
  expect_figures(burgers(), {"resolved_test", "closure_test", "energy_test", "l2_error_test",
                             "l2_error_sin_x", "l2_error_projected_exp_sin_x_", "memory", "training"});
  // 6 resolved variables, 6 closure components, 6 components' memories, 2 of training, and 4 figures of one panel.
  EXPECT_EQ(count(burgers().page, "<svg viewBox=\"0 0 360") + count(burgers().page, "<svg viewBox=\"0 0 640"),
            6 + 6 + 6 + 2 + 4);
}

TEST(Report, ShowsEveryFigureOfALorenzRun) {
  expect_figures(lorenz(), {"resolved_test", "closure_test", "running_l2_test", "running_correlation_test",
                            "running_centred_correlation_test", "memory", "training", "space_time_test"});
}

TEST(Report, ShowsEveryTableOfTheEvaluation) {
  std::vector<RolloutFile> rollouts;
  for (const char* name : {"mac-seed0", "mac-seed1", "gru-seed0", "gru-seed1", "markov", "exact"})
    rollouts.push_back(RolloutFile::open(burgers().folder.file(fmt::format("run/rollouts/{}.h5", name))));
  for (const Table& table : tables(evaluate(std::move(rollouts))))
    EXPECT_NE(burgers().page.find(report::html_table(table)), std::string::npos) << table.title;
}

TEST(Report, SaysWhatWasRun) {
  for (const char* text : {"viscosity = 0.1", "3 trajectories to t = 0.4", "mac (2 seeds)",
                           "mac-seed1.safetensors", "recipe = &quot;fast&quot;"})
    EXPECT_NE(burgers().page.find(text), std::string::npos) << text;
}

TEST(Report, ShowsWallTimesToThoseWhoAskForThem) {
  const std::string path = burgers().folder.file("times.html");
  const auto result =
      test::run_program(fmt::format("report {} --times -o {}", burgers().folder.file("run"), path));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string with_times = test::read_bytes(path);
  for (const char* text : {"Wall times: 1.5 s, an EPYC, 2 threads", "<figure id=\"training_time\">",
                           "<figure id=\"step_time\">"}) {
    EXPECT_NE(with_times.find(text), std::string::npos) << text;
    EXPECT_EQ(burgers().page.find(text), std::string::npos) << text << ": another run takes another time";
  }
}

TEST(Report, SaysInItsHeadWhatItIs) {
  const std::string head = burgers().page.substr(0, burgers().page.find("<style>"));
  EXPECT_NE(head.find("<meta name=\"description\" content=\"A reduced model of 6 resolved variables"),
            std::string::npos);
}

TEST(Report, BeginsWithTheVerdict) {
  const std::string& page = burgers().page;
  const std::size_t headline = page.find("<p class=\"headline");
  ASSERT_NE(headline, std::string::npos);
  EXPECT_LT(headline, page.find("<table"));
  const std::string sentence = page.substr(headline, page.find("</p>", headline) - headline);
  EXPECT_NE(sentence.find("no closure"), std::string::npos) << sentence;
  EXPECT_NE(page.find("At a glance"), std::string::npos);
  EXPECT_LT(page.find("id=\"verdict\""), page.find("id=\"figures\""));
}

/// The section of the page above its figures.
std::string verdict_of(const std::string& page) {
  const std::size_t from = page.find("id=\"verdict\"");
  return page.substr(from, page.find("id=\"figures\"") - from);
}

TEST(Report, TheVerdictHasTheNumbersOfTheMetrics) {
  const std::string verdict = verdict_of(burgers().page);
  const Evaluation evaluation = read_metrics(burgers_metrics());
  for (const ModelMetrics& model : evaluation.models)
    for (const auto& [split, metrics] : model.splits) {
      double sum = 0;
      for (const MeanStd& error : metrics.intervals.back().resolved) sum += error.mean;
      const std::string cell =
          percent({sum / static_cast<double>(metrics.intervals.back().resolved.size()), NAN});
      EXPECT_GT(std::stod(cell), 0);
      EXPECT_NE(verdict.find(fmt::format("<td>{}</td>", cell)), std::string::npos)
          << model.model << ", " << split;
    }
  const std::string weakest = "with an error of ";
  ASSERT_NE(verdict.find(weakest), std::string::npos);
  EXPECT_GT(std::stod(verdict.substr(verdict.find(weakest) + weakest.size())), 0);
  EXPECT_EQ(verdict.find("failed"), std::string::npos) << "nothing failed";
}

TEST(Report, TellsTheWeakestPlaceOfTheBestModel) {
  Evaluation evaluation = read_metrics(burgers_metrics());
  SplitMetrics& own = std::ranges::find(evaluation.models, "mac", &ModelMetrics::model)->splits.at("test");
  const SplitMetrics& none =
      std::ranges::find(evaluation.models, "markov", &ModelMetrics::model)->splits.at("test");
  ASSERT_GT(none.intervals[1].resolved[4].mean, 0);
  own.intervals[1].resolved[4].mean = 70 * none.intervals[1].resolved[4].mean;  // psi2, over [0,0.4]
  const std::string weakest = report::least_gain(evaluation, "mac");
  EXPECT_NE(weakest.find("mac fails in ψ₂ on test data over [0,0.4]: 70 times worse than no closure"),
            std::string::npos)
      << weakest;
  EXPECT_EQ(report::least_gain(evaluation, "nobody"), "");
}

TEST(Report, TablesOfErrorsHaveAMean) {
  const Evaluation evaluation = read_metrics(burgers_metrics());
  const Table table = tables(evaluation).front();
  ASSERT_EQ(table.rows.back().front(), "mean");
  double sum = 0;
  for (const MeanStd& error : evaluation.models.front().splits.at("test").intervals.front().resolved)
    sum += error.mean;
  EXPECT_EQ(table.rows.back()[1], percent({sum / 6, NAN}));
  EXPECT_NE(burgers().page.find("<tr class=\"mean\">"), std::string::npos);
}

TEST(Report, HasThePapersColumnsOnlyWhereThePaperHasNumbers) {
  std::size_t paper = 0;
  for (const Table& table : tables(read_metrics(burgers_metrics())))
    for (std::size_t j = 0; j < table.header.size(); ++j) {
      if (table.header[j] != "paper") continue;
      ++paper;
      EXPECT_TRUE(std::ranges::any_of(table.rows, [&](const auto& row) { return row[j] != "-"; }))
          << table.title;
    }
  EXPECT_EQ(paper, 0u) << "other intervals than the paper's";
}

TEST(Report, ShowsTheStagesOfATraining) {
  const Table table = report::stages_table(
      "mac",
      "recipe = \"fast\"\n[[stages]]\nloss = \"closure\"\nsteps = 16000\nnoise = 0\n[[stages]]\nloss = "
      "\"rollout\"\n"
      "rollout_steps = 100\nrollout_form = \"autoregressive\"\nsteps = 3000\nnoise = 0\n");
  EXPECT_EQ(table.header, (std::vector<std::string>{"stage", "loss", "steps"})) << "there is no noise";
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"1", "closure", "16000"}));
  EXPECT_EQ(table.rows[1][1], "rollout over 100 steps, autoregressive");
  EXPECT_TRUE(report::stages_table("mac", "steps = 0\n").rows.empty());
}

TEST(Report, SaysSecondsAsMinutesAndHours) {
  EXPECT_EQ(report::duration(0.0441), "0.044 s");
  EXPECT_EQ(report::duration(7.7), "7.7 s");
  EXPECT_EQ(report::duration(59.97), "1 min 00 s");
  EXPECT_EQ(report::duration(1250), "20 min 50 s");
  EXPECT_EQ(report::duration(3599.7), "1 h 00 min");
  EXPECT_EQ(report::duration(7500), "2 h 05 min");
  EXPECT_EQ(report::duration(NAN), "-");
}

TEST(Report, OfManyVariablesDrawsAFewLargeAndAllSmallAndFolded) {
  const ScratchFolder folder;
  std::string ring = test::tiny_lorenz;
  ring.replace(ring.find("N = 8"), 5, "N = 12");
  test::make_run(folder.path() / "run", ring);
  report_run(folder.file("run"), folder.file("report.html"));
  const std::string page = test::read_bytes(folder.file("report.html"));
  EXPECT_TRUE(test::well_formed(page));
  const auto figure = [&](const std::string& name) {
    const std::size_t from = page.find("<figure id=\"" + name + "\">");
    return from == std::string::npos ? std::string() : page.substr(from, page.find("</figure>", from) - from);
  };
  EXPECT_EQ(count(figure("resolved_test"), "<svg viewBox=\"0 0 360"), 4u);
  EXPECT_NE(figure("resolved_test").find("4 of 12 variables"), std::string::npos);
  const std::string all = figure("resolved_test_all");
  EXPECT_EQ(count(all, "<svg viewBox=\"0 0 220"), 12u);
  EXPECT_LT(all.find("<details>"), all.find("<svg"));
  EXPECT_NE(page.find("<details><summary>lorenz96, test, resolved"), std::string::npos)
      << "12 rows and a mean are folded";
}

TEST(Report, IsWellFormed) {
  EXPECT_TRUE(test::well_formed(burgers().page));
  EXPECT_TRUE(test::well_formed(lorenz().page));
}

TEST(Report, NeedsNothingFromElsewhere) {
  for (const Report* report : {&burgers(), &lorenz()}) {
    for (const char* part : {"<script", "src=", "@import", "url(", "<link"})
      EXPECT_EQ(report->page.find(part), std::string::npos) << part;
    // Names of XML vocabularies are no references; links lead inside the page or to the PDF files.
    EXPECT_EQ(count(report->page, "http"), count(report->page, "xmlns=\"http://www.w3.org/"));
    EXPECT_EQ(count(report->page, "href="), count(report->page, "href=\"#") +
                                                count(report->page, "href=\"report_files/") +
                                                count(report->page, "href='data:image/png;base64,"));
  }
}

TEST(Report, SaysNothingOfWhereItWasMade) {
  EXPECT_EQ(burgers().page.find(burgers().folder.path().string()), std::string::npos);
  EXPECT_EQ(burgers().page.find(fs::temp_directory_path().string() + "/"), std::string::npos);
}

TEST(Report, StaysSmall) { EXPECT_LT(burgers().page.size(), 3'000'000u); }

TEST(Report, IsTheSameBytesAgain) {
  const std::string again = burgers().folder.file("again/report.html");
  fs::create_directories(burgers().folder.path() / "again");
  report_run(burgers().folder.file("run"), again);
  EXPECT_EQ(test::read_bytes(again), burgers().page);
  for (const auto& entry : fs::directory_iterator(burgers().folder.path() / "report_files"))
    EXPECT_EQ(
        test::read_bytes(entry.path().string()),
        test::read_bytes(burgers().folder.file("again/report_files/" + entry.path().filename().string())))
        << entry.path().filename();
}

TEST(Report, OfRolloutFilesAloneLeavesOutTheTraining) {
  const auto result = test::run_program(
      fmt::format("report --rollouts {0}/run/rollouts/markov.h5 {0}/run/rollouts/exact.h5 -o {0}/alone.html",
                  burgers().folder.path().string()));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const std::string page = test::read_bytes(burgers().folder.file("alone.html"));
  EXPECT_TRUE(test::well_formed(page));
  EXPECT_NE(page.find("<figure id=\"resolved_test\">"), std::string::npos);
  EXPECT_EQ(page.find("<figure id=\"training\">"), std::string::npos);
}

// The first trial is as earlier versions wrote it.
constexpr const char* a_search =
    R"({"chosen": 1, "error_without_closure": 0.63, "on_first_half": true, "horizon": 2.5, "beyond": 5,
  "equations": "with the given reduced equations", "coupling": "learned: the closure's value at a time", "cut_by_budget": true,
  "memoryless": {"error": 0.25, "with_memory": 0.2}, "trials": [
  {"noise": 0.03, "max_lr": 0.004, "d_model": 16, "window": 0, "rollouts": false, "steps": 500, "error": null},
  {"kind": "gru", "noise": 0, "max_lr": 0.01, "d_model": 32, "window": 62, "frame": "initial", "rollouts": true, "steps": 4000,
   "error": 0.0126},
  {"kind": "gru", "noise": 0, "max_lr": 0.01, "d_model": 32, "window": 62, "frame": "initial", "rollouts": true, "steps": 8000,
   "error": 0.02},
  {"kind": "mamba", "noise": 0, "max_lr": 0.01, "d_model": 32, "d_state": 8, "steps": 500, "error": 0.03}]})";

constexpr const char* said_of_the_search[] = {
    "length 2.5; of what comes later only the range",
    "rolled out with the given reduced equations",
    "learned: the closure's value at a time",
    "learned from the first half",
    "the time budget left out",
    "gru, noise 0, max_lr 0.01, width 32, in a frame, window 62, then rollouts",
    "without memory (mlp)",
    "for the least error: 1.26 %, 50 times less than without a closure",
    "other settings came to 3 % at best (mamba, noise 0, max_lr 0.01, width 32, state 8, 500 steps)",
    "8000 steps with the chosen settings to 2 %"};

void expect_the_account(std::string shown) {
  std::erase(shown, '\\');  // of Markdown
  for (const char* text : said_of_the_search)
    EXPECT_NE(shown.find(text), std::string::npos) << text << "\n" << shown;
}

TEST(SearchAccount, IsTheSameOnTheTerminalInTheReportAndOnTheCard) {
  expect_the_account(to_text(*account_of(nlohmann::json::parse(a_search))));

  const ScratchFolder folder;
  fs::copy(burgers().folder.file("run"), folder.file("run"), fs::copy_options::recursive);
  std::optional<Model> model;
  for (const auto& entry : fs::recursive_directory_iterator(folder.file("run")))
    if (entry.path().extension() == ".safetensors") {
      model = load_model(entry.path().string());
      model->provenance["search"] = a_search;
      save_model(*model, entry.path().string());
    }
  const Evaluation evaluation = report_run(folder.file("run"), folder.file("report.html"));
  expect_the_account(test::read_bytes(folder.file("report.html")));
  expect_the_account(model_card(*model, "mine.safetensors", evaluation));
}

TEST(SearchTable, HasARowForEachTrialAndMarksTheChosenOne) {
  Model model;
  EXPECT_FALSE(report::search_of(model)) << "of another recipe";
  model.provenance["search"] = R"({"error_without_closure": null, "trials": [], "chosen": 0})";
  EXPECT_FALSE(report::search_of(model)) << "nothing was judged";
  model.provenance["search"] = a_search;
  const std::vector<std::vector<std::string>> rows{
      {"", "noise 0.03, max_lr 0.004, width 16", "500", "failed"},
      {"chosen", "gru, noise 0, max_lr 0.01, width 32, in a frame, window 62, then rollouts", "4000",
       "1.26 %"},
      {"", "gru, noise 0, max_lr 0.01, width 32, in a frame, window 62, then rollouts", "8000", "2 %"},
      {"", "mamba, noise 0, max_lr 0.01, width 32, state 8", "500", "3 %"},
      {"", "no closure", "", "63 %"},
      {"", "without memory (mlp)", "", "25 %"}};
  EXPECT_EQ(report::search_table(*report::search_of(model)).rows, rows);
  model.provenance["search"] = "{";
  EXPECT_THROW(report::search_of(model), Error);
}

TEST(Report, OfNoRunIsRefused) {
  const ScratchFolder folder;
  for (const std::string& arguments :
       {std::string("report"), "report " + folder.file("nothing"), "report " + folder.path().string()}) {
    const auto result = test::run_program(arguments + " -o " + folder.file("report.html"));
    EXPECT_EQ(result.exit_code, 2) << result.output;
  }
  EXPECT_FALSE(fs::exists(folder.file("report.html")));
}

TEST(Report, WithoutGnuplotNamesThePackage) {
  const std::string& run = burgers().folder.file("run");
  const auto result = test::run_program(
      fmt::format("report {} -o {}", run, burgers().folder.file("none.html")), "PATH=/nonexistent");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("gnuplot-nox"), std::string::npos) << result.output;
  EXPECT_FALSE(fs::exists(burgers().folder.file("none.html")));
}

TEST(Report, ABrokenHistoryIsNamedWithItsLine) {
  const ScratchFolder folder;
  fs::copy(burgers().folder.path() / "run", folder.path() / "run", fs::copy_options::recursive);
  const std::string history = folder.file("run/models/mac-seed0.history.csv");
  test::write_bytes(history, "step,loss,lr,gradient_norm,validation\n1,1,1,1,\n2,what,1,1,\n");
  try {
    report_run(folder.file("run"), folder.file("report.html"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(history + ":3"), std::string::npos) << error.what();
  }
}

TEST(Html, EscapesWhatWouldBeMarkup) {
  EXPECT_EQ(report::escaped("a < b & \"c\" > d\x01"), "a &lt; b &amp; &quot;c&quot; &gt; d");
}

}  // namespace
}  // namespace mac
