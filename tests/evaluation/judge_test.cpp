// Verdicts after a training and after a rollout, from rollouts of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <mac/judge.hpp>
#include <mac/model.hpp>
#include <mac/step_stability.hpp>

#include "evaluation/paper_values.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

StepStability stability_of(const DataFile& data) {
  return step_stability(*data.experiment().system, data).value();
}

std::optional<std::string> warning_of(const DataFile& data) {
  return stability_warning(*data.experiment().system, data.experiment().rollout, data);
}

std::string study(const std::string& step = "dt = 1e-3\nstride = 10", const std::string& system = "") {
  return "[system]\nname = \"burgers\"\ngrid = 32\n" + system + "\n[data]\n" + step +
         "\n[data.train]\ntrajectories = 4\nhorizon = 0.2\n[data.validation]\ntrajectories = 3\nhorizon = "
         "0.2\n"
         "[data.test]\ntrajectories = 3\nhorizon = 0.4\n[[models]]\nname = \"mac\"\nkind = \"mamba\"\n"
         "d_model = 3\nblocks = 1\nd_state = 2\n";
}

/// An untrained network whose closure has this size.
Model network(const Experiment& experiment, double size) {
  Model model;
  model.shape = experiment.models.front().network->shape;
  model.parameters = initial_parameters(model.shape, 1);
  model.normalisation = Normalisation::identity(model.shape);
  model.normalisation.output_scale.assign(model.shape.d_out, size);
  model.system = experiment.system->name();
  model.provenance = {{"name", "mac"}};
  return model;
}

class Judged : public ::testing::Test {
 protected:
  Judged() : experiment_(Experiment::parse(study(), "study.toml")) {
    generate(experiment_, folder_.file("data.h5"), {1, true});
    data_.emplace(DataFile::open(folder_.file("data.h5")));
  }
  std::string save(double size) {
    save_model(network(experiment_, size), folder_.file("mac.safetensors"));
    return folder_.file("mac.safetensors");
  }
  test::ScratchFolder folder_;
  Experiment experiment_;
  std::optional<DataFile> data_;
};

TEST_F(Judged, ATrainingByFreeRolloutsOnValidationData) {
  const std::vector<Verdict> harmless = judge_training(save(1e-9), *data_, 1);
  ASSERT_EQ(harmless.size(), 1u);
  EXPECT_EQ(harmless[0].comparisons.at(0).split, "validation");
  EXPECT_NEAR(harmless[0].comparisons[0].better.value(), 1, 1e-3) << "next to nothing is added";
  EXPECT_GT(harmless[0].comparisons[0].above_floor.value(), 1);
  EXPECT_TRUE(harmless[0].sentence.ends_with(
      "; judged over free rollouts of length 0.2: beyond that nothing was tested"))
      << harmless[0].sentence;
  Model after_a_past = network(experiment_, 1e-9);
  after_a_past.provenance["training"] = "history = 0.05\n";
  save_model(after_a_past, folder_.file("past.safetensors"));
  const std::string judged = judge_training(folder_.file("past.safetensors"), *data_, 1).at(0).sentence;
  EXPECT_NE(judged.find("rollouts of length 0.15:"), std::string::npos) << judged;
  const std::vector<Verdict> harmful = judge_training(save(1), *data_, 1);
  EXPECT_LT(harmful.at(0).comparisons.at(0).better.value(), 0.5);
  EXPECT_FALSE(harmful[0].warnings.empty());
}

TEST_F(Judged, ARolloutBesideNoClosure) {
  RolloutOptions options;
  options.threads = 1;
  options.quiet = true;
  const Model model = network(experiment_, 1);
  rollout(*make_network_closure(model, "mac", {}), *data_, folder_.file("mac.h5"), options);
  const std::vector<Verdict> verdicts = judge_rollout(folder_.file("mac.h5"), *data_, options);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].comparisons.at(0).split, "test");
  EXPECT_LT(verdicts[0].comparisons[0].better.value(), 1);
  rollout(*make_markov(), *data_, folder_.file("markov.h5"), options);
  EXPECT_TRUE(judge_rollout(folder_.file("markov.h5"), *data_, options).empty());
}

