// Gradients of the losses against difference quotients: all systems, both forms, both holds and targets.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/recorded.hpp>

#include "training/loss_gradient.hpp"
#include "training/problem.hpp"

namespace mac::test {
namespace {

void expect_gradient(const Problem& problem, const StagePlan& stage, HeldClosure held,
                     std::size_t history = 0, ReducedStep dt = 0.05) {
  test::expect_gradient(problem.shape, {*problem.system, problem.normalisation, held, dt, 1, history}, stage,
                        problem.parameters, problem.batch);
}

class LossGradient : public testing::TestWithParam<std::string> {};

TEST(LossGradientOfSubsteps, GoesThroughSubstepsAndEtdrk4) {
  StagePlan stage;
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 3;
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
    for (const ReducedStep dt : {ReducedStep{0.05, 3}, {0.05, 2, StepMethod::etdrk4}}) {
      stage.rollout_form = form;
      expect_gradient(random_problem("kdv", LayerKind::mamba, {8, 0}, true), stage, {Hold::linear}, 0, dt);
    }
}

TEST_P(LossGradient, OfTheRolloutLossInBothFormsHoldsAndTargets) {
  for (const LayerKind kind : layer_kinds)
    for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
      for (const Hold hold : {Hold::zero, Hold::linear})
        for (const Target target : {Target::instant, Target::mean}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", to_string(kind),
                                   form == RolloutForm::sequence ? "sequence" : "autoregressive",
                                   to_string(hold), to_string(target)));
          StagePlan stage;
          stage.loss = LossKind::rollout;
          stage.rollout_steps = 3;
          stage.rollout_form = form;
          expect_gradient(random_problem(GetParam(), kind, {8, 0}, true), stage, {hold, target});
        }
}

TEST_P(LossGradient, OfTheRelativeRolloutLoss) {
  StagePlan stage;
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 4;
  stage.rollout_form = RolloutForm::autoregressive;
  stage.loss_weights = LossWeights::relative;
  expect_gradient(random_problem(GetParam(), LayerKind::mamba, {5, 0}, true), stage, {Hold::linear});
}

TEST(RolloutLoss, OfSamplesWithEquationsOfTheirOwnIsTheMeanOfTheirLosses) {
  Problem problem = random_problem("burgers", LayerKind::mamba, {6, 0}, false);
  const auto thin = make_system(ConfigTable::parse("name = 'burgers'\nviscosity = 0.02", "test.toml"));
  const auto thick = make_system(ConfigTable::parse("name = 'burgers'\nviscosity = 0.5", "test.toml"));
  problem.batch.systems = {thin.get(), thick.get(), thin.get()};
  StagePlan stage;
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 3;
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
    stage.rollout_form = form;
    expect_gradient(problem, stage, {Hold::linear});
    const auto loss_of = [&](const System& system, const Batch& batch) {
      const auto engine = make_reference_engine<double>(problem.shape);
      const LossContext context{system, problem.normalisation, {Hold::linear}, 0.05};
      return make_loss<double>(stage, context, *engine)->evaluate(problem.parameters.data(), batch, nullptr);
    };
    double mean = 0;
    const std::size_t size = problem.batch.resolved.size() / 3;
    for (std::size_t b = 0; b < 3; ++b) {
      Batch alone = problem.batch;
      alone.count = 1;
      alone.systems.clear();
      alone.resolved.assign(problem.batch.resolved.begin() + static_cast<std::ptrdiff_t>(b * size),
                            problem.batch.resolved.begin() + static_cast<std::ptrdiff_t>((b + 1) * size));
      mean += loss_of(*problem.batch.systems[b], alone) / 3;
    }
    // The same sums in another order.
    EXPECT_NEAR(loss_of(*problem.system, problem.batch), mean, 1e-12 * mean);
  }
}

TEST_P(LossGradient, OfTheStepLoss) {
  StagePlan stage;
  stage.loss = LossKind::step;
  expect_gradient(random_problem(GetParam(), LayerKind::mamba, {6, 0}, false), stage, {Hold::linear});
}

TEST_P(LossGradient, OfTheClosureLossWithWeights) {
  StagePlan stage;
  for (const LossWeights weights : {LossWeights::none, LossWeights::effect, LossWeights::relative}) {
    stage.loss_weights = weights;
    expect_gradient(random_problem(GetParam(), LayerKind::mamba, {6, 6}, true), stage, {});
  }
}

TEST_P(LossGradient, OfLossesWhoseFirstTimesAreHistory) {
  StagePlan stage;
  expect_gradient(random_problem(GetParam(), LayerKind::mamba, {6, 6}, false), stage, {}, 2);
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 3;
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
    stage.rollout_form = form;
    expect_gradient(random_problem(GetParam(), LayerKind::gru, {8, 0}, false), stage, {Hold::linear}, 2);
  }
}

TEST_P(LossGradient, OfMaskedRollouts) {
  StagePlan stage;
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 3;
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
    for (const LossWeights weights : {LossWeights::none, LossWeights::relative}) {
      stage.rollout_form = form;
      stage.loss_weights = weights;
      Problem problem = random_problem(GetParam(), LayerKind::gru, {8, 0}, false);
      problem.batch.known.assign(problem.batch.count * 8, 1);
      for (const std::size_t filled : {1, 5, 9, 15}) problem.batch.known[filled] = 0;
      for (std::size_t t = 16; t < 24; ++t) problem.batch.known[t] = 0;  // nothing of the last window
      expect_gradient(std::move(problem), stage, {Hold::linear});
    }
}

