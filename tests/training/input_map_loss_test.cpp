// Losses of networks that read other things than all resolved variables: their gradients through the coupled solver
// and the features, and what a lattice's symmetry makes of them.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "training/loss_gradient.hpp"
#include "training/problem.hpp"

namespace mac::test {
namespace {

const NetworkInputs stencil{{}, {}, {"X"}, {{-2, 1}}};
const NetworkInputs features{{"X[-1]*X[1]", "X[0]", "X[2] - X[-1]"}, {"F"}, {"X"}, {{-1, 2}}};
const NetworkInputs some{{"X2", "X1*X3", "X5 - X4"}, {"F"}, {}, {}};

struct LocalProblem {
  std::shared_ptr<const System> system;
  InputMap inputs;
  NetworkShape shape;
  Normalisation normalisation;
  std::vector<double> scale;
  Batch batch;
  std::vector<double> parameters;

  LossContext context(HeldClosure held, std::size_t history = 0, int threads = 1) const {
    return {*system, normalisation, held, 0.05, threads, history, inputs, scale};
  }
};

LocalProblem local_problem(const NetworkInputs& of, LayerKind kind, SampleShape sample, bool noisy) {
  const std::shared_ptr<const System> system =
      make_system(ConfigTable::parse("name = 'lorenz96'\nN = 5", "test.toml"));
  const InputMap inputs(of, *system, {"force", "F"});
  LocalProblem problem{
      system, inputs, {kind, inputs.features(), inputs.outputs(), 4, 1, has_states(kind) ? 3u : 0u}, {}, {},
      {},     {}};
  RandomStream random(11, Purpose::noise, 7);
  problem.parameters = initial_parameters(problem.shape, 4);
  for (double& parameter : problem.parameters) parameter += 0.1 * random.normal();
  const auto positive = [&](std::size_t n) {
    std::vector<double> values(n);
    for (double& value : values) value = random.uniform(0.5, 1.5);
    return values;
  };
  const std::size_t x = inputs.features(), u = inputs.outputs();
  problem.normalisation = {normal_values(x, 0.1, random), positive(x), normal_values(u, 0.1, random),
                           positive(u)};
  problem.scale = positive(5);
  problem.batch = {3, sample, normal_values(3 * sample.states * 5, 0.4, random),
                   normal_values(3 * sample.closures * 5, 0.4, random),
                   noisy ? normal_values(3 * sample.states * 5, 0.1, random) : std::vector<double>{}};
  problem.batch.given = normal_values(3 * sample.states * 2, 1, random);
  return problem;
}

void expect_gradient(const LocalProblem& problem, const StagePlan& stage, HeldClosure held,
                     std::size_t history = 0) {
  test::expect_gradient(problem.shape, problem.context(held, history), stage, problem.parameters,
                        problem.batch);
}

TEST(InputMapLoss, ItsGradientGoesThroughFeaturesSitesAndTheCoupledSolver) {
  for (const NetworkInputs& inputs : {stencil, features, some})
    for (const LossWeights weights : {LossWeights::none, LossWeights::effect, LossWeights::relative}) {
      SCOPED_TRACE(to_text(inputs));
      StagePlan stage;
      stage.loss_weights = weights;
      expect_gradient(local_problem(inputs, LayerKind::gru, {5, 5}, true), stage, {}, 1);
      if (weights == LossWeights::effect) continue;  // is one of the closure loss
      stage.loss = LossKind::rollout;
      stage.rollout_steps = 3;
      for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
        stage.rollout_form = form;
        expect_gradient(local_problem(inputs, LayerKind::mamba, {6, 0}, true), stage, {Hold::linear}, 1);
      }
    }
}

/// All losses with the stages that have them.
std::vector<StagePlan> stages() {
  StagePlan closure, relative, rollout, chains;
  relative.loss_weights = LossWeights::relative;
  rollout.loss = chains.loss = LossKind::rollout;
  rollout.rollout_steps = chains.rollout_steps = 3;
  chains.rollout_form = RolloutForm::autoregressive;
  return {closure, relative, rollout, chains};
}

double value(const LocalProblem& problem, const StagePlan& stage, int threads = 1) {
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context = problem.context({Hold::linear}, 0, threads);
  return make_loss<double>(stage, context, *engine)
      ->evaluate(problem.parameters.data(), problem.batch, nullptr);
}

TEST(InputMapLoss, AllVariablesOneByOneAreAllVariables) {
  for (const StagePlan& stage : stages()) {
    const bool closure = stage.loss == LossKind::closure;
    LocalProblem named = local_problem({{"X1", "X2", "X3", "X4", "X5"}, {}, {}, {}}, LayerKind::mamba,
                                       {6, closure ? 6u : 0u}, true);
    named.scale = named.normalisation.input_scale;
    LocalProblem plain = named;
    plain.inputs = InputMap(*plain.system);
    EXPECT_FALSE(named.inputs.is_plain());
    EXPECT_NEAR(value(named, stage), value(plain, stage), 1e-12);  // rounding
  }
}

TEST(InputMapLoss, ALocalNetworkDoesNotSeeWhereARingBegins) {
  for (const StagePlan& stage : stages()) {
    const bool closure = stage.loss == LossKind::closure;
    LocalProblem problem = local_problem(stencil, LayerKind::mamba, {6, closure ? 6u : 0u}, true);
    problem.scale.assign(5, 0.7);
    LocalProblem shifted = problem;
    const auto turn = [](const std::vector<double>& from, std::vector<double>& to) {
      for (std::size_t row = 0; row < from.size(); row += 5)
        for (std::size_t k = 0; k < 5; ++k) to[row + k] = from[row + (k + 2) % 5];
    };
    turn(problem.batch.resolved, shifted.batch.resolved);
    turn(problem.batch.closure, shifted.batch.closure);
    turn(problem.batch.noise, shifted.batch.noise);
    EXPECT_NEAR(value(problem, stage), value(shifted, stage), 1e-12);  // sums in another order
  }
}

// The law of input noise: the state is disturbed by so many of its variables' scales, and features are those of the
// disturbed state. So neighbours see the same value of a cell, and products are of disturbed factors.
TEST(InputMapLoss, NoiseDisturbsTheStateBeforeItIsRead) {
  for (const NetworkInputs& inputs : {stencil, features, some}) {
    const LocalProblem noisy = local_problem(inputs, LayerKind::gru, {5, 5}, true);
    LocalProblem disturbed = noisy, quiet = noisy;
    quiet.batch.noise.clear();
    disturbed.batch.noise.clear();
    for (std::size_t k = 0; k < noisy.batch.resolved.size(); ++k)
      disturbed.batch.resolved[k] += noisy.batch.noise[k] * noisy.scale[k % 5];
    EXPECT_EQ(value(noisy, StagePlan{}), value(disturbed, StagePlan{}));
    EXPECT_NE(value(noisy, StagePlan{}), value(quiet, StagePlan{}));
  }
}

TEST(InputMapLoss, NoiseIsThatOfTheStateForAnyNumberOfThreads) {
  const std::vector<double> values(40 * 30 * 5, 0.5);
  const TrainingData data(Target::instant, 40, values, values, 5, 5);
  const auto system = make_system(ConfigTable::parse("name = 'lorenz96'\nN = 5", "test.toml"));
  StagePlan stage;
  stage.batch = 64;
  stage.window = 30;  // 9600 numbers, enough for threads
  stage.noise = 0.3;
  stage.steps = 10;
  stage.noise_from = 0, stage.noise_to = 1;
  BatchStream one(data, *system, stage, 1, 0, 1, 5), three(data, *system, stage, 1, 0, 3, 5);
  const std::vector<double> noise = one.at(7).noise;
  EXPECT_EQ(noise.size(), 64u * 30 * 5);
  EXPECT_EQ(three.at(7).noise, noise);
  double squares = 0;
  for (const double number : noise) squares += number * number;
  // 9600 numbers say their deviation to .7 %.
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(noise.size())), 0.3, 0.01);
}