TEST(MemoryInTrials, IsSaidWhereItWasTried) {
  EXPECT_EQ(memory_in_trials(R"({"memoryless": {"error": 0.6, "with_memory": 0.2}})"),
            "; 3 times better in a short trial than without memory");
  EXPECT_EQ(memory_in_trials(R"({"memoryless": {"error": 0.1, "with_memory": 0.2}})"),
            "; 2 times worse in a short trial than without memory");
  EXPECT_EQ(memory_in_trials(R"({"memoryless": {"error": null, "with_memory": 0.2}})"),
            "; without memory the network could not be trained");
  EXPECT_EQ(memory_in_trials(R"({"memoryless": null})"), "");
  EXPECT_EQ(memory_in_trials(""), "");
}

TEST_F(Judged, RecordedDataHaveNoComparison) {
  const Experiment recorded = Experiment::parse(
      "[system]\nname = \"recorded\"\nresolved = [\"x\"]\n[data]\ndt = 0.1\n[data.train]\ntrajectories = 1\n"
      "horizon = 0.2\n",
      "recorded.toml");
  const std::vector<double> values(3, 1.0), means(2, 1.0);
  write_data(recorded, {{"train", values, values, means}}, folder_.file("recorded.h5"));
  const DataFile data = DataFile::open(folder_.file("recorded.h5"));
  Model model;
  model.shape = {LayerKind::gru, 1, 1, 2, 1, 0};
  model.parameters = initial_parameters(model.shape, 1);
  model.normalisation = Normalisation::identity(model.shape);
  save_model(model, folder_.file("mine.safetensors"));
  const std::vector<Verdict> verdicts = judge_training(folder_.file("mine.safetensors"), data, 1);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_NE(verdicts[0].sentence.find("there are no equations"), std::string::npos) << verdicts[0].sentence;
  EXPECT_FALSE(warning_of(data));
}

TEST(StepStability, WarnsOfAClosureStepThatRk4CannotTake) {
  const test::ScratchFolder folder;
  // The fastest decay of the linear part is that of mode 3, nu k^2 = 9 nu.
  const auto stability = [&](const std::string& step, const std::string& viscosity) {
    generate(Experiment::parse(study(step, "viscosity = " + viscosity), "study.toml"), folder.file("data.h5"),
             {1, true});
    return stability_of(DataFile::open(folder.file("data.h5")));
  };
  const StepStability fine = stability("dt = 1e-3\nstride = 100", "2");  // 9 * 2 * .1 = 1.8
  EXPECT_NEAR(fine.largest, 1.8, 0.1) << "the quadratic term moves it a little";
  EXPECT_EQ(fine.unstable_share, 0);
  EXPECT_FALSE(warning_of(DataFile::open(folder.file("data.h5"))));
  const StepStability coarse = stability("dt = 1e-3\nstride = 200", "2");  // 3.6, beyond 2.78
  EXPECT_NEAR(coarse.largest, 3.6, 0.2);
  EXPECT_EQ(coarse.unstable_share, 1);
  const auto warning = warning_of(DataFile::open(folder.file("data.h5")));
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("closure step of 0.2 is beyond the stability of RK4"), std::string::npos)
      << *warning;
}

TEST(PaperTables, NameTheirTableAndTheVariablesOfTheirSystem) {
  EXPECT_EQ(paper_tables().size(), 18u);
  std::size_t cells = 0;
  for (const PaperTable& table : paper_tables()) {
    EXPECT_TRUE(table.table.starts_with("Table ")) << table.table;
    EXPECT_TRUE(table.label.starts_with("tab_")) << table.label;
    const auto system = make_system(ConfigTable::parse("name = \"" + table.system + "\"", "test"));
    for (const auto& [key, cell] : table.cells) {
      const auto& names = table.quantity == "closure" ? system->closure_names() : system->resolved_names();
      EXPECT_TRUE(key.second.empty() || std::ranges::find(names, key.second) != names.end())
          << table.label << " " << key.second;
      EXPECT_GT(cell.mean, 0);
      ++cells;
    }
  }
  EXPECT_EQ(cells, 236u);
}

}  // namespace
}  // namespace mac
