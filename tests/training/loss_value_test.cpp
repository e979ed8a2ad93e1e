// The losses against their formulas (losses.hpp), written out without a thought for speed: every prediction
// runs the network again over all that it has read.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/coupling.hpp>

#include "training/problem.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;

class Formula {
 public:
  Formula(const Problem& problem, const StagePlan& stage, HeldClosure held)
      : p_(problem),
        stage_(stage),
        held_(held),
        engine_(make_reference_engine<double>(problem.shape)),
        d_(problem.system->resolved_size()),
        c_(problem.system->closure_size()) {}

  static constexpr double dt = 0.05;

  double closure_loss() const {
    const auto targets = p_.system->closure_targets();
    const Numbers weights = effect_weights();
    const std::size_t times = p_.batch.shape.closures;
    double sum = 0;
    for (std::size_t b = 0; b < p_.batch.count; ++b)
      for (std::size_t j = 0; j < c_; ++j) {
        double squares = 0;
        for (std::size_t t = 0; t < times; ++t) {
          const double target =
              (p_.batch.closure[(b * times + t) * c_ + j] - scale().output_mean[j]) / scale().output_scale[j];
          squares += std::pow(predict(read(b, t))[j] - target, 2) / static_cast<double>(times);
        }
        sum += stage_.loss_weights == LossWeights::relative ? relative(squares, b, targets[j])
                                                            : weights[j] * squares;
      }
    return sum / static_cast<double>(p_.batch.count * c_);
  }

  double rollout_loss() const {
    const std::size_t steps = stage_.rollout_steps, starts = p_.batch.shape.states - steps;
    double sum = 0;
    for (std::size_t b = 0; b < p_.batch.count; ++b) {
      std::vector<std::vector<Numbers>> z(steps + 1), closure(steps);  // [s][t]
      for (std::size_t t = 0; t < starts; ++t) z[0].push_back(state(b, t));
      for (std::size_t s = 0; s < steps; ++s)
        for (std::size_t t = 0; t < starts; ++t) {
          Numbers now = predict(sequence(b, z, s, t));
          for (std::size_t j = 0; j < c_; ++j)
            now[j] = now[j] * scale().output_scale[j] + scale().output_mean[j];
          closure[s].push_back(now);
          const Numbers* before = s > 0 ? &closure[s - 1][t] : t > 0 ? &closure[0][t - 1] : nullptr;
          Numbers next = z[s][t];
          coupled_step(*p_.system, dt, held_, now.data(), before ? before->data() : nullptr, next.data());
          z[s + 1].push_back(next);
        }
      for (std::size_t v = 0; v < d_; ++v) {
        double squares = 0;
        for (std::size_t s = 1; s <= steps; ++s)
          for (std::size_t t = 0; t < starts; ++t)
            squares += std::pow((z[s][t][v] - state(b, t + s)[v]) / scale().input_scale[v], 2);
        squares /= static_cast<double>(steps * starts);
        sum += stage_.loss_weights == LossWeights::relative ? relative(squares, b, v) : squares;
      }
    }
    return sum / static_cast<double>(p_.batch.count * d_);
  }

 private:
  const Normalisation& scale() const { return p_.normalisation; }

  Numbers state(std::size_t b, std::size_t t) const {
    const double* const first = p_.batch.resolved.data() + (b * p_.batch.shape.states + t) * d_;
    return {first, first + d_};
  }
  Numbers normal(const Numbers& y) const {
    Numbers x(d_);
    for (std::size_t v = 0; v < d_; ++v) x[v] = (y[v] - scale().input_mean[v]) / scale().input_scale[v];
    return x;
  }
  /// The data up to time t as the network reads them.
  std::vector<Numbers> read(std::size_t b, std::size_t t) const {
    std::vector<Numbers> x;
    for (std::size_t r = 0; r <= t; ++r) {
      x.push_back(normal(state(b, r)));
      for (std::size_t v = 0; v < d_ && !p_.batch.noise.empty(); ++v)
        x[r][v] += p_.batch.noise[(b * p_.batch.shape.states + r) * d_ + v];
    }
    return x;
  }
  /// What the network has read when it predicts step s of chain t.
  std::vector<Numbers> sequence(std::size_t b, const std::vector<std::vector<Numbers>>& z, std::size_t s,
                                std::size_t t) const {
    std::vector<Numbers> x;
    if (s == 0 || stage_.rollout_form == RolloutForm::autoregressive) x = read(b, t);
    if (stage_.rollout_form == RolloutForm::autoregressive)
      for (std::size_t q = 1; q <= s; ++q) x.push_back(normal(z[q][t]));
    else if (s > 0)
      for (std::size_t r = 0; r <= t; ++r) x.push_back(normal(z[s][r]));
    return x;
  }
  /// The network's last output.
  Numbers predict(const std::vector<Numbers>& sequence) const {
    Numbers x, y(sequence.size() * c_);
    for (const Numbers& row : sequence) x.insert(x.end(), row.begin(), row.end());
    engine_->forward(p_.parameters.data(), {1, sequence.size()}, x.data(), y.data(), nullptr, nullptr);
    return {y.end() - static_cast<std::ptrdiff_t>(c_), y.end()};
  }

