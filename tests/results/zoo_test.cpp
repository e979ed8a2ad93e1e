// The zoo's experiments, the cards of its models, and the scripts that keep results up to date.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <mac/report.hpp>
#include <mac/safetensors.hpp>
#include <mac/verdict.hpp>

#include "evaluation/escape.hpp"
#include "report/script.hpp"
#include "report/tiny_run.hpp"
#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;

const SplitPlan* split_of(const Experiment& experiment, const std::string& name) {
  for (const SplitPlan& split : experiment.data.splits)
    if (split.name == name) return &split;
  return nullptr;
}

TEST(ZooModels, CarryChecksumsThatFit) {
  std::size_t models = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(MAC_SOURCE_FOLDER) / "zoo"))
    if (entry.path().extension() == ".safetensors") {
      EXPECT_TRUE(Safetensors::read(entry.path()).has_checksum()) << entry.path();
      ++models;
    }
  EXPECT_GE(models, 16u);
}

TEST(ZooModels, KnowTheRangeOfTheirTrainingData) {
  for (const auto& entry : fs::directory_iterator(fs::path(MAC_SOURCE_FOLDER) / "zoo"))
    if (entry.path().extension() == ".safetensors") {
      const Model model = load_model(entry.path().string());
      ASSERT_TRUE(model.training_range) << entry.path() << ": guards compare with it; mac range writes it";
      const TrainingRange& range = *model.training_range;
      EXPECT_FALSE(range.input_covariance.empty()) << entry.path();
      for (std::size_t i = 0; i < range.input_low.size(); ++i)
        EXPECT_LT(range.input_low[i], range.input_high[i]) << entry.path() << " input " << i;
    }
}

TEST(ZooExperiments, TestTheirModelsAsTheStudiesDoOnOtherData) {
  const fs::path folder = MAC_EXPERIMENTS;
  // Folders below experiments/zoo and experiments, and the systems in them.
  struct Recipe {
    std::string zoo, study;
    std::vector<std::string> systems;
  };
  const std::vector<std::string> paper{"burgers", "kdv", "power_grid", "lorenz96"}, framed{"burgers", "kdv"};
  const std::vector<Recipe> recipes{{"", "", {"burgers", "kdv", "power_grid", "lorenz96", "ks"}},
                                    {"paper", "paper", paper},
                                    {"framed", "framed", framed},
                                    {"ensemble", "framed", framed},
                                    {"ensemble", "", {"power_grid"}},
                                    {"best", "best", {"kdv", "power_grid"}},
                                    {"best-ensemble", "best", {"power_grid"}},
                                    {"wide", "wide", {"burgers", "kdv", "power_grid"}},
                                    {"community", "community", {"lorenz96"}}};
  for (const Recipe& recipe : recipes)
    for (const std::string& system : recipe.systems) {
      const std::string file = (fs::path(recipe.zoo) / (system + ".toml")).string();
      const Experiment study = Experiment::read((folder / recipe.study / (system + ".toml")).string());
      const Experiment zoo = Experiment::read((folder / "zoo" / file).string());
      EXPECT_EQ(zoo.system->name(), study.system->name());
      EXPECT_NE(zoo.data.seed, study.data.seed) << file;
      // To rounding: dt * stride of other factors.
      EXPECT_NEAR(zoo.data.closure_step(), study.data.closure_step(), 1e-12) << file;
      EXPECT_EQ(split_of(zoo, "train"), nullptr) << "no training data";
      for (const char* name : {"test", "ood"}) {
        if (!split_of(study, name)) continue;
        ASSERT_TRUE(split_of(zoo, name)) << file;
        EXPECT_EQ(split_of(zoo, name)->trajectories, split_of(study, name)->trajectories) << file;
      }
      ASSERT_EQ(zoo.evaluation.intervals.size(), study.evaluation.intervals.size()) << file;
      for (std::size_t i = 0; i < zoo.evaluation.intervals.size(); ++i)
        EXPECT_EQ(to_string(zoo.evaluation.intervals[i]), to_string(study.evaluation.intervals[i])) << file;
      for (const ModelPlan& model : zoo.models) {
        ASSERT_TRUE(model.file) << file;
        const std::string name = model.name == "apart" ? "mac" : model.name;  // the same, each by itself
        const std::string expected = system + "-" + name + (recipe.zoo.empty() ? "" : "-" + recipe.zoo);
        EXPECT_EQ(fs::path(*model.file).stem(), expected);
        EXPECT_EQ(fs::weakly_canonical(*model.file).parent_path(), fs::path(MAC_SOURCE_FOLDER) / "zoo");
      }
    }
}

