// Metrics against hand-worked cases, tables, and the paper's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <nlohmann/json.hpp>
#include <numbers>

#include "support/files.hpp"

namespace mac {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Experiment burgers(const std::string& parameters = "modes = 1") {
  return Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 32\n" + parameters +
          "\n[data]\ndt = 0.01\nstride = 50\n"
          "[data.test]\ntrajectories = 2\nhorizon = 1.0\n[evaluation]\nintervals = [[0, 1], [0.5, 1]]\n",
      "study.toml");
}

/// Two trajectories of (phi1, psi1) at t = 0, 0.5, 1; the prediction of the first is off by 10 % of phi1.
RolloutFile small_rollout() {
  RolloutSplit split;
  split.name = "test";
  split.labels = {"", "sin x"};
  split.time = {0, 0.5, 1};
  split.true_resolved = {1, 0, 2, 0.5, 2, 0.5, /**/ 3, 1, 0, 1, 0, 1};
  split.resolved = {1.1, 0, 2.2, 0.5, 2.2, 0.5, /**/ 3, 1, 0, 1, 0, 1};
  split.true_closure = {1, 1, 1, 1, 1, 1, /**/ 1, 1, 1, 1, 1, 1};
  split.closure = {1, 1, 1, 1, 1, 1, /**/ 1, 0, 1, 0, 1, 0};
  split.blow_up_time = {nan, nan};
  return {"rollout.h5", "mac", {}, burgers(), {split}};
}

/// One trajectory of any size, 10 % off.
RolloutFile rollout_of(const std::string& parameters) {
  const Experiment experiment = burgers(parameters);
  const std::size_t d = experiment.system->resolved_size();
  RolloutSplit split;
  split.name = "test";
  split.labels = {""};
  split.time = {0, 0.5, 1};
  split.true_resolved.assign(3 * d, 1.0);
  split.resolved.assign(3 * d, 1.1);
  split.true_closure = split.closure = split.true_resolved;
  split.blow_up_time = {nan};
  return {parameters + ".h5", "mac", {}, experiment, {split}};
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Evaluate, GivesRelativeErrorsPerVariableAndInterval) {
  const Evaluation evaluation = evaluate({small_rollout()});
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  ASSERT_EQ(metrics.intervals.size(), 2u);
  // phi1: 10 % in the first trajectory, exact in the second; the mean of 0.1 and 0, the spread 0.05.
  EXPECT_NEAR(metrics.intervals[0].resolved[0].mean, 0.05, 1e-15);
  EXPECT_NEAR(metrics.intervals[0].resolved[0].std, 0.05, 1e-15);
  EXPECT_EQ(metrics.intervals[0].resolved[1].mean, 0);
  EXPECT_NEAR(metrics.intervals[0].closure[1].mean, 0.5, 1e-15);
}

TEST(Evaluate, GivesNoRelativeErrorForAVariableThatIsAlwaysZero) {
  RolloutFile file = small_rollout();
  for (const std::size_t i : {0, 2, 4, 6, 8, 10}) file.splits.front().true_resolved[i] = 1e-17;
  const Evaluation evaluation = evaluate({file});
  const IntervalMetrics& metrics = evaluation.models.front().splits.at("test").intervals[0];
  EXPECT_TRUE(std::isnan(metrics.resolved[0].mean));
  EXPECT_FALSE(std::isnan(metrics.resolved[1].mean));
  EXPECT_EQ(tables(evaluation).front().rows[0][1], "-");
}

