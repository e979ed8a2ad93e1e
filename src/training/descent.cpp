#include "training/descent.hpp"

#include <cmath>

#include "training/lbfgs.hpp"
#include "training/optimiser.hpp"

namespace mac {

namespace {

template <class T>
class HostDescent final : public Descent<T> {
 public:
  HostDescent(const DescentPlan& plan, const NetworkShape& shape, Loss<T>& loss, std::uint64_t seed,
              const TrainingState<T>& state)
      : plan_(plan),
        schedule_(schedule_of(plan.stage)),
        loss_(loss),
        batches_(plan.data, plan.context.system, plan.stage, seed, plan.first_step, plan.context.threads,
                 plan.context.inputs.sites(), plan.share, plan.context.inputs.frame_modes()),
        optimiser_(make_optimiser<T>(plan.stage, shape, plan.context.threads)),
        parameters_(state.parameters),
        average_(state.average),
        gradient_(state.parameters.size()) {
    if (state.step == plan.first_step) return;  // every stage has an optimiser of its own
    optimiser_->restore(state.optimiser, state.step - plan.first_step);
  }

  std::size_t most_steps() const override { return 1; }

  void take(std::size_t first, std::size_t count, std::span<StepReport> reports) override {
    const double clip = plan_.stage.clip > 0 ? plan_.stage.clip : INFINITY;
    for (std::size_t i = 0; i < count; ++i) {
      const auto [lr, beta1] = schedule_.at(first + i);
      reports[i].lr = lr;
      std::ranges::fill(gradient_, T(0));
      reports[i].loss = loss_.evaluate(parameters_.data(), batches_.at(first + i), gradient_.data());
      reports[i].gradient_norm = clip_gradient<T>(gradient_, clip);
      optimiser_->step(parameters_, gradient_, lr, beta1);
      const T share = static_cast<T>(newest_share(plan_.averaging, plan_.first_step + first + i + 1));
      for (std::size_t k = 0; k < average_.size(); ++k) average_[k] += share * (parameters_[k] - average_[k]);
    }
  }

  void read(std::size_t, TrainingState<T>& state) override {
    state.parameters = parameters_;
    state.average = average_;
    state.optimiser = optimiser_->state();
  }

 private:
  DescentPlan plan_;
  OneCycle schedule_;
  Loss<T>& loss_;
  BatchStream batches_;
  std::unique_ptr<Optimiser<T>> optimiser_;
  std::vector<T> parameters_, average_, gradient_;
};

/// One batch for the whole stage, as large as the plan says.
template <class T>
class LbfgsDescent final : public Descent<T> {
 public:
  LbfgsDescent(const DescentPlan& plan, const NetworkShape& shape, Loss<T>& loss, std::uint64_t seed,
               const TrainingState<T>& state)
      : batches_(plan.data, plan.context.system, one_step(plan.stage), seed, plan.first_step,
                 plan.context.threads, 1, plan.share, plan.context.inputs.frame_modes()),
        batch_(batches_.at(0)),
        lbfgs_(
            [&loss, this](std::span<const T> weights, std::span<T> gradient) {
              std::ranges::fill(gradient, T(0));
              return loss.evaluate(weights.data(), batch_, gradient.data());
            },
            parameter_count(shape), plan.stage.max_lr),
        parameters_(state.parameters) {
    if (state.step > plan.first_step) lbfgs_.restore(state.optimiser);
  }

  std::size_t most_steps() const override { return 1; }

  void take(std::size_t, std::size_t count, std::span<StepReport> reports) override {
    for (std::size_t i = 0; i < count; ++i) {
      const auto [loss, gradient_norm, length] = lbfgs_.step(parameters_);
      reports[i] = {loss, gradient_norm, length};
    }
  }

  void read(std::size_t, TrainingState<T>& state) override {
    state.parameters = parameters_;
    if (!state.average.empty()) state.average = parameters_;  // they don't wander about something better
    state.optimiser = lbfgs_.state();
  }

 private:
  /// A stage that reads no further batch.
  static StagePlan one_step(StagePlan stage) {
    stage.steps = 1;
    return stage;
  }

  BatchStream batches_;
  const Batch& batch_;
  Lbfgs<T> lbfgs_;
  std::vector<T> parameters_;
};

}  // namespace

OneCycle schedule_of(const StagePlan& stage) {
  return {stage.steps,      stage.max_lr,           stage.warmup_fraction,
          stage.div_factor, stage.final_div_factor, stage.cycle_momentum};
}

double newest_share(double averaging, std::size_t steps) {
  // A young average forgets faster, so that the initial weights don't linger in it.
  const double n = static_cast<double>(steps);
  return 1 - std::min(averaging, n / (n + 10));
}

template <class T>
std::unique_ptr<Descent<T>> make_host_descent(const DescentPlan& plan, const NetworkShape& shape,
                                              Loss<T>& loss, std::uint64_t seed,
                                              const TrainingState<T>& state) {
  if (plan.stage.optimiser == OptimiserKind::lbfgs)
    return std::make_unique<LbfgsDescent<T>>(plan, shape, loss, seed, state);
  return std::make_unique<HostDescent<T>>(plan, shape, loss, seed, state);
}

template std::unique_ptr<Descent<float>> make_host_descent(const DescentPlan&, const NetworkShape&,
                                                           Loss<float>&, std::uint64_t,
                                                           const TrainingState<float>&);
template std::unique_ptr<Descent<double>> make_host_descent(const DescentPlan&, const NetworkShape&,
                                                            Loss<double>&, std::uint64_t,
                                                            const TrainingState<double>&);

}  // namespace mac