// Three steps from each of the times 0, 1 and 2 read what is given at 0 to 4.
TEST(InputMapLoss, ReadsWhatIsGivenAtTheTimeOfTheStep) {
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive}) {
    StagePlan stage;
    stage.loss = LossKind::rollout;
    stage.rollout_steps = 3;
    stage.rollout_form = form;
    const LocalProblem problem = local_problem(features, LayerKind::gru, {6, 0}, false);
    for (std::size_t t = 0; t < 6; ++t) {
      LocalProblem other = problem;
      for (std::size_t b = 0; b < 3; ++b) other.batch.given[(b * 6 + t) * 2 + 1] += 0.5;  // of F
      if (t < 5)
        EXPECT_NE(value(other, stage), value(problem, stage)) << t;
      else
        EXPECT_EQ(value(other, stage), value(problem, stage));
    }
  }
}

TEST(InputMapLoss, DrawnSitesAverageToAllOfThem) {
  LocalProblem problem = local_problem(stencil, LayerKind::gru, {5, 5}, false);
  StagePlan stage;
  const double all = value(problem, stage);
  double sum = 0;
  for (std::uint32_t site = 0; site < 5; ++site) {
    problem.batch.sites = {site, site, site};
    sum += value(problem, stage);
  }
  EXPECT_NEAR(sum / 5, all, 1e-12);
}

TEST(InputMapLoss, DrawnSitesAreDifferentOnesOfTheStep) {
  const std::vector<double> values(2 * 10 * 5, 0.5);
  const TrainingData data(Target::instant, 2, values, values, 5, 5);
  const auto system = make_system(ConfigTable::parse("name = 'lorenz96'\nN = 5", "test.toml"));
  StagePlan stage;
  stage.batch = 4;
  stage.sites = 3;
  stage.window = 6;
  stage.noise = 0;
  BatchStream first(data, *system, stage, 1, 0, 1, 5), second(data, *system, stage, 1, 0, 1, 5);
  const std::vector<std::uint32_t> drawn = first.at(7).sites;
  ASSERT_EQ(drawn.size(), 12u);
  for (std::size_t b = 0; b < 4; ++b)
    EXPECT_EQ(std::set<std::uint32_t>(drawn.begin() + static_cast<std::ptrdiff_t>(3 * b),
                                      drawn.begin() + static_cast<std::ptrdiff_t>(3 * b + 3))
                  .size(),
              3u);
  EXPECT_EQ(second.at(7).sites, drawn);
  EXPECT_NE(first.at(8).sites, drawn);
}

}  // namespace
}  // namespace mac::test
