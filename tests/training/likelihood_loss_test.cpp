// The likelihood of closures under predicted means and deviations with red noise.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <numbers>

#include "training/loss_gradient.hpp"
#include "training/problem.hpp"

namespace mac::test {
namespace {

Problem problem_of(LayerKind kind) {
  Problem problem = random_problem("lorenz96", kind, {6, 6}, true);
  problem.shape.d_in += problem.shape.d_out;
  problem.shape.deviations = true;
  RandomStream random(3, Purpose::noise, 2);
  problem.parameters = initial_parameters(problem.shape, 4);
  for (double& parameter : problem.parameters) parameter += 0.1 * random.normal();
  return problem;
}

LossContext context_of(const Problem& problem, double time, std::size_t history, int threads = 1) {
  LossContext context{*problem.system, problem.normalisation, {}, 0.05, threads, history};
  context.noise = {.channels = problem.shape.d_out, .time = time};
  return context;
}

StagePlan likelihood() {
  StagePlan stage;
  stage.loss = LossKind::likelihood;
  return stage;
}

TEST(LikelihoodLoss, HasTheGradientOfItsDifferenceQuotients) {
  for (const LayerKind kind : layer_kinds)
    for (const double time : {0.0, 0.1})
      for (const std::size_t history : {0u, 2u}) {
        SCOPED_TRACE(fmt::format("{} noise time {} history {}", to_string(kind), time, history));
        Problem problem = problem_of(kind);
        problem.batch.closure[17] = std::nan("");  // masked
        // The loss is of order ten, and so is its rounding.
        expect_gradient(problem.shape, context_of(problem, time, history), likelihood(), problem.parameters,
                        problem.batch, {2, 1e-5, 1e-8, 1e-6});
      }
}

TEST(LikelihoodLoss, IsTheDensityOfANormalDistributionWithTheCovarianceOfRedNoise) {
  Problem problem = problem_of(LayerKind::gru);
  problem.batch.noise.clear();
  const double time = 0.1;
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context = context_of(problem, time, 0);
  const double loss = make_loss<double>(likelihood(), context, *engine)
                          ->evaluate(problem.parameters.data(), problem.batch, nullptr);

  // Mean and deviation from the network without noise and with noise of one.
  const std::size_t d = problem.system->resolved_size(), c = problem.system->closure_size(), n = 6;
  const Normalisers normalisers(problem.normalisation);
  const auto outputs = [&](double noise) {
    std::vector<double> x, y(3 * n * c);
    for (std::size_t row = 0; row < 3 * n; ++row) {
      for (std::size_t v = 0; v < d; ++v)
        x.push_back(normalisers.input.to_network(v, problem.batch.resolved[row * d + v]));
      x.insert(x.end(), c, noise);
    }
    engine->forward(problem.parameters.data(), {3, n}, x.data(), y.data());
    return y;
  };
  const std::vector<double> mean = outputs(0), above = outputs(1);
  double expected = 0;
  for (std::size_t b = 0; b < 3; ++b)
    for (std::size_t j = 0; j < c; ++j) {
      Eigen::MatrixXd covariance(n, n);
      Eigen::VectorXd off(n);
      const auto deviation = [&](Eigen::Index t) {
        const std::size_t at = (b * n + static_cast<std::size_t>(t)) * c + j;
        return above[at] - mean[at];
      };
      for (Eigen::Index t = 0; t < 6; ++t) {
        const std::size_t at = (b * n + static_cast<std::size_t>(t)) * c + j;
        off[t] = normalisers.output.to_network(j, problem.batch.closure[at]) - mean[at];
        for (Eigen::Index s = 0; s < 6; ++s)
          covariance(t, s) = deviation(t) * deviation(s) * std::exp(-0.05 * std::abs(double(t - s)) / time);
      }
      const Eigen::LLT<Eigen::MatrixXd> root(covariance);
      expected += 0.5 * off.dot(root.solve(off)) + std::log(root.matrixL().determinant()) +
                  0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
    }
  EXPECT_NEAR(loss, expected / static_cast<double>(3 * n * c), 1e-11);  // of a few hundred terms of order one
}

TEST(LikelihoodLoss, IsTheSameForAnyNumberOfThreads) {
  const Problem problem = problem_of(LayerKind::mamba);
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  for (const int threads : {1, 2, 7}) {
    const auto engine = make_cpu_engine<float>(problem.shape, threads);
    const LossContext context = context_of(problem, 0.1, 0, threads);
    const std::vector<float> parameters(problem.parameters.begin(), problem.parameters.end());
    gradients.emplace_back(parameters.size());
    losses.push_back(make_loss<float>(likelihood(), context, *engine)
                         ->evaluate(parameters.data(), problem.batch, gradients.back().data()));
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
}

}  // namespace
}  // namespace mac::test
