// Rollouts of data whose parameters vary: each trajectory with its own equations, and what is said of the errors.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/system_parameters.hpp>
#include <mac/verdict.hpp>

#include "coupling/coupled_columns.hpp"
#include "evaluation/parameter_errors.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

Experiment study(const std::string& viscosity) {
  return Experiment::parse("[system]\nname = \"burgers\"\ngrid = 32\nviscosity = " + viscosity +
                               "\n[data]\ndt = 1e-3\nstride = 10\n[data.train]\ntrajectories = 4\nhorizon = "
                               "0.1\n[data.test]\ntrajectories = 4\nhorizon = 0.2\n",
                           "study.toml");
}

DataFile data_of(const Experiment& experiment, const ScratchFolder& folder, const char* name) {
  generate(experiment, folder.file(name), {1, true});
  return DataFile::open(folder.file(name));
}

/// The numbers of trajectory i of the only split.
std::vector<double> trajectory(const RolloutFile& file, std::size_t i) {
  const RolloutSplit& split = file.splits.front();
  const std::size_t size = split.resolved.size() / split.trajectories();
  const auto at = split.resolved.begin() + static_cast<std::ptrdiff_t>(i * size);
  return {at, at + static_cast<std::ptrdiff_t>(size)};
}

TEST(VaryingParameters, RolloutsHaveTheEquationsOfEachTrajectory) {
  const ScratchFolder folder;
  const DataFile varied = data_of(study("{ list = [0.06, 0.17] }"), folder, "varied.h5");
  RolloutOptions options;
  options.quiet = true;
  options.splits = {"test"};
  for (const char* name : {"markov", "exact"}) {
    const auto model =
        std::string(name) == "markov" ? make_markov() : make_exact({Hold::linear, Target::instant});
    options.threads = 1;
    const RolloutFile rolled = rollout_in_memory(*model, varied, options);
    EXPECT_EQ(rolled.splits[0].parameters, (std::vector<double>{0.06, 0.17, 0.06, 0.17}));
    options.threads = 3;
    EXPECT_EQ(rollout_in_memory(*model, varied, options).splits[0].resolved, rolled.splits[0].resolved);
    for (const std::size_t k : {0, 1}) {
      const DataFile fixed = data_of(study(k == 0 ? "0.06" : "0.17"), folder, "fixed.h5");
      const RolloutFile reference = rollout_in_memory(*model, fixed, options);
      for (const std::size_t i : {k, k + 2})
        EXPECT_EQ(trajectory(rolled, i), trajectory(reference, i)) << name;
    }
  }
}

TEST(VaryingParameters, StandInRolloutFilesAndInMetrics) {
  const ScratchFolder folder;
  const DataFile data = data_of(study("{ list = [0.06, 0.17] }\n[data.ood]\ntrajectories = 2\nhorizon = "
                                      "0.2\n[data.ood.system]\nviscosity = { list = [0.03, 0.3] }\n#"),
                                folder, "data.h5");
  RolloutOptions options;
  options.quiet = true;
  rollout(*make_markov(), data, folder.file("markov.h5"), options);
  rollout(*make_exact({}), data, folder.file("exact.h5"), options);
  const RolloutFile file = RolloutFile::open(folder.file("markov.h5"));
  ASSERT_EQ(file.splits.size(), 2u);
  EXPECT_EQ(file.splits[1].parameters, (std::vector<double>{0.03, 0.3}));
  ASSERT_TRUE(file.parameter_range.has_value());
  EXPECT_EQ(file.parameter_range->low, std::vector<double>{0.06});
  EXPECT_EQ(file.parameter_range->high, std::vector<double>{0.17});

  const Evaluation evaluation = evaluate_files({folder.file("markov.h5"), folder.file("exact.h5")});
  const ParameterMetrics& inside = evaluation.models[0].splits.at("test").by_parameter.at(0);
  EXPECT_EQ(inside.name, "viscosity");
  ASSERT_EQ(inside.groups.size(), 2u);
  EXPECT_EQ(inside.groups[0].value, 0.06);
  EXPECT_EQ(inside.groups[0].trajectories, 2u);
  EXPECT_FALSE(inside.groups[0].outside);
  EXPECT_GT(inside.groups[0].error.mean, inside.groups[1].error.mean);  // a thinner fluid has more to close
  for (const ParameterMetrics::Group& group : evaluation.models[0].splits.at("ood").by_parameter.at(0).groups)
    EXPECT_TRUE(group.outside) << group.value;

  // What is written is read again, and there is a table of it.
  test::write_bytes(folder.file("metrics.json"), metrics_text(evaluation));
  EXPECT_EQ(metrics_text(read_metrics(folder.file("metrics.json"))), metrics_text(evaluation));
  bool found = false;
  for (const Table& table : tables(evaluation)) {
    if (table.title.find("by viscosity, in the training data [0.06,0.17]") == std::string::npos) continue;
    found = true;
    EXPECT_EQ(table.rows.size(), 2u);
    EXPECT_EQ(table.rows[0][1],
              table.title.find("out of distribution") == std::string::npos ? "inside" : "outside");
  }
  EXPECT_TRUE(found);
}

