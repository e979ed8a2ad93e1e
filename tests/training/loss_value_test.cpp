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

  /// With `about`, the same model with other weights, the loss near its paths as a rollout_gradient that is not "full" sees
  /// it: the paths are those of `about` but for what closures that differ add to them.
  double rollout_loss(const Formula* about = nullptr) const {
    const std::size_t steps = stage_.rollout_steps, starts = p_.batch.shape.states - steps;
    double sum = 0;
    for (std::size_t b = 0; b < p_.batch.count; ++b) {
      const Path base = about ? about->path(b, nullptr) : Path{};
      const States z = path(b, about ? &base : nullptr).z;
      for (std::size_t v = 0; v < d_; ++v) {
        double squares = 0;
        for (std::size_t s = 1; s <= steps; ++s)
          for (std::size_t t = 0; t < starts; ++t)
            if (known(b, t) && known(b, t + s))
              squares += std::pow((z[s][t][v] - state(b, t + s)[v]) / scale().input_scale[v], 2);
        squares /= static_cast<double>(steps * starts);
        sum += stage_.loss_weights == LossWeights::relative ? relative(squares, b, v) : squares;
      }
    }
    return sum / static_cast<double>(p_.batch.count * d_);
  }

 private:
  using States = std::vector<std::vector<Numbers>>;  // [s][t]
  struct Path {
    States z, closure;
  };

  Path path(std::size_t b, const Path* about) const {
    const std::size_t steps = stage_.rollout_steps, starts = p_.batch.shape.states - steps;
    const bool states_are_data = about && stage_.rollout_gradient == RolloutGradient::network;
    Path path{States(steps + 1), States(steps)};
    for (std::size_t t = 0; t < starts; ++t) path.z[0].push_back(state(b, t));
    for (std::size_t s = 0; s < steps; ++s)
      for (std::size_t t = 0; t < starts; ++t) {
        const States& passed = states_are_data ? about->z : path.z;
        Numbers now = predict(sequence(b, passed, s, t));
        for (std::size_t j = 0; j < c_; ++j)
          now[j] = now[j] * scale().output_scale[j] + scale().output_mean[j];
        path.closure[s].push_back(now);
        Numbers next = passed[s][t];
        if (about) {
          const Numbers mean = mean_closure(path, s, t), other = mean_closure(*about, s, t);
          for (std::size_t v = 0; v < d_; ++v) next[v] += about->z[s + 1][t][v] - about->z[s][t][v];
          for (std::size_t j = 0; j < c_; ++j)
            next[p_.system->closure_targets()[j]] += dt * (mean[j] - other[j]);
        } else {
          const Numbers* const before = previous(path, s, t);
          coupled_step(*p_.system, dt, held_, now.data(), before ? before->data() : nullptr, next.data());
        }
        path.z[s + 1].push_back(next);
      }
    return path;
  }
  static const Numbers* previous(const Path& path, std::size_t s, std::size_t t) {
    return s > 0 ? &path.closure[s - 1][t] : t > 0 ? &path.closure[0][t - 1] : nullptr;
  }
  /// Over the step: of a line through two closures at the start of their steps it is half a step further on.
  Numbers mean_closure(const Path& path, std::size_t s, std::size_t t) const {
    Numbers mean = path.closure[s][t];
    const Numbers* const before = previous(path, s, t);
    if (before && held_.hold == Hold::linear && held_.target == Target::instant)
      for (std::size_t j = 0; j < c_; ++j) mean[j] += (mean[j] - (*before)[j]) / 2;
    return mean;
  }
  bool known(std::size_t b, std::size_t t) const {
    return p_.batch.known.empty() || p_.batch.known[b * p_.batch.shape.states + t];
  }

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
  std::vector<Numbers> sequence(std::size_t b, const States& z, std::size_t s, std::size_t t) const {
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

TEST_P(LossValue, OfAMaskedRolloutLossLeavesOutWhatStartsOrEndsAtFilledStates) {
  Problem problem = random_problem(GetParam(), LayerKind::gru, {6, 0}, false);
  problem.batch.known.assign(problem.batch.count * 6, 1);
  for (const std::size_t filled : {2, 6, 7, 17}) problem.batch.known[filled] = 0;
  for (const LossWeights weights : {LossWeights::none, LossWeights::relative}) {
    StagePlan stage;
    stage.loss = LossKind::rollout;
    stage.rollout_steps = 3;
    stage.loss_weights = weights;
    const double expected = Formula(problem, stage, {}).rollout_loss();
    EXPECT_NEAR(evaluate(problem, stage, {}), expected, 1e-12 * expected);
  }
  StagePlan stage;
  stage.loss = LossKind::rollout;
  stage.rollout_steps = 3;
  const double before = evaluate(problem, stage, {});
  problem.batch.resolved[17 * problem.system->resolved_size()] += 1;  // filled in, and read by no chain
  EXPECT_EQ(evaluate(problem, stage, {}), before);
}

TEST_P(LossValue, GradientsPastTheReducedEquationsAreThoseOfTheirFormula) {
  const Problem problem = random_problem(GetParam(), LayerKind::gru, {6, 0}, true);
  RandomStream random(5, Purpose::noise, 1);
  const Numbers direction = normal_values(problem.parameters.size(), 0.3, random);
  for (const RolloutGradient kind : {RolloutGradient::identity, RolloutGradient::network})
    for (const RolloutForm form : {RolloutForm::sequence, RolloutForm::autoregressive})
      for (const HeldClosure held : {HeldClosure{Hold::zero}, {Hold::linear}, {Hold::linear, Target::mean}}) {
        StagePlan stage;
        stage.loss = LossKind::rollout;
        stage.rollout_steps = 3;
        stage.rollout_form = form;
        stage.rollout_gradient = kind;
        const Formula here(problem, stage, held);
        const auto engine = make_reference_engine<double>(problem.shape);
        const LossContext context{*problem.system, problem.normalisation, held, Formula::dt, 1};
        Numbers gradient(problem.parameters.size());
        const double value = make_loss<double>(stage, context, *engine)
                                 ->evaluate(problem.parameters.data(), problem.batch, gradient.data());
        EXPECT_NEAR(value, here.rollout_loss(), 1e-12 * value);  // the loss itself is the same
        const auto at = [&](double h) {
          Problem moved = problem;
          for (std::size_t i = 0; i < direction.size(); ++i) moved.parameters[i] += h * direction[i];
          return Formula(moved, stage, held).rollout_loss(&here);
        };
        const double h = 2e-4, quotient = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        double expected = 0;
        for (std::size_t i = 0; i < direction.size(); ++i) expected += gradient[i] * direction[i];
        // Rounding of a loss of order one over h, and h^4 times fifth derivatives.
        EXPECT_NEAR(expected, quotient, 1e-9 + 1e-7 * std::abs(quotient))
            << static_cast<int>(kind) << " " << static_cast<int>(form) << " " << to_string(held.hold) << " "
            << to_string(held.target);
      }
}

INSTANTIATE_TEST_SUITE_P(Systems, LossValue, testing::ValuesIn(all_systems),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mac::test