class TinyZoo : public ::testing::Test {
 protected:
  TinyZoo() {
    test::make_run(folder_.path() / "run", test::tiny_burgers, 2);
    std::vector<std::string> files;
    for (const char* name : {"mac-seed0", "mac-seed1", "gru-seed0", "gru-seed1", "markov", "exact"})
      files.push_back(folder_.file("run/rollouts/" + std::string(name) + ".h5"));
    test::write_bytes(folder_.file("burgers.json"), metrics_text(evaluate_files(files)));
  }
  std::string model(const std::string& name) const {
    return folder_.file("run/models/" + name + ".safetensors");
  }
  test::ScratchFolder folder_;
};

TEST_F(TinyZoo, WritesACardFromTheModelAndItsMetrics) {
  Model network = load_model(model("mac-seed1"));
  network.provenance["seed"] = "1";
  network.provenance["data_experiment"] = test::tiny_burgers;
  Evaluation metrics = read_metrics(folder_.file("burgers.json"));
  metrics.models[0].splits.at("test").cumulative_l2 = {0.5, 0.4, {0.1, 0.9}};
  const std::string card = model_card(network, "burgers-mac.safetensors", metrics);
  for (const char* part :
       {"# burgers-mac\n", "mamba, 1 blocks of 4 channels", "- train: 2 trajectories to t = 0.2", "all seeds",
        "Test [0,0.2]", "Cumulative relative L2 error 0.9000; all seeds 0.5000", "Out of distribution",
        "## Limits", "steps = 0"})
    EXPECT_NE(card.find(part), std::string::npos) << part << "\n" << card;
  const MeanStd& phi1 = metrics.models[0].splits.at("test").intervals[0].resolved[0];
  ASSERT_EQ(phi1.seeds.size(), 2u);
  EXPECT_NE(card.find(percent({phi1.seeds[1], std::nan(""), {}})), std::string::npos)
      << "its own seed's error";

  const std::vector<Verdict> judged = verdicts(metrics);
  EXPECT_NE(card.find("## Verdict\n\n" + judged.at(0).sentence), std::string::npos) << card;
  ASSERT_FALSE(judged[0].warnings.empty()) << "an untrained network";
  for (const std::string& warning : judged[0].warnings)
    EXPECT_NE(card.find("**Warning:** " + markdown(warning)), std::string::npos) << warning << "\n" << card;

  std::erase_if(metrics.models, [](const ModelMetrics& of) { return of.model == "markov"; });
  network.provenance["search"] =
      R"({"chosen": 0, "error_without_closure": 0.1, "warning": "no closure is better", "trials": [
         {"noise": 0, "max_lr": 0.01, "d_model": 4, "steps": 9, "error": 0.2}]})";
  EXPECT_NE(model_card(network, "burgers-mac.safetensors", metrics).find("**Warning:** no closure is better"),
            std::string::npos)
      << "where the metrics compare with nothing, the search's own";

  network.provenance["name"] = "lstm";
  EXPECT_THROW(model_card(network, "burgers-lstm.safetensors", metrics), UsageError);
}

TEST_F(TinyZoo, WritesTheCardOfAnEnsembleWithItsSpread) {
  const Model ensemble =
      make_ensemble({load_model(model("mac-seed0")), load_model(model("mac-seed1"))}, {"zero", "one"});
  Evaluation metrics = read_metrics(folder_.file("burgers.json"));
  Verification& of = metrics.models[0].splits.at("ood").verification.emplace();
  of.members = 2, of.correlation = 0.75, of.time = {1}, of.spread = {0.3}, of.error = {0.2};
  const std::string card = model_card(ensemble, "burgers-mac-ensemble.safetensors", metrics);
  for (const char* part : {"# burgers-mac-ensemble\n", "2 × mamba", "networks of 2 seeds", "zero one",
                           "| mac | ood | 2 | 0.75 | 1.50 |"})
    EXPECT_NE(card.find(part), std::string::npos) << part << "\n" << card;
}