TEST(VaryingParameters, OutsideOfTheTrainingRangeAreAWarningOfTheVerdict) {
  Evaluation evaluation{study("0.1"), {}};
  ModelMetrics model{"mac", {}, {}};
  SplitMetrics& test = model.splits["test"];
  test.trajectories = 4;
  test.intervals.push_back({{0, 1}, std::vector<MeanStd>(6), std::vector<MeanStd>(6)});
  test.by_parameter.push_back(
      {"viscosity", Interval{0.05, 0.2}, {{0.1, false, 3, 0, {}}, {0.3, true, 1, 0, {}}}});
  evaluation.models.push_back(model);
  const std::vector<Verdict> judged = verdicts(evaluation);
  ASSERT_EQ(judged.size(), 1u);
  ASSERT_EQ(judged[0].warnings.size(), 1u);
  EXPECT_EQ(judged[0].warnings[0],
            "mac: 1 of 4 trajectories on test data have viscosity outside of its range in the training data, "
            "[0.05,0.2] (to 0.3)");
}

TEST(VaryingParameters, OfManyValuesArePutTogetherInsideApartFromOutside) {
  ParameterErrors errors({"nu", "fixed"});
  const ResolvedRange range{{0, 5}, {1, 5}};
  for (int i = 0; i < 60; ++i) {
    const double parameters[] = {i * 0.025, 5};
    errors.add(parameters, i == 3 ? std::nan("") : i, range);
  }
  const std::vector<ParameterMetrics> found = errors.finish();
  ASSERT_EQ(found.size(), 1u);  // the other has one value
  std::size_t trajectories = 0, blow_ups = 0;
  EXPECT_LE(found[0].groups.size(), ParameterErrors::most_groups + 1);
  for (const ParameterMetrics::Group& group : found[0].groups) {
    trajectories += group.trajectories, blow_ups += group.blow_ups;
    EXPECT_EQ(group.outside, group.value > 1.05) << group.value;
  }
  EXPECT_EQ(trajectories, 60u);
  EXPECT_EQ(blow_ups, 1u);
}

TEST(VaryingParameters, AreNoOtherParametersForAModelThatWasTrainedOverARange) {
  const SystemParameters range = system_parameters(study("{ uniform = [0.05, 0.2] }").config.table("system"));
  const SystemParameters one = system_parameters(study("0.1").config.table("system"));
  EXPECT_FALSE(other_parameters("mac", range, "data", one));
  const auto refused = other_parameters("mac", one, "data", range);
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, "mac: was trained with viscosity = 0.1, but in data it is [uniform = [0.05, 0.2]]");

  Model model;
  EXPECT_FALSE(trained_range(model, {"viscosity"}));
  model.provenance["parameter_range"] = R"({"viscosity": [0.05, 0.2]})";
  ASSERT_TRUE(trained_range(model, {"viscosity"}));
  EXPECT_EQ(trained_range(model, {"viscosity"})->high, std::vector<double>{0.2});
  EXPECT_FALSE(trained_range(model, {"other"}));
}

/// Steps and gradients of columns with equations of their own are those of coupled_step, bit for bit.
TEST(VaryingParameters, OfColumnsAreThoseOfSingleSteps) {
  const Experiment experiment = study("{ list = [0.06, 0.17] }");
  const std::vector<std::shared_ptr<const System>> systems{experiment.family->at(std::vector<double>{0.06}),
                                                           experiment.family->at(std::vector<double>{0.17})};
  const std::size_t d = experiment.system->resolved_size(), c = experiment.system->closure_size();
  std::vector<double> y(2 * d), closure(2 * c), d_next(2 * d);
  for (std::size_t k = 0; k < y.size(); ++k)
    y[k] = std::sin(1.0 + static_cast<double>(k)), closure[k] = std::cos(static_cast<double>(k)),
    d_next[k] = 1 / (1.0 + static_cast<double>(k));
  const HeldClosure held{Hold::linear, Target::instant};
  CoupledColumns columns(*experiment.system, 0.05, held, 2, systems);
  std::vector<double> all = y, d_y(2 * d), d_closure(2 * c), one_d_y(2 * d), one_d_closure(2 * c), one = y;
  columns.step(closure.data(), nullptr, all.data());
  columns.adjoint(closure.data(), nullptr, y.data(), d_next.data(), d_y.data(), d_closure.data(), nullptr);
  for (const std::size_t i : {0, 1}) {
    coupled_step(*systems[i], 0.05, held, closure.data() + i * c, nullptr, one.data() + i * d);
    coupled_step_adjoint(*systems[i], 0.05, held, closure.data() + i * c, nullptr, y.data() + i * d,
                         d_next.data() + i * d, one_d_y.data() + i * d, one_d_closure.data() + i * c,
                         nullptr);
  }
  EXPECT_EQ(all, one);
  EXPECT_EQ(d_y, one_d_y);
  EXPECT_EQ(d_closure, one_d_closure);
}

}  // namespace
}  // namespace mac