TEST(Evaluate, RunsTheCumulativeErrorAndTheCorrelation) {
  const SplitMetrics metrics = evaluate({small_rollout()}).models.front().splits.at("test");
  // First trajectory: sum of squared errors .01 + .04 + .04 over sum |X|^2 = 1 + 4.25 + 4.25.
  EXPECT_NEAR(metrics.cumulative_l2.mean, 0.5 * std::sqrt(0.09 / 9.5), 1e-15);
  EXPECT_NEAR(metrics.running_l2[0], 0.5 * std::sqrt(0.01 / 9.5), 1e-15);
  const double first = (1.1 + 4.4 + 0.25 + 4.4 + 0.25) / std::sqrt(9.5 * (1.21 + 2 * (4.84 + 0.25)));
  EXPECT_NEAR(metrics.correlation.mean, 0.5 * (first + 1), 1e-14);
  EXPECT_EQ(metrics.running_centred_correlation[0], 1.0);
  EXPECT_LE(metrics.centred_correlation.mean, 1.0);
}

TEST(Evaluate, MeasuresFieldsInPhysicalSpace) {
  const SplitMetrics metrics = evaluate({small_rollout()}).models.front().splits.at("test");
  // u - u^ = 2 * 0.1 cos x at t = 0: its L2 norm is 0.2 sqrt(pi).
  EXPECT_NEAR(metrics.physical_l2[0], 0.5 * 0.2 * std::sqrt(std::numbers::pi), 1e-14);
  EXPECT_NEAR(metrics.true_energy[0], 0.5 * (1 + 10), 1e-14);
  ASSERT_TRUE(metrics.labelled_physical_l2.contains("sin x"));
  EXPECT_EQ(metrics.labelled_physical_l2.at("sin x")[2], 0);
}

TEST(Evaluate, KeepsBlowUpsOutOfTheMeansAndReportsThem) {
  RolloutFile file = small_rollout();
  RolloutSplit& split = file.splits.front();
  split.blow_up_time[0] = 0.5;
  for (std::size_t i = 2; i < 6; ++i) split.resolved[i] = nan;
  const Evaluation evaluation = evaluate({file});
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  ASSERT_EQ(metrics.blow_ups.size(), 1u);
  EXPECT_EQ(metrics.blow_ups[0].time, 0.5);
  EXPECT_EQ(metrics.intervals[0].resolved[0].mean, 0) << "the second trajectory alone";
  EXPECT_EQ(metrics.trajectories, 2u);
}

TEST(Evaluate, SaysBlewUpWhenNothingIsLeft) {
  RolloutFile file = small_rollout();
  file.splits.front().blow_up_time = {0.5, 0.5};
  const Evaluation evaluation = evaluate({file});
  EXPECT_NE(render(tables(evaluation).front(), TableFormat::text).find("blew up"), std::string::npos);
  const auto json = to_json(evaluation);
  EXPECT_TRUE(json["models"]["mac"]["test"]["cumulative_l2"]["mean"].is_null());
}

TEST(Evaluate, PoolsTheSeedsOfOneModel) {
  RolloutFile exact = small_rollout();
  exact.splits.front().resolved = exact.splits.front().true_resolved;
  const Evaluation evaluation = evaluate({small_rollout(), exact});
  ASSERT_EQ(evaluation.models.size(), 1u);
  const SplitMetrics& metrics = evaluation.models.front().splits.at("test");
  EXPECT_EQ(metrics.trajectories, 4u);
  EXPECT_NEAR(metrics.intervals[0].resolved[0].mean, 0.025, 1e-15);
}

TEST(Evaluate, RefusesRolloutsOfDifferentSystems) {
  RolloutFile other = small_rollout();
  other.experiment = Experiment::parse(
      "[system]\nname = \"power_grid\"\n[data]\ndt = 5e-5\n[data.test]\ntrajectories = 1\nhorizon = 0.1\n",
      "other.toml");
  EXPECT_THROW(evaluate({small_rollout(), other}), UsageError);
  EXPECT_THROW(evaluate({}), UsageError);
}

