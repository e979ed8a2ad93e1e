#include "training/validation.hpp"

#include <gtest/gtest.h>

#include <mac/error.hpp>

#include "coupling/coupled_columns.hpp"
#include "training/recorded_problem.hpp"
#include "training/systems.hpp"

namespace mac::test {
namespace {

TEST(CoupledColumns, StepEveryTrajectoryAsCoupledStepDoes) {
  RandomStream random(3, Purpose::noise, 1);
  for (const std::string& name : all_systems)
    for (const HeldClosure held :
         {HeldClosure{Hold::zero, Target::instant}, HeldClosure{Hold::linear, Target::instant},
          HeldClosure{Hold::linear, Target::mean}}) {
      const auto system = system_named(name);
      const std::size_t d = system->resolved_size(), c = system->closure_size(), count = 3;
      std::vector<double> together = normal_values(count * d, 0.4, random), alone = together;
      const std::vector<double> closure = normal_values(count * c, 0.4, random),
                                previous = normal_values(count * c, 0.4, random);
      CoupledColumns columns(*system, 0.01, held, count);
      columns.step(closure.data(), nullptr, together.data());
      columns.step(closure.data(), previous.data(), together.data());
      for (std::size_t i = 0; i < count; ++i) {
        coupled_step(*system, 0.01, held, closure.data() + i * c, nullptr, alone.data() + i * d);
        coupled_step(*system, 0.01, held, closure.data() + i * c, previous.data() + i * c,
                     alone.data() + i * d);
      }
      EXPECT_EQ(together, alone) << name;  // the same operations in the same order
    }
}

/// The recorded problem with dx/dt = rate x for its reduced equation.
struct RolloutCase {
  ScratchFolder folder;
  RecordedProblem problem;
  std::shared_ptr<const System> system;
  Normalisation scale{{0}, {1}, {0}, {1}};

  explicit RolloutCase(double rate) {
    problem.write(folder.file("data.h5"));
    system = with_reduced_rhs(problem.experiment("").system,
                              [rate](std::size_t count, const double* y, double* dydt) {
                                for (std::size_t i = 0; i < count; ++i) dydt[i] = rate * y[i];
                              });
  }
  double error(const RolloutValidation::Plan& plan) const {
    const RolloutValidation rollouts(DataFile::open(folder.file("data.h5")).split("validation"), plan);
    return rollouts.error_without_closure({*system, scale, {}, problem.dt});
  }
};

TEST(RolloutValidation, StartsFreeRunsAfterTheHistory) {
  const RolloutCase decay(-1);
  const double whole = decay.error({20, 4}), late = decay.error({20, 4, 15});
  EXPECT_GT(whole, 0.05);      // without its closure, from t = 0 to 2
  EXPECT_LT(late, whole / 2);  // from the true state at t = 1.5 on
}

TEST(RolloutValidation, KnowsWhatTheCouplingOfTheExactClosureCosts) {
  const RolloutCase decay(-1);
  const DataSplit validation = DataFile::open(decay.folder.file("data.h5")).split("validation");
  const auto error = [&](HeldClosure held, std::size_t history) {
    return RolloutValidation(validation, {20, 4, history})
        .error_of_exact_closure(validation, {*decay.system, decay.scale, held, decay.problem.dt});
  };
  // The same rollouts in NumPy: 3.3e-3 and 2.7e-4, where the closure relaxes within two steps.
  EXPECT_NEAR(error({Hold::linear, Target::instant}, 0), 3.277e-3, 1e-6);
  EXPECT_NEAR(error({Hold::linear, Target::mean}, 0), 2.678e-4, 1e-7);
  EXPECT_LT(error({Hold::linear, Target::instant}, 10), 1e-3)
      << "the true past is read, and the jump is over";
}

TEST(RolloutValidation, RefusesAHistoryThatLeavesNothing) {
  const RolloutCase decay(-1);
  EXPECT_GT(decay.error({20, 4, 19}), 0) << "one step";
  try {
    decay.error({20, 4, 20});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("split validation: the history takes 21 of its 21 times"),
              std::string::npos)
        << error.what();
  }
}

TEST(RolloutValidation, CountsRunsThatStrayFromTheDataAfterTheirEnd) {
  const RolloutCase decay(-1), growth(0.1);
  const double on_data = growth.error({20, 4, 0, 1e-9});
  EXPECT_NEAR(growth.error({20, 4, 0, 30}), on_data + 1, 1e-12);  // e^6 times its start: every one of them
  EXPECT_LT(decay.error({20, 4, 0, 30}), 1);                      // none
}

TEST(ValidationPieces, CoverAShortTrajectoryEvenly) {
  const auto pieces = spread_pieces(1, 1001, 50);
  ASSERT_EQ(pieces.size(), 50u);
  for (std::size_t k = 0; k < 50; ++k) EXPECT_EQ(pieces[k].first, k * 1001 / 50);
}

TEST(ValidationPieces, AreOnePerTrajectoryWhereThereAreEnough) {
  const auto pieces = spread_pieces(64, 1, 50);
  ASSERT_EQ(pieces.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(pieces[i].trajectory, i);
    EXPECT_EQ(pieces[i].first, 0u);
  }
}

TEST(ValidationPieces, AreSharedByTrajectoriesAndNeverRepeatAStart) {
  const auto pieces = spread_pieces(3, 2, 50);
  ASSERT_EQ(pieces.size(), 6u);  // three trajectories with two places to start
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pieces[i].trajectory, i / 2);
    EXPECT_EQ(pieces[i].first, i % 2);
  }
}

TEST(ValidationPieces, AreAsManyAsAskedForWhereTheyDontDivideEvenly) {
  const auto pieces = spread_pieces(3, 100, 5);
  ASSERT_EQ(pieces.size(), 5u);
  EXPECT_EQ(pieces.front().trajectory, 0u);
  EXPECT_EQ(pieces.back().trajectory, 2u);
}

}  // namespace
}  // namespace mac::test