TEST_P(LossGradient, PastTheReducedEquationsIsTheFullOneOfEquationsWithoutADerivative) {
  const Problem problem = random_problem(GetParam(), LayerKind::mamba, {8, 0}, false);
  const auto flat = with_reduced_rhs(
      problem.system,
      [system = problem.system](std::size_t count, const double* y, double* dydt) {
        system->reduced_rhs_columns(count, y, dydt);
      },
      [](std::size_t, const double*, const double*, double*) {});
  const auto engine = make_reference_engine<double>(problem.shape);
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
    const auto gradient = [&](const System& system, RolloutGradient kind) {
      const LossContext context{system, problem.normalisation, {Hold::linear}, 0.05};
      std::vector<double> result(problem.parameters.size());
      make_rollout_loss<double>(context, 3, form, LossWeights::none, *engine, kind)
          ->evaluate(problem.parameters.data(), problem.batch, result.data());
      return result;
    };
    const auto expected = gradient(*flat, RolloutGradient::full),
               found = gradient(*problem.system, RolloutGradient::identity);
    // The same sums in another order.
    for (std::size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], expected[k], 1e-12 + 1e-11 * std::abs(expected[k]));
  }
}

/// A system's equations as those of a function that is dear to call.
std::shared_ptr<const System> as_function(const std::shared_ptr<const System>& system) {
  return with_reduced_rhs(system, [system](std::size_t count, const double* y, double* dydt) {
    system->reduced_rhs_columns(count, y, dydt);
  });
}

TEST_P(LossGradient, OfRolloutsIsTheSameThroughAFunctionThatIsCalledForAllChainsAtOnce) {
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
    for (const std::size_t history : {0, 2}) {
      const Problem problem = random_problem(GetParam(), LayerKind::mamba, {8, 0}, false);
      const auto function = as_function(problem.system);
      const auto engine = make_reference_engine<double>(problem.shape);
      std::vector<std::vector<double>> gradients;
      std::vector<double> values;
      for (const System* system : {problem.system.get(), function.get()}) {
        const LossContext context{*system, problem.normalisation, {Hold::linear}, 0.05, 1, history};
        gradients.emplace_back(problem.parameters.size());
        values.push_back(make_rollout_loss<double>(context, 3, form, LossWeights::none, *engine)
                             ->evaluate(problem.parameters.data(), problem.batch, gradients.back().data()));
      }
      EXPECT_NEAR(values[0], values[1], 1e-12 * values[0]);
      // Central differences of a step of 6e-6: rounding of 1e-16 / 6e-6 of equations of order 1 to 100.
      for (std::size_t k = 0; k < gradients[0].size(); ++k)
        EXPECT_NEAR(gradients[0][k], gradients[1][k], 1e-7 + 1e-6 * std::abs(gradients[0][k]));
    }
}

TEST(ClosureLoss, DoesNotCountTheHistory) {
  Problem problem = random_problem("lorenz96", LayerKind::mamba, {6, 6}, false);
  const auto engine = make_reference_engine<double>(problem.shape);
  const std::size_t c = problem.system->closure_size();
  for (const LossWeights weights : {LossWeights::none, LossWeights::relative}) {
    const LossContext context{*problem.system, problem.normalisation, {}, 0.05, 1, 2};
    const auto loss = make_closure_loss<double>(context, weights, *engine);
    const auto value = [&] { return loss->evaluate(problem.parameters.data(), problem.batch, nullptr); };
    const double before = value();
    for (std::size_t k = 0; k < 2 * c; ++k) problem.batch.closure[k] += 1;  // the first two times
    EXPECT_EQ(value(), before);
    problem.batch.closure[2 * c] += 1;
    EXPECT_NE(value(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, LossGradient, testing::ValuesIn(all_systems),
                         [](const auto& info) { return info.param; });

TEST(RolloutLoss, FormsAgreeOnTheFirstStep) {
  const Problem problem = random_problem("lorenz96", LayerKind::mamba, {7, 0}, false);
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context{*problem.system, problem.normalisation, {Hold::linear}, 0.05, 1};
  const auto value = [&](RolloutForm form, std::size_t steps) {
    return make_rollout_loss<double>(context, steps, form, LossWeights::none, *engine)
        ->evaluate(problem.parameters.data(), problem.batch, nullptr);
  };
  // The same arithmetic in another order.
  EXPECT_NEAR(value(RolloutForm::sequence, 1), value(RolloutForm::autoregressive, 1), 1e-12);
  EXPECT_GT(std::abs(value(RolloutForm::sequence, 3) - value(RolloutForm::autoregressive, 3)), 1e-6);
}

TEST(RolloutLoss, DoesNotDependOnTheNumberOfThreads) {
  const Problem problem = random_problem("lorenz96", LayerKind::mamba, {120, 0}, true);
  const auto engine = make_reference_engine<float>(problem.shape);
  const std::vector<float> parameters(problem.parameters.begin(), problem.parameters.end());
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
    std::vector<std::vector<float>> gradients;
    for (const int threads : {1, 2, 3}) {
      const LossContext context{*problem.system, problem.normalisation, {Hold::linear}, 0.05, threads};
      gradients.emplace_back(parameters.size());
      make_rollout_loss<float>(context, 4, form, LossWeights::none, *engine)
          ->evaluate(parameters.data(), problem.batch, gradients.back().data());
    }
    EXPECT_EQ(gradients[0], gradients[1]);
    EXPECT_EQ(gradients[0], gradients[2]);
  }
}

}  // namespace
}  // namespace mac::test