TEST(Evaluate, RefusesRolloutsOfOtherParametersAndNamesTheKey) {
  const auto pooled = [](const char* a, const char* b) {
    return refusal([&] { evaluate({rollout_of(a), rollout_of(b)}); });
  };
  EXPECT_EQ(pooled("modes = 3", "viscosity = 0.9"),
            "viscosity = 0.9.h5: is about another system: viscosity is 0.9, in modes = 3.h5 it is 0.1");
  EXPECT_NE(pooled("modes = 3", "modes = 4").find("modes is 4"), std::string::npos);
  EXPECT_EQ(pooled("modes = 3", "viscosity = 0.1"), "no error") << "a default written out";
}

TEST(MetricsJson, HasTheDocumentedLayout) {
  const auto json = to_json(evaluate({small_rollout()}));
  const auto& test = json["models"]["mac"]["test"];
  EXPECT_NEAR(test["intervals"]["[0,1]"]["resolved"]["phi1"]["mean"].get<double>(), 0.05, 1e-15);
  EXPECT_TRUE(test["intervals"]["[0.5,1]"]["closure"]["m1_psi"].contains("std"));
  EXPECT_TRUE(test["cumulative_l2"].contains("mean"));
  EXPECT_TRUE(test["correlation"].contains("mean"));
  EXPECT_TRUE(test["blow_ups"].is_array());
}

/// Two seeds of mac, and markov that blows up in its first trajectory.
std::vector<RolloutFile> two_seeds_and_markov() {
  RolloutFile exact = small_rollout(), markov = small_rollout();
  exact.path = "mac-seed1.h5";
  exact.splits.front().resolved = exact.splits.front().true_resolved;
  markov.model = "markov";
  markov.path = "markov.h5";
  markov.splits.front().blow_up_time[0] = 0.5;
  return {small_rollout(), exact, markov};
}

TEST(Seeds, HaveAMeanEachAndASpread) {
  const Evaluation evaluation = evaluate(two_seeds_and_markov());
  const MeanStd& phi1 = evaluation.models[0].splits.at("test").intervals[0].resolved[0];
  ASSERT_EQ(phi1.seeds.size(), 2u);
  EXPECT_NEAR(phi1.seeds[0], 0.05, 1e-15);
  EXPECT_EQ(phi1.seeds[1], 0);
  EXPECT_NEAR(phi1.seed_std(), 0.05 / std::sqrt(2), 1e-15) << "n - 1 = 1";
  EXPECT_TRUE(evaluation.models[1].splits.at("test").cumulative_l2.seeds.empty()) << "markov has one file";
  EXPECT_TRUE(std::isnan(MeanStd{}.seed_std()));
  const std::string text = render(tables(evaluation).front(), TableFormat::text);
  EXPECT_NE(text.find("2.500 ± 4.330 (3.536)"), std::string::npos) << text;
  EXPECT_NE(text.find("standard deviation between"), std::string::npos) << text;
}

TEST(Seeds, HaveACorrelationEach) {
  const Evaluation evaluation = evaluate(two_seeds_and_markov());
  const SplitMetrics alone = evaluate({small_rollout()}).models[0].splits.at("test");
  const SplitMetrics& both = evaluation.models[0].splits.at("test");
  EXPECT_EQ(both.correlation.seeds, (std::vector{alone.correlation.mean, 1.0})) << "the second is exact";
  EXPECT_EQ(both.centred_correlation.seeds, (std::vector{alone.centred_correlation.mean, 1.0}));
  const std::vector<Table> all = tables(evaluation);
  const auto summary = std::ranges::find_if(
      all, [](const Table& table) { return table.title.find("whole trajectories") != std::string::npos; });
  ASSERT_NE(summary, all.end());
  for (const std::size_t column : {1, 2, 3}) {
    EXPECT_TRUE(summary->rows[0][column].ends_with(")")) << summary->rows[0][column];
    EXPECT_FALSE(summary->rows[1][column].ends_with(")")) << "markov has one file";
  }
}

