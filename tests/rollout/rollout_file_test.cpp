// A rollout file refers to its data file by path and content, and is read wherever both went together.
#include "rollout/rollout_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>
#include <mac/evaluation.hpp>
#include <mac/rollout.hpp>

#include "io/hdf5.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::read_bytes;
using test::ScratchFolder;

/// data.h5 in a folder and rollouts/markov.h5 below it, as in a run.
class RolloutsAndData : public ::testing::Test {
 protected:
  RolloutsAndData() {
    fs::create_directories(folder_.path() / "run/rollouts");
    generate(experiment(7), data(), {1, true});
  }
  static Experiment experiment(int seed) {
    return Experiment::parse(
        fmt::format("[system]\nname = \"burgers\"\ngrid = 32\n[data]\ndt = 1e-3\nstride = "
                    "10\nseed = {}\n[data.train]\ntrajectories = 3\nhorizon = 0.1\n"
                    "[data.validation]\ntrajectories = 4\nhorizon = 0.1\n"
                    "[data.test]\ntrajectories = 5\nhorizon = 0.2\n",
                    seed),
        "study.toml");
  }
  std::string data() const { return folder_.file("run/data.h5"); }
  std::string file() const { return folder_.file("run/rollouts/markov.h5"); }
  void roll(RolloutOptions options = {}) const {
    options.threads = 1;
    options.quiet = true;
    rollout(*make_markov(), DataFile::open(data()), file(), options);
  }
  /// What opening says; "no error" if it opens.
  static std::string message(const std::string& path, const std::string& data = {}) {
    try {
      RolloutFile::open(path, data);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  static void expect_same(const RolloutSplit& a, const RolloutSplit& b) {
    EXPECT_EQ(a.resolved, b.resolved);
    EXPECT_EQ(a.closure, b.closure);
    EXPECT_EQ(a.true_resolved, b.true_resolved);
    EXPECT_EQ(a.true_closure, b.true_closure);
  }
  ScratchFolder folder_;
};

TEST_F(RolloutsAndData, GiveTheTruthOfTheDataFileWithoutACopyOfIt) {
  roll();
  EXPECT_FALSE(h5::File::open(file()).has("/test/true_resolved"));
  const RolloutSplit split = RolloutFile::open(file()).splits.front();
  const DataSplit truth = DataFile::open(data()).split("test");
  std::vector<double> resolved(5 * 21 * 6), closure(5 * 21 * 6);
  for (std::size_t i = 0; i < 5; ++i) {
    truth.read_resolved(i, 0, 21, resolved.data() + i * 21 * 6);
    truth.read_closure(i, 0, 21, closure.data() + i * 21 * 6);
  }
  EXPECT_EQ(split.true_resolved, resolved);
  EXPECT_EQ(split.true_closure, closure);
}

TEST_F(RolloutsAndData, MoveTogether) {
  roll();
  fs::rename(folder_.path() / "run", folder_.path() / "elsewhere");
  EXPECT_EQ(message(folder_.file("elsewhere/rollouts/markov.h5")), "no error");
}

TEST_F(RolloutsAndData, AreFoundBesideEachOther) {
  roll();
  fs::create_directory(folder_.path() / "flat");
  fs::rename(file(), folder_.path() / "flat/markov.h5");
  fs::rename(data(), folder_.path() / "flat/data.h5");
  EXPECT_EQ(message(folder_.file("flat/markov.h5")), "no error");
}

TEST_F(RolloutsAndData, AreBroughtTogetherByName) {
  roll();
  const RolloutSplit before = RolloutFile::open(file()).splits.front();
  fs::rename(data(), folder_.path() / "truth.h5");
  EXPECT_EQ(message(file()),
            fmt::format("{}: was rolled out on the data of {} or {}, which is not there; say by "
                        "--data where it is",
                        file(), data(), folder_.file("run/rollouts/data.h5")));
  expect_same(RolloutFile::open(file(), folder_.file("truth.h5")).splits.front(), before);
}

TEST_F(RolloutsAndData, OfAnotherContentAreRefused) {
  roll();
  generate(experiment(8), data(), {1, true});
  EXPECT_NE(
      message(file()).find(fmt::format("{}: was rolled out on other data than those of {}", file(), data())),
      std::string::npos)
      << message(file());
  EXPECT_NE(message(file(), data()).find("was rolled out on other data than"), std::string::npos);
  generate(experiment(7), data(), {1, true});
  EXPECT_EQ(message(file()), "no error") << "the same content, made again";
}

TEST_F(RolloutsAndData, AreOneFileWhenSelfContained) {
  roll();
  const RolloutSplit referring = RolloutFile::open(file()).splits.front();
  RolloutOptions options;
  options.self_contained = true;
  roll(options);
  fs::remove(data());
  expect_same(RolloutFile::open(file()).splits.front(), referring);
}

TEST_F(RolloutsAndData, OfEarlierVersionsAreRead) {
  // They had the truth inside, and none of the attributes that came later.
  RolloutOptions options;
  options.self_contained = true;
  roll(options);
  const hid_t old = H5Fopen(file().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  ASSERT_GE(H5Ldelete(old, "/training_range", H5P_DEFAULT), 0);
  ASSERT_GE(H5Fclose(old), 0);
  const RolloutFile read = RolloutFile::open(file());
  EXPECT_FALSE(read.training_range);
  EXPECT_FALSE(evaluate({read}).models.front().splits.at("test").outside);
}

TEST_F(RolloutsAndData, ContinuedBeginWithinTheData) {
  RolloutOptions options;
  options.splits = {"test"};
  roll(options);
  const RolloutSplit whole = RolloutFile::open(file()).splits.front();
  options.to = 0.1;
  roll(options);
  fs::rename(file(), folder_.path() / "run/rollouts/first.h5");
  options.to = 0.2;
  options.from = folder_.file("run/rollouts/first.h5");
  roll(options);
  const RolloutSplit second = RolloutFile::open(file()).splits.front();
  ASSERT_EQ(second.time.size(), 11u);
  EXPECT_EQ(second.true_resolved[0], whole.true_resolved[10 * 6]);
  EXPECT_EQ(second.resolved.back(), whole.resolved.back());
}

TEST_F(RolloutsAndData, SayWhatTheTrainingDataCoverAndTheErrorOnValidationData) {
  RolloutOptions options;
  options.validation = 2;
  roll(options);
  const RolloutFile read = RolloutFile::open(file());
  ASSERT_TRUE(read.training_range && read.validation);
  const DataSplit train = DataFile::open(data()).split("train");
  std::vector<double> values(3 * 11 * 6);
  for (std::size_t i = 0; i < 3; ++i) train.read_resolved(i, 0, 11, values.data() + i * 11 * 6);
  double low = values[2], high = values[2];
  for (std::size_t k = 2; k < values.size(); k += 6)
    low = std::min(low, values[k]), high = std::max(high, values[k]);
  EXPECT_EQ(read.training_range->low[2], low);
  EXPECT_EQ(read.training_range->high[2], high);

  // The same rollouts as a split of their own.
  EXPECT_NEAR(read.validation->horizon, 0.1, 1e-12);
  options.splits = {"validation"};
  options.most = 2;
  roll(options);
  const SplitMetrics alone = evaluate({RolloutFile::open(file())}).models.front().splits.at("validation");
  double mean = 0;
  for (const MeanStd& error : alone.intervals.front().resolved) mean += error.mean / 6;
  EXPECT_NEAR(read.validation->error, mean, 1e-12 * mean);
}

TEST_F(RolloutsAndData, AreReadOneTrajectoryAtATime) {
  roll();
  const RolloutSplit whole = RolloutFile::open(file()).splits.front();
  RolloutData truths;
  const RolloutSplit one = RolloutReader(file()).read("test", truths, 3, 1);
  ASSERT_EQ(one.trajectories(), 1u);
  const auto third = [](const std::vector<double>& all) {
    return std::vector<double>(all.begin() + 3 * 21 * 6, all.begin() + 4 * 21 * 6);
  };
  EXPECT_EQ(one.resolved, third(whole.resolved));
  EXPECT_EQ(one.true_resolved, third(whole.true_resolved));
  EXPECT_EQ(one.true_closure, third(whole.true_closure));
}

TEST_F(RolloutsAndData, AreTheSameInMemory) {
  roll();
  RolloutOptions options;
  options.quiet = true;
  const DataFile source = DataFile::open(data());
  expect_same(rollout_in_memory(*make_markov(), source, options).splits.front(),
              RolloutFile::open(file()).splits.front());
}

}  // namespace
}  // namespace mac