TEST_F(TinyZoo, ComparesStoredMetricsByTheProgram) {
  const std::string stored = folder_.file("burgers.json");
  const auto good = test::run_program("evaluate " + stored + " --against " + stored);
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_NE(good.output.find("are within the spread"), std::string::npos) << good.output;

  Evaluation other = read_metrics(stored);
  for (ModelMetrics& metrics : other.models)
    if (metrics.model == "mac") metrics.splits.at("test").cumulative_l2.mean += 1;
  test::write_bytes(folder_.file("other.json"), metrics_text(other));
  const auto bad = test::run_program("evaluate " + folder_.file("other.json") + " --against " + stored);
  EXPECT_EQ(bad.exit_code, 1) << bad.output;
  EXPECT_NE(bad.output.find("HIGHER"), std::string::npos) << bad.output;
}

TEST_F(TinyZoo, PrintsTheTablesOfStoredMetricsAndDrawsTheirSeries) {
  const auto result = test::run_program("evaluate " + folder_.file("burgers.json") +
                                        " --format markdown --figures " + folder_.file("figures"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("| variable |"), std::string::npos);
  const std::string svg = test::read_bytes(folder_.file("figures/l2_error_sin_x.svg"));
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("markov"), std::string::npos) << "the legend";
}

TEST(GnuplotScript, BringsEveryFileBackToTheRangeOfTheData) {
  const report::Figure figure{.name = "figure",
                              .title = {},
                              .caption = {},
                              .x_label = "t",
                              .mark = {},
                              .panels = {{"", {{"error", true, {{"mac", {0, 20}, {1, 2}}}}}}},
                              .tables = {}};
  const std::string script = report::gnuplot_script(figure);
  const std::string range = "set xrange [0:20]";
  for (const char* output : {"panel0.svg", "figure.pdf", "figure.svg"}) {
    const std::size_t at = script.find(output);
    ASSERT_NE(at, std::string::npos) << output;
    // The last range set before the first curve is drawn; the legend of the file before had its own.
    const std::size_t plotted = script.find("$p0a0c0 ", at);
    EXPECT_EQ(script.compare(script.rfind("set xrange", plotted), range.size(), range), 0) << output;
  }
}

/// A folder with the repository's scripts and texts, this zoo and these results.
class Repository : public TinyZoo {
 protected:
  Repository() {
    const fs::path source = MAC_SOURCE_FOLDER, root = folder_.path() / "repository";
    fs::create_directories(root / "docs" / "figures");
    fs::create_directories(root / "zoo");
    fs::create_directories(root / "results");
    fs::create_directories(root / "experiments" / "zoo");
    fs::copy(source / "scripts", root / "scripts");
    fs::copy(source / "results" / "text", root / "results" / "text", fs::copy_options::recursive);
    fs::copy_file(folder_.file("burgers.json"), root / "results" / "burgers.json");
    fs::copy_file(folder_.file("run/timing.json"), root / "results" / "burgers.timing.json");
    fs::copy_file(model("mac-seed0"), root / "zoo" / "burgers-mac.safetensors");
    std::string study = test::tiny_burgers;
    study = study.substr(0, study.find("[[models]]"));
    const std::size_t train = study.find("[data.train]"), test_data = study.find("[data.test]");
    study.erase(train, test_data - train);
    test::write_bytes((root / "experiments" / "zoo" / "burgers.toml").string(),
                      study +
                          "[[models]]\nname = \"mac\"\nfile = \"../../zoo/burgers-mac.safetensors\"\n"
                          "[evaluation]\nintervals = [[0, 0.2], [0, 0.4]]\n");
  }
  test::ProgramResult script(const std::string& command) const {
    return test::run_command("MAC=" MAC_PROGRAM " " + folder_.file("repository/scripts/" + command) +
                             " 2>&1");
  }
  std::string file(const std::string& name) const { return folder_.file("repository/" + name); }
};