  Numbers effect_weights() const {
    Numbers weights(c_, 1.0);
    if (stage_.loss_weights != LossWeights::effect) return weights;
    double sum = 0;
    for (std::size_t j = 0; j < c_; ++j) {
      weights[j] =
          std::pow(scale().output_scale[j] / scale().input_scale[p_.system->closure_targets()[j]], 2);
      sum += weights[j];
    }
    for (double& weight : weights) weight *= static_cast<double>(c_) / sum;
    return weights;
  }

  /// Whether a symmetry of the system mixes two variables.
  bool mixed(std::size_t v, std::size_t w) const {
    if (const std::size_t modes = p_.system->fourier_modes()) return v % modes == w % modes;
    return v == w || p_.system->name() == "lorenz96";
  }
  double relative(double mean_square, std::size_t b, std::size_t v) const {
    double squares = 0, count = 0;
    for (std::size_t t = 0; t < p_.batch.shape.states; ++t)
      for (std::size_t w = 0; w < d_; ++w)
        if (mixed(v, w)) squares += std::pow(state(b, t)[w] / scale().input_scale[w], 2), count += 1;
    return std::sqrt(mean_square + std::pow(smallest_error, 2)) /
           std::sqrt(squares / count + std::pow(smallest_size, 2));
  }

  const Problem& p_;
  const StagePlan& stage_;
  HeldClosure held_;
  std::unique_ptr<SequenceEngine<double>> engine_;
  std::size_t d_, c_;
};

double evaluate(const Problem& problem, const StagePlan& stage, HeldClosure held) {
  const auto engine = make_reference_engine<double>(problem.shape);
  const LossContext context{*problem.system, problem.normalisation, held, Formula::dt, 1};
  return make_loss<double>(stage, context, *engine)
      ->evaluate(problem.parameters.data(), problem.batch, nullptr);
}

class LossValue : public testing::TestWithParam<std::string> {};

// Tolerances: the same sums in another order.

TEST_P(LossValue, OfTheClosureLossIsItsFormulaForEveryWeighting) {
  const Problem problem = random_problem(GetParam(), LayerKind::mamba, {5, 5}, true);
  for (const LossWeights weights : {LossWeights::none, LossWeights::effect, LossWeights::relative}) {
    StagePlan stage;
    stage.loss_weights = weights;
    const double expected = Formula(problem, stage, {}).closure_loss();
    EXPECT_NEAR(evaluate(problem, stage, {}), expected, 1e-12 * expected) << static_cast<int>(weights);
  }
}

TEST_P(LossValue, OfTheRolloutLossIsItsFormulaInBothFormsHoldsAndTargets) {
  const Problem problem = random_problem(GetParam(), LayerKind::gru, {6, 0}, true);
  for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
    for (const Hold hold : {Hold::zero, Hold::linear})
      for (const Target target : {Target::instant, Target::mean})
        for (const LossWeights weights : {LossWeights::none, LossWeights::relative}) {
          StagePlan stage;
          stage.loss = LossKind::rollout;
          stage.rollout_steps = 3;
          stage.rollout_form = form;
          stage.loss_weights = weights;
          const double expected = Formula(problem, stage, {hold, target}).rollout_loss();
          EXPECT_NEAR(evaluate(problem, stage, {hold, target}), expected, 1e-12 * expected)
              << static_cast<int>(form) << " " << to_string(hold) << " " << to_string(target) << " "
              << static_cast<int>(weights);
        }
}

INSTANTIATE_TEST_SUITE_P(Systems, LossValue, testing::ValuesIn(all_systems),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mac::test
