// Lyapunov exponents that are known: of Lorenz '63, of linear equations, of a memory that fades slowly.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/model.hpp>
#include <mac/rollout.hpp>
#include <numeric>

#include "support/files.hpp"

namespace mac {
namespace {

using test::ScratchFolder;

/// Resolved x and y, z, ...; the hidden w is dropped from the reduced equations.
std::string study(const std::string& resolved, const std::string& equations, const std::string& initial,
                  const std::string& data, std::size_t runs, std::size_t warmup = 1000) {
  return "[system]\nkind = 'equations'\nname = 'small'\nresolved = " + resolved +
         "\nhidden = ['w']\nreduced = { w = 'drop' }\nequations = '''\n" + equations + "'''\ninitial = { " +
         initial + " }\nwarmup_steps = " + std::to_string(warmup) + "\n" + data +
         "[data.statistics]\ntrajectories = " + std::to_string(runs) + "\n";
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Lyapunov : public ::testing::Test {
 protected:
  RolloutSplit roll(const std::string& experiment, const ClosureModel& model, RolloutOptions options = {}) {
    generate(Experiment::parse(experiment, "study.toml"), folder_.file("data.h5"), {1, true});
    return roll_again(model, options, "out.h5");
  }
  RolloutSplit roll_again(const ClosureModel& model, RolloutOptions options, const std::string& file) {
    options.quiet = true;
    rollout(model, DataFile::open(folder_.file("data.h5")), folder_.file(file), options);
    return RolloutFile::open(folder_.file(file)).splits.at(0);
  }
  ScratchFolder folder_;
};

TEST_F(Lyapunov, OfLorenz63IsThatOfTheLiterature) {
  const RolloutSplit split =
      roll(study("['x', 'y', 'z']", "dx = 10*(y - x) + w\ndy = x*(28 - z) - y\ndz = x*y - 8/3*z\ndw = -w\n",
                 "x = 'uniform(-5, 5)', y = 'uniform(-5, 5)', z = 25, w = 0",
                 "[data]\ndt = 0.01\nstride = 1\n", 5) +
               "horizon = 200.0\n",
           *make_markov());
  ASSERT_EQ(split.lyapunov.size(), 5u);
  ASSERT_EQ(split.true_lyapunov.size(), 5u);
  // .9056 (Sprott 2003). Over 150 units of time a run's value has a standard deviation of about .025: four standard
  // errors of five runs.
  EXPECT_NEAR(mean(split.lyapunov), 0.906, 0.045);
  EXPECT_NEAR(mean(split.true_lyapunov), 0.906, 0.045);
}

TEST_F(Lyapunov, OfLinearEquationsIsTheLargestRealPartOfAnEigenvalue) {
  const RolloutSplit split = roll(study("['x', 'y']", "dx = -0.1*x + y + w\ndy = -x - 0.1*y\ndw = 0.05*w\n",
                                        "x = 'uniform(-1, 1)', y = 'uniform(-1, 1)', w = 'uniform(1, 2)'",
                                        "[data]\ndt = 0.01\nstride = 2\n", 2) +
                                      "horizon = 80.0\n",
                                  *make_markov());
  // |delta| turns with x and y, and does not grow otherwise; RK4 is off by dt^4.
  for (const double rate : split.lyapunov) EXPECT_NEAR(rate, -0.1, 1e-6);
  // What the other two directions have left of delta after a fifth of the time, e^(-.15 16), is told in e^(-.15 T).
  for (const double rate : split.true_lyapunov) EXPECT_NEAR(rate, 0.05, 2e-3);
}

/// m_{n+1} = fading m_n + y_n, which changes no closure.
class FadingMemory final : public ClosureModel {
 public:
  explicit FadingMemory(double fading) : fading_(fading) {}
  std::string name() const override { return "fading"; }
  HeldClosure held() const override { return {Hold::linear, Target::instant}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    struct Group final : ClosureGroup {
      void predict(std::size_t, const double* y, double* closure) override {
        for (std::size_t i = 0; i < m.size(); ++i) m[i] = fading * m[i] + y[i * d], closure[i] = 0;
      }
      std::optional<std::size_t> memory_size() const override { return 1; }
      void save_memory(double* memory) const override { std::copy(m.begin(), m.end(), memory); }
      void restore_memory(const double* memory) override { std::copy_n(memory, m.size(), m.begin()); }
      double fading = 0;
      std::size_t d = 0;
      std::vector<double> m;
    };
    auto group = std::make_unique<Group>();
    group->fading = fading_, group->d = split.resolved_size(), group->m.resize(count);
    return group;
  }

 private:
  double fading_;
};

TEST_F(Lyapunov, IsThatOfTheMemoryWhereThisFadesMoreSlowlyThanTheStates) {
  const std::string equations =
      study("['x', 'y']", "dx = -2*x + w\ndy = x - 3*y\ndw = -w\n",
            "x = 'uniform(-1, 1)', y = 'uniform(-1, 1)', w = 1", "[data]\ndt = 0.01\nstride = 2\n", 2, 0);
  const RolloutSplit slow = roll(equations + "horizon = 20.0\n", FadingMemory(0.99));
  // ln .99 / .02. What the states have left after a quarter of the time, e^(-1.5 5), is told in e^(-1.5 T).
  for (const double rate : slow.lyapunov) EXPECT_NEAR(rate, std::log(0.99) / 0.02, 1e-3);
  const RolloutSplit fast = roll(equations + "horizon = 20.0\n", FadingMemory(0.5));
  for (const double rate : fast.lyapunov) EXPECT_NEAR(rate, -2, 1e-3);
}

class NetworkLyapunov : public Lyapunov {
 protected:
  NetworkLyapunov() {
    generate(Experiment::parse(
                 "[system]\nname = 'lorenz96'\nN = 8\nJ = 4\nwarmup_steps = 100\n[data]\ndt = 0.005\n"
                 "stride = 2\n[data.statistics]\ntrajectories = 6\nhorizon = 0.5\n",
                 "study.toml"),
             folder_.file("data.h5"), {1, true});
    model_.shape = {LayerKind::mamba, 8 + 2, 8, 8, 1, 4};
    model_.noise = {.channels = 2, .time = 0.1};
    model_.parameters = initial_parameters(model_.shape, 1);
    model_.normalisation = {std::vector<double>(8, 2.0), std::vector<double>(8, 4.0),
                            std::vector<double>(8, -1.0), std::vector<double>(8, 2.0)};
    model_.closure_step = 0.01;
  }
  std::unique_ptr<ClosureModel> closure(Precision precision) const {
    return make_network_closure(model_, "mac", {Hold::linear, Target::mean}, precision);
  }
  Model model_;
};

TEST_F(NetworkLyapunov, IsTheSameBytesForAnyNumberOfThreads) {
  roll_again(*closure(Precision::float32), {{}, 1}, "one.h5");
  roll_again(*closure(Precision::float32), {{}, 7}, "seven.h5");
  EXPECT_EQ(test::read_bytes(folder_.file("one.h5")), test::read_bytes(folder_.file("seven.h5")));
}

TEST_F(NetworkLyapunov, OfANetworkInFloat32IsWorkedOutInFloat64) {
  const RolloutSplit single = roll_again(*closure(Precision::float32), {}, "single.h5"),
                     full = roll_again(*closure(Precision::float64), {}, "double.h5");
  EXPECT_EQ(single.lyapunov.size(), 5u);
  EXPECT_NE(single.resolved, full.resolved);
  EXPECT_EQ(single.lyapunov, full.lyapunov);
}

TEST_F(NetworkLyapunov, IsOfAsManyRunsAsAreAskedFor) {
  RolloutOptions options;
  options.lyapunov = 2;
  EXPECT_EQ(roll_again(*closure(Precision::float32), options, "two.h5").lyapunov.size(), 2u);
  options.lyapunov = 0;
  const RolloutSplit none = roll_again(*closure(Precision::float32), options, "none.h5");
  EXPECT_TRUE(none.lyapunov.empty());
  EXPECT_TRUE(none.true_lyapunov.empty());
}

}  // namespace
}  // namespace mac