TEST(StoredMetrics, AreReadBackExactly) {
  const test::ScratchFolder folder;
  const Evaluation evaluation = evaluate(two_seeds_and_markov());
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluation));
  const Evaluation read = read_metrics(folder.file("metrics.json"));
  EXPECT_EQ(metrics_text(read), metrics_text(evaluation));
  ASSERT_EQ(tables(read).size(), tables(evaluation).size());
  for (std::size_t i = 0; i < tables(read).size(); ++i)
    EXPECT_EQ(render(tables(read)[i], TableFormat::text), render(tables(evaluation)[i], TableFormat::text));
  EXPECT_EQ(read.models[1].splits.at("test").blow_ups.front().file, "markov.h5");
}

TEST(StoredMetrics, KeepTheOrderOfModelsAndNamesOfFilesOnly) {
  const test::ScratchFolder folder;
  std::vector<RolloutFile> rollouts = two_seeds_and_markov();
  rollouts[0].path = "/somewhere/else/mac-seed0.h5";
  std::swap(rollouts[0], rollouts[2]);
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluate(rollouts)));
  const Evaluation read = read_metrics(folder.file("metrics.json"));
  EXPECT_EQ(read.models[0].model, "markov");
  EXPECT_EQ(read.models[1].files, (std::vector<std::string>{"mac-seed1.h5", "mac-seed0.h5"}));
}

TEST(StoredMetrics, ThinLongSeriesAndKeepTheirEnds) {
  RolloutFile file = small_rollout();
  RolloutSplit& split = file.splits.front();
  const std::size_t times = 2003;
  split.time.clear();
  for (std::size_t t = 0; t < times; ++t) split.time.push_back(static_cast<double>(t) / 2002);
  for (auto* values : {&split.resolved, &split.true_resolved, &split.closure, &split.true_closure})
    values->assign(2 * times * 2, 1.25);
  const auto time = to_json(evaluate({file}))["models"]["mac"]["test"]["series"]["time"];
  EXPECT_LE(time.size(), 202u);
  EXPECT_EQ(time.front(), 0);
  EXPECT_EQ(time.back(), 1);
}

TEST(StoredMetrics, StandBesideRolloutsAndOtherMetrics) {
  const test::ScratchFolder folder;
  std::vector<RolloutFile> rollouts = two_seeds_and_markov();
  test::write_bytes(folder.file("markov.json"), metrics_text(evaluate({rollouts[2]})));
  test::write_bytes(folder.file("mac.json"), metrics_text(evaluate({rollouts[0]})));
  const Evaluation both = evaluate_files({folder.file("mac.json"), folder.file("markov.json")});
  ASSERT_EQ(both.models.size(), 2u);
  EXPECT_EQ(both.models[1].model, "markov");
  test::write_bytes(folder.file("thick.json"), metrics_text(evaluate({rollout_of("viscosity = 0.9")})));
  EXPECT_THROW(evaluate_files({folder.file("markov.json"), folder.file("thick.json")}), UsageError)
      << "another system";
  EXPECT_THROW(evaluate_files({folder.file("mac.json"), folder.file("mac.json")}), UsageError)
      << "stored means cannot be pooled";
}

TEST(StoredMetrics, AreNamedWithFileAndKeyWhereTheyAreWrong) {
  const test::ScratchFolder folder;
  const std::string good = metrics_text(evaluate({small_rollout()}));
  const auto message = [&](const std::string& what, const std::string& by) -> std::string {
    std::string text = good;
    test::write_bytes(folder.file("bad.json"), text.replace(text.find(what), what.size(), by));
    try {
      read_metrics(folder.file("bad.json"));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto expect = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("bad.json"), std::string::npos) << text;
  };
  expect(message("\"phi1\"", "\"phi9\""), "has no \"models.mac.test.intervals.[0,1].resolved.phi1\"");
  expect(message("\"mean\":0.05", "\"mean\":\"x\""), "models.mac.test.intervals.[0,1].resolved.phi1.mean");
  expect(message("[0.5,1]", "[0.5;1]"), "[from,to]");
  expect(message("\"time\": [0.0,", "\"time\": ["), "one number for each of the 2 times");
  expect(message("\"trajectories\": 2", "\"trajectories\": -2"), "models.mac.test.trajectories");
  expect(message("{", "("), "is not JSON");
  const auto with_series = [&](const nlohmann::json& series) -> std::string {
    auto json = nlohmann::json::parse(good);
    json["models"]["mac"]["test"]["series"] = series;
    return message(good, json.dump());
  };
  expect(with_series({{"time", nlohmann::json::array()}}), "models.mac.test.series.time");
  expect(with_series({{"time", {0, 1}}, {"physical_l2_of", {{"sin x", nlohmann::json::array()}}}}),
         "models.mac.test.series.physical_l2_of.sin x");
  EXPECT_THROW(read_metrics(folder.file("none.json")), Error);
}