TEST_F(Repository, WritesTheResultsAndKnowsWhenTheyAreStale) {
  ASSERT_EQ(script("results").exit_code, 0);
  const std::string page = test::read_bytes(file("docs/results.md"));
  EXPECT_NE(page.find("(figures/results/burgers/l2_error_sin_x.svg)"), std::string::npos) << page;
  EXPECT_NE(page.find("| generate | 1.5 |"), std::string::npos) << "wall times";
  EXPECT_TRUE(fs::exists(file("docs/figures/results/burgers/l2_error_sin_x.svg")));
  EXPECT_TRUE(test::read_bytes(file("zoo/burgers-mac.md")).starts_with("# burgers-mac"));
  EXPECT_EQ(script("results --check").exit_code, 0);
  test::write_bytes(file("results/text/cost.md"), "## Cost\n\nNone.\n");
  EXPECT_EQ(script("results --check").exit_code, 1);
}

TEST_F(Repository, TakesEnsemblesIntoTheZoo) {
  const Model ensemble = make_ensemble({load_model(model("mac-seed0")), load_model(model("mac-seed1"))},
                                       {model("mac-seed0"), model("mac-seed1")});
  save_model(ensemble, file("zoo/burgers-mac-ensemble.safetensors"));
  fs::create_directories(file("experiments/zoo/ensemble"));
  fs::create_directories(file("results/ensemble"));
  std::string study = test::read_bytes(file("experiments/zoo/burgers.toml"));
  const std::size_t models = study.find("[[models]]"), evaluation = study.find("[evaluation]");
  const std::string entry = "file = \"../../../zoo/burgers-mac-ensemble.safetensors\"\n";
  study = study.substr(0, models) + "[rollout]\nmembers = 2\n[[models]]\nname = \"mac\"\nmembers = 1\n" +
          entry + "[[models]]\nname = \"apart\"\n" + entry + study.substr(evaluation);
  test::write_bytes(file("experiments/zoo/ensemble/burgers.toml"), study);
  const auto run = test::run_program("run " + file("experiments/zoo/ensemble/burgers.toml") + " -o " +
                                     file("run") + " --no-report --quiet");
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const Evaluation stored = read_metrics(file("run/metrics.json"));
  for (const ModelMetrics& metrics : stored.models)
    for (const char* split : {"test", "ood"})
      EXPECT_EQ(metrics.splits.at(split).verification.has_value(), metrics.model == "apart")
          << metrics.model << ": mac is the mean of the closures, apart has each network";
  fs::copy_file(file("run/metrics.json"), file("results/ensemble/burgers.json"));
  ASSERT_EQ(script("results").exit_code, 0);
  const std::string card = test::read_bytes(file("zoo/burgers-mac-ensemble.md"));
  EXPECT_NE(card.find("| apart | test | 2 |"), std::string::npos) << card;
  const auto verified = script("verify-zoo");
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  EXPECT_NE(verified.output.find("burgers ensemble/burgers"), std::string::npos) << verified.output;
}

TEST_F(Repository, VerifiesTheZooAgainstTheStoredResults) {
  const auto good = script("verify-zoo");
  EXPECT_EQ(good.exit_code, 0) << good.output;
  fs::copy_file(model("gru-seed0"), file("zoo/burgers-mac.safetensors"),
                fs::copy_options::overwrite_existing);
  Model wrong = load_model(file("zoo/burgers-mac.safetensors"));
  wrong.normalisation.output_scale.assign(wrong.shape.d_out, 10.0);  // another closure altogether
  save_model(wrong, file("zoo/burgers-mac.safetensors"));
  EXPECT_EQ(script("verify-zoo burgers").exit_code, 1);
}

TEST(ResultsPage, IsWhatMakeResultsWrites) {
  const auto result =
      test::run_command("MAC=" MAC_PROGRAM " " MAC_SOURCE_FOLDER "/scripts/results --check 2>&1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace mac
