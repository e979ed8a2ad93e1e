// Losses of networks that read noise: gradients against difference quotients, noise that is a function of the batch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mac/noise.hpp>

#include "data/proper_scores.hpp"
#include "training/loss_gradient.hpp"
#include "training/problem.hpp"

namespace mac::test {
namespace {

constexpr NoiseInputs red{.channels = 3, .time = 0.1};

Problem noisy_problem(const std::string& system, LayerKind kind, SampleShape sample) {
  Problem problem = random_problem(system, kind, sample, true);
  problem.shape.d_in += red.channels;
  RandomStream random(3, Purpose::noise, 2);
  problem.parameters = initial_parameters(problem.shape, 4);
  for (double& parameter : problem.parameters) parameter += 0.1 * random.normal();
  problem.batch.seed = 5;
  problem.batch.step = 8;
  return problem;
}

StagePlan scored(LossKind kind, RolloutForm form, std::size_t members) {
  StagePlan stage;
  stage.loss = kind;
  stage.rollout_steps = 3;
  stage.rollout_form = form;
  stage.members = members;
  return stage;
}

LossContext context_of(const Problem& problem, HeldClosure held, std::size_t history, int threads = 1) {
  LossContext context{*problem.system, problem.normalisation, held, 0.05, threads, history};
  context.noise = red;
  context.noise.channels = problem.shape.d_in - problem.system->resolved_size();
  return context;
}

void expect_gradient(const Problem& problem, const StagePlan& stage, HeldClosure held, std::size_t history) {
  test::expect_gradient(problem.shape, context_of(problem, held, history), stage, problem.parameters,
                        problem.batch, kinked);
}

TEST(ScoreLoss, HasTheGradientOfItsDifferenceQuotients) {
  for (const std::string system : {"burgers", "lorenz96"})
    for (const LossKind kind : {LossKind::crps, LossKind::energy})
      for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
        for (const Hold hold : {Hold::zero, Hold::linear})
          for (const std::size_t history : {0u, 2u}) {
            SCOPED_TRACE(fmt::format("{} {} form {} {} history {}", system, static_cast<int>(kind),
                                     static_cast<int>(form), to_string(hold), history));
            expect_gradient(noisy_problem(system, LayerKind::mamba, {7, 0}), scored(kind, form, 3),
                            {hold, Target::mean}, history);
          }
}

TEST(ScoreLoss, HasTheGradientOfEveryKindOfNetwork) {
  for (const LayerKind kind : layer_kinds) {
    SCOPED_TRACE(to_string(kind));
    expect_gradient(noisy_problem("lorenz96", kind, {6, 0}),
                    scored(LossKind::crps, RolloutForm::autoregressive, 2), {Hold::linear}, 1);
  }
}

TEST(ScoreLoss, HasTheGradientOfANetworkWithDeviations) {
  Problem problem = noisy_problem("lorenz96", LayerKind::mamba, {6, 0});
  problem.shape.deviations = true;
  problem.shape.d_in = problem.system->resolved_size() + problem.shape.d_out;
  problem.parameters = initial_parameters(problem.shape, 4);
  expect_gradient(problem, scored(LossKind::crps, RolloutForm::autoregressive, 3), {Hold::linear}, 1);
}

TEST(ScoreLoss, HasTheGradientOfItsLeadWeights) {
  StagePlan stage = scored(LossKind::crps, RolloutForm::autoregressive, 3);
  stage.lead_weights = LeadWeights::inverse;
  expect_gradient(noisy_problem("lorenz96", LayerKind::mlp, {7, 0}), stage, {Hold::zero}, 0);
}

TEST(ScoreLoss, CountsAStepByTheInverseOfItsNumber) {
  Problem two = noisy_problem("lorenz96", LayerKind::mlp, {3, 0});
  two.batch.noise.clear();
  Problem one = two;  // the same starts, of which only the first step has data
  const std::size_t d = two.system->resolved_size();
  one.batch.shape = {2, 0};
  for (std::size_t b = one.batch.count; b-- > 0;)
    one.batch.resolved.erase(one.batch.resolved.begin() + static_cast<std::ptrdiff_t>((3 * b + 2) * d),
                             one.batch.resolved.begin() + static_cast<std::ptrdiff_t>((3 * b + 3) * d));
  const auto score = [](const Problem& problem, std::size_t steps, LeadWeights weights) {
    StagePlan stage = scored(LossKind::crps, RolloutForm::autoregressive, 4);
    stage.rollout_steps = steps;
    stage.lead_weights = weights;
    const auto engine = make_reference_engine<double>(problem.shape);
    return make_loss<double>(stage, context_of(problem, {Hold::zero}, 0), *engine)
        ->evaluate(problem.parameters.data(), problem.batch, nullptr);
  };
  const double first = score(one, 1, LeadWeights::equal),
               second = 2 * score(two, 2, LeadWeights::equal) - first;
  ASSERT_GT(std::abs(second - first), 1e-3);
  EXPECT_NEAR(score(two, 2, LeadWeights::inverse), (2 * first + second) / 3, 1e-13);  // rounding
}

TEST(ScoreLoss, IsTheScoreOfItsMembers) {
  // One step from the only start: z of each member by hand.
  Problem problem = noisy_problem("lorenz96", LayerKind::mlp, {2, 0});
  problem.batch.noise.clear();
  StagePlan stage = scored(LossKind::crps, RolloutForm::autoregressive, 4);
  stage.rollout_steps = 1;
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context = context_of(problem, {Hold::zero}, 0);
  const double loss =
      make_loss<double>(stage, context, *engine)->evaluate(problem.parameters.data(), problem.batch, nullptr);

  const System& system = *problem.system;
  const std::size_t d = system.resolved_size(), c = system.closure_size();
  const Normalisers normalisers(problem.normalisation);
  double expected = 0;
  for (std::size_t b = 0; b < problem.batch.count; ++b) {
    std::vector<double> z(4 * d);
    for (std::size_t m = 0; m < 4; ++m) {
      std::vector<double> x(problem.shape.d_in), y(c);
      const double* const start = problem.batch.resolved.data() + b * 2 * d;
      for (std::size_t v = 0; v < d; ++v) x[v] = normalisers.input.to_network(v, start[v]);
      draw_noise({problem.batch.seed, sample_stream(problem.batch.step, problem.batch.count, b),
                  static_cast<std::uint32_t>(m), Purpose::training_noise},
                 0, std::span(x).subspan(d));
      engine->forward(problem.parameters.data(), {1, 1}, x.data(), y.data());
      for (std::size_t j = 0; j < c; ++j) y[j] = normalisers.output.to_physical(j, y[j]);
      std::copy_n(start, d, z.data() + m * d);
      coupled_step(system, context.dt, context.held, y.data(), nullptr, z.data() + m * d);
    }
    for (std::size_t v = 0; v < d; ++v) {
      std::vector<double> members;
      for (std::size_t m = 0; m < 4; ++m) members.push_back(z[m * d + v] * normalisers.input.factor(v));
      expected += crps(members, problem.batch.resolved[(b * 2 + 1) * d + v] * normalisers.input.factor(v),
                       almost_fair) /
                  static_cast<double>(problem.batch.count * d);
    }
  }
  EXPECT_NEAR(loss, expected, 1e-13);
}

TEST(ScoreLoss, DoesNotDependOnTheNumberOfThreads) {
  const Problem problem = noisy_problem("lorenz96", LayerKind::gru, {9, 0});
  const StagePlan stage = scored(LossKind::energy, RolloutForm::autoregressive, 4);
  std::vector<double> first;
  for (const int threads : {1, 2, 7}) {
    const auto engine = make_cpu_engine<double>(problem.shape, threads);
    const LossContext context = context_of(problem, {Hold::linear}, 2, threads);
    std::vector<double> gradient(problem.parameters.size());
    gradient.push_back(make_loss<double>(stage, context, *engine)
                           ->evaluate(problem.parameters.data(), problem.batch, gradient.data()));
    if (threads == 1) first = gradient;
    EXPECT_EQ(gradient, first) << threads << " threads";
  }
}

TEST(ScoreLoss, DrawsOtherNoiseAtAnotherStepAndSeed) {
  Problem problem = noisy_problem("lorenz96", LayerKind::mlp, {5, 0});
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context = context_of(problem, {}, 0);
  const auto loss =
      make_loss<double>(scored(LossKind::crps, RolloutForm::autoregressive, 2), context, *engine);
  const auto value = [&] { return loss->evaluate(problem.parameters.data(), problem.batch, nullptr); };
  const double here = value();
  EXPECT_EQ(value(), here);
  ++problem.batch.step;
  EXPECT_NE(value(), here);
  --problem.batch.step, ++problem.batch.seed;
  EXPECT_NE(value(), here);
}

}  // namespace
}  // namespace mac::test