TEST(Compare, AllowsThreeStandardErrorsOfSeedsAndTrajectories) {
  const Evaluation stored = evaluate(two_seeds_and_markov());
  const auto same = compare(stored, stored);
  ASSERT_FALSE(same.empty());
  for (const ComparedCell& cell : same) EXPECT_TRUE(cell.within()) << cell.model << cell.variable;
  // phi1 on [0,1]: seeds .05 and 0, trajectories (.1, 0, 0, 0), two of them a test set.
  const double seeds = 0.05 * 0.05 / 2, trajectories = 0.001875 / 2;
  EXPECT_EQ(same.front().variable, "phi1");
  EXPECT_NEAR(same.front().tolerance, 3 * std::sqrt(seeds + 2 * trajectories), 1e-6);

  ComparedCell cell = same.front();
  cell.fresh.mean = cell.stored.mean + 1.01 * cell.tolerance;
  EXPECT_FALSE(cell.within());
  cell.fresh.mean = nan;
  EXPECT_FALSE(cell.within()) << "all blew up";
  cell.stored.mean = nan;
  EXPECT_TRUE(cell.within()) << "a variable without a relative error";
}

TEST(Compare, CountsTheTrajectoriesThatBlewUp) {
  const Evaluation stored = evaluate({small_rollout()});
  RolloutFile file = small_rollout();
  file.splits.front().blow_up_time[1] = 0.5;
  const auto blow_ups = [](const Evaluation& fresh, const Evaluation& old) {
    return compare(fresh, old).back();
  };
  const ComparedCell cell = blow_ups(evaluate({file}), stored);
  EXPECT_EQ(cell.quantity, "blow-ups");
  EXPECT_EQ(cell.fresh.mean, 0.5);
  EXPECT_FALSE(cell.within()) << "none of the stored did, so none may";
  EXPECT_TRUE(blow_ups(stored, stored).within());
  // Half of each seed's two: sqrt(.25 / 2) for either test set.
  const Evaluation half = evaluate({file, file});
  EXPECT_NEAR(blow_ups(half, half).tolerance, 3 * std::sqrt(2 * 0.125), 1e-5);
  EXPECT_TRUE(blow_ups(half, evaluate({file})).within());
}

TEST(Compare, RefusesAnotherSystem) {
  const Evaluation thin = evaluate({rollout_of("modes = 3")}),
                   thick = evaluate({rollout_of("viscosity = 0.9")});
  EXPECT_NE(refusal([&] { compare(thick, thin); }).find("viscosity is 0.9"), std::string::npos);
  RolloutFile finer = rollout_of("modes = 3");
  finer.experiment = Experiment::parse(
      "[system]\nname = \"burgers\"\ngrid = 64\n[data]\ndt = 0.01\nstride = 50\n"
      "[data.test]\ntrajectories = 2\nhorizon = 1.0\n",
      "finer.toml");
  EXPECT_FALSE(compare(evaluate({finer}), thin).empty()) << "the same equations on another grid";
}

TEST(PaperComparison, SaysLowerEqualOrHigherForEveryCell) {
  RolloutFile file = rollout_of("modes = 3");
  file.splits.front().resolved[0] = file.splits.front().resolved[6] = file.splits.front().resolved[12] = 1;
  const Table table = paper_comparison(evaluate({file}));
  // The paper's MAC: phi1 .0184 % and at most 1.42 % of the others; here 0 and 10 %.
  ASSERT_EQ(table.rows.size(), 2u) << "resolved and closure on [0,1]; the paper has no [0.5,1]";
  EXPECT_EQ(table.rows[0],
            (std::vector<std::string>{"mac, test: resolved [0,1]", "phi1", "-", "phi2 phi3 psi1 psi2 psi3"}));
}

TEST(PaperComparison, StandsBesideThePapersParametersOnly) {
  for (const char* parameters : {"modes = 4", "modes = 2", "viscosity = 0.9"}) {
    const Evaluation evaluation = evaluate({rollout_of(parameters)});
    EXPECT_EQ(tables(evaluation).front().header, (std::vector<std::string>{"variable", "mac"})) << parameters;
    EXPECT_TRUE(paper_comparison(evaluation).rows.empty()) << parameters;
  }
  EXPECT_EQ(tables(evaluate({rollout_of("viscosity = 0.1")})).front().header.back(), "paper");
}

/// Of the paper's parameters, which are the defaults.
Experiment default_experiment(const std::string& system) {
  return Experiment::parse("[system]\nname = \"" + system +
                               "\"\n[data]\ndt = 5e-5\n[data.test]\ntrajectories = 1\nhorizon = 0.1\n",
                           "study.toml");
}

TEST(PaperValues, AreTheOnesInThePapersTables) {
  EXPECT_NEAR(paper_value(default_experiment("burgers"), "mac", "test", "resolved", "[0,1]", "phi3")->mean,
              0.010438, 1e-12);
  EXPECT_NEAR(paper_value(default_experiment("burgers"), "markov", "test", "resolved", "[1,2]", "psi2")->std,
              0.341128, 1e-12);
  EXPECT_NEAR(paper_value(default_experiment("kdv"), "gru", "test", "closure", "[0,1]", "m1_psi")->mean,
              1.097062, 1e-12);
  EXPECT_NEAR(
      paper_value(default_experiment("power_grid"), "mac", "ood", "resolved", "[0,10]", "omega1")->mean,
      0.012879, 1e-12);
  EXPECT_NEAR(paper_value(default_experiment("lorenz96"), "wilks", "test", "resolved", "[0,20]", "X8")->mean,
              0.4607, 1e-12);
  EXPECT_NEAR(paper_value(default_experiment("lorenz96"), "mac", "test", "cumulative_l2", "", "")->mean,
              0.0643, 1e-12);
  EXPECT_FALSE(paper_value(default_experiment("burgers"), "mac", "test", "resolved", "[0,5]", "phi1"));
}

TEST(Tables, LineUpInEveryFormat) {
  const Table table{"title", {"variable", "mac"}, {{"phi1", "1.0 ± 0.1"}, {"a_b", "10"}}};
  EXPECT_EQ(
      render(table, TableFormat::text),
      "title\nvariable         mac\n--------   ---------\nphi1       1.0 ± 0.1\na_b               10\n");
  EXPECT_EQ(render(table, TableFormat::markdown),
            "**title**\n\n| variable |       mac |\n| -------- | --------: |\n| phi1     | 1.0 ± 0.1 |\n| "
            "a_b      |        10 |\n");
  EXPECT_EQ(render(table, TableFormat::csv), "# title\nvariable,mac\nphi1,1.0 ± 0.1\na_b,10\n");
  EXPECT_NE(render(table, TableFormat::latex).find("phi1 & 1.0 $\\pm$ 0.1 \\\\\n  a\\_b & 10"),
            std::string::npos);
}

TEST(Tables, EscapeWhatTheFormatWouldTakeForItsOwn) {
  const Table table{"title", {"variable", "a&b \"c\", #1"}, {{"x^2", "$5 {~} \\"}}};
  EXPECT_EQ(render(table, TableFormat::csv), "# title\nvariable,\"a&b \"\"c\"\", #1\"\nx^2,$5 {~} \\\n");
  const std::string latex = render(table, TableFormat::latex);
  EXPECT_NE(latex.find("a\\&b \"c\", \\#1"), std::string::npos) << latex;
  EXPECT_NE(latex.find("x\\^{}2 & \\$5 \\{\\~{}\\} \\textbackslash{}"), std::string::npos) << latex;
}

TEST(Evaluate, CountsTheEndsOfAnIntervalWhateverTheirLastBits) {
  RolloutFile file = small_rollout();
  file.splits.front().time[1] = std::nextafter(0.5, 0);  // a time that was summed up
  const SplitMetrics metrics = evaluate({file}).models.front().splits.at("test");
  // phi1 over [0.5, 1]: 0.2 off 2 at both times (in the second trajectory it is zero there).
  EXPECT_NEAR(metrics.intervals[1].resolved[0].mean, 0.1, 1e-15);
  file.splits.front().resolved[2] = 2;  // exact at the first of them
  EXPECT_NEAR(evaluate({file}).models.front().splits.at("test").intervals[1].resolved[0].mean,
              std::sqrt(0.04 / 8), 1e-15);
}

TEST(Evaluate, AveragesFieldsOfOneLabelOverItsOwnTrajectories) {
  RolloutFile file = small_rollout();
  file.splits.front().labels = {"e", "sin x"};
  const SplitMetrics metrics = evaluate({file}).models.front().splits.at("test");
  EXPECT_NEAR(metrics.labelled_physical_l2.at("e")[0], 0.2 * std::sqrt(std::numbers::pi), 1e-14);
}

/// The centred correlation of one trajectory of phi1 (psi1 is 1 throughout) with its prediction.
double centred_correlation(const std::vector<double>& truth, const std::vector<double>& predicted) {
  RolloutFile file = small_rollout();
  RolloutSplit& split = file.splits.front();
  split.labels = {""}, split.blow_up_time = {nan};
  split.true_resolved.clear(), split.resolved.clear();
  for (std::size_t t = 0; t < 3; ++t) {
    split.true_resolved.insert(split.true_resolved.end(), {truth[t], 1});
    split.resolved.insert(split.resolved.end(), {predicted[t], 1});
  }
  split.true_closure = split.closure = split.true_resolved;
  return evaluate({file}).models.front().splits.at("test").centred_correlation.mean;
}

TEST(CentredCorrelation, SeesNeitherOffsetNorScale) {
  EXPECT_NEAR(centred_correlation({1, 2, 4}, {7, 10, 16}), 1, 1e-15);
  EXPECT_NEAR(centred_correlation({1, 2, 4}, {-1, -2, -4}), -1, 1e-15);
  // Deviations (-1, 0, 1) and (1, -2, 1) are orthogonal.
  EXPECT_NEAR(centred_correlation({1, 2, 3}, {1, -2, 1}), 0, 1e-15);
}

TEST(CentredCorrelation, OfAPredictionThatStandsStillIsZero) {
  EXPECT_EQ(centred_correlation({0.1, 0.2, 0.4}, {0.1, 0.1, 0.1}), 0);
  EXPECT_EQ(centred_correlation({0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}), 1);
}

TEST(CentredCorrelation, KeepsItsDigitsForSmallDeviationsFromALargeMean) {
  // Deviations of 1e-6 beside 1e4: the squares of the values have no digits left for them.
  const double exact = centred_correlation({0, 1, 3}, {0, 2, 3});
  const auto far = [](double value) { return 1e4 + 1e-6 * value; };
  EXPECT_NEAR(centred_correlation({far(0), far(1), far(3)}, {far(0), far(2), far(3)}), exact,
              1e-5);  // the deviations themselves are rounded to 1e-12
}

}  // namespace
}  // namespace mac
