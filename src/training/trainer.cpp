#include "training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <mac/step_stability.hpp>
#include <mac/training.hpp>
#include <type_traits>
#include <utility>

#include "base/standard_streams.hpp"
#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "io/output_lock.hpp"
#include "network/cpu/engine.hpp"
#include "network/cpu/kernels.hpp"
#include "network/cuda_engine.hpp"
#include "parallel/ranks.hpp"
#include "parallel/thread_count.hpp"
#include "training/auto_recipe.hpp"
#include "training/descent.hpp"
#include "training/fine_tuning.hpp"
#include "training/normalise.hpp"
#include "training/time_left.hpp"
#include "training/training_run.hpp"
#include "training/validation.hpp"

namespace mac {

namespace {

using Clock = std::chrono::steady_clock;

/// How long a device may work before the user hears of it.
constexpr double seconds_between_reports = 0.2;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Saved times of a split that a horizon leaves.
std::size_t usable_times(const DataSplit& split, double horizon, double dt) {
  if (horizon <= 0) return split.times();
  return std::min(split.times(), static_cast<std::size_t>(std::lround(horizon / dt)) + 1);
}

double longest_horizon(const TrainingPlan& plan) {
  double longest = 0;
  for (const StagePlan& stage : plan.stages) {
    if (stage.horizon <= 0) return 0;  // all of it
    longest = std::max(longest, stage.horizon);
  }
  return longest;
}

template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, Device device, int threads,
                                               SharedGradient<T>& share) {
  if (device == Device::cpu) return cpu::make_shared_engine<T>(shape, threads, share);
  if (ranks().size() > 1)
    throw UsageError(
        "one network is trained on one GPU: start mac train --device cuda without mpirun, or let mac run "
        "give every "
        "rank a network of its own");
  return make_cuda_engine<T>(shape);
}

/// Trains models that differ in nothing but their seeds.
template <class T>
class Trainer {
 public:
  Trainer(const Experiment& experiment, std::span<const ModelPlan> models, const DataFile& data,
          std::span<const std::string> paths, const TrainOptions& options)
      : experiment_(experiment),
        plan_(models[0].network->training),
        time_left_(plan_),
        shape_(models[0].network->shape),
        options_(options),
        threads_(thread_count(options.threads)),
        train_(data.split("train")),
        inputs_(models[0].network->inputs, *experiment.system, train_.input_names()),
        scales_(scales_of_root()),
        context_{*experiment.system,
                 scales_.network,
                 plan_.held,
                 choose_step(*experiment.system, experiment.rollout, data),
                 threads_,
                 history(),
                 inputs_,
                 scales_.resolved,
                 models[0].network->noise},
        engine_(make_engine<T>(shape_, options.device, threads_, shared_gradient_)) {
    check_processors();
    warn_of_host_steps();
    std::vector<double> start;  // empty: random weights
    if (!plan_.init_file.empty()) {
      auto [parameters, remark] =
          start_from(plan_.init_file, *models[0].network, inputs_, experiment, scales_.network);
      if (!options.quiet && !remark.empty()) say("mac: {}: {}\n", plan_.init_file, remark);
      start = std::move(parameters);
    }
    for (std::size_t i = 0; i < models.size(); ++i)
      runs_.emplace_back(experiment, models[i], data, inputs_, scales_.network, start, paths[i], options);
    if (plan_.select == Selection::last) return;
    if (!data.has("validation"))
      throw UsageError("{}: has no validation split to select the weights by; say select = \"last\"",
                       data.path());
    validation_.emplace(data.split("validation"));
    on_root([&] { check_finite(*validation_, *experiment.system); });
    if (plan_.select == Selection::rollout) {
      const double horizon = plan_.validation_horizon > 0 ? plan_.validation_horizon : longest_horizon(plan_);
      rollouts_.emplace(*validation_, RolloutValidation::Plan{
                                          usable_times(*validation_, horizon, step_size()) - 1,
                                          plan_.validation_trajectories, history(), plan_.validation_beyond});
    }
  }

  std::vector<TrainingResult> run() {
    std::size_t steps_left = 0, steps_taken = 0;
    for (const auto& run : runs_)
      if (run.open()) steps_left += plan_.steps() - run.state.step;
    const auto begin = Clock::now();
    {
      Progress progress(label(), steps_left, options_.quiet);
      for (Group group = next_group(); !group.runs.empty(); group = next_group()) {
        const auto taken = [run = group.runs[0]] { return run->state.step - run->state.skipped; };
        const std::size_t before = taken();
        advance(group, progress);
        steps_taken += taken() - before;
      }
    }
    const double seconds_per_step =
        seconds_since(begin) / static_cast<double>(std::max<std::size_t>(1, steps_taken));
    std::vector<TrainingResult> results;
    std::string failure;
    for (auto& run : runs_) {
      if (run.open()) run.finish(seconds_per_step);
      if (run.result) results.push_back(*run.result);
      if (failure.empty()) failure = run.failure;
    }
    if (!failure.empty()) throw Error("{}", failure);
    return results;
  }

 private:
  /// Runs at the same step, to be trained together up to `end`: where the next run waits, or a stage ends.
  struct Group {
    std::vector<TrainingRun<T>*> runs;
    std::size_t stage = 0, stage_start = 0, end = 0;
  };

  double step_size() const { return experiment_.data.closure_step(); }
  std::size_t history() const { return static_cast<std::size_t>(std::lround(plan_.history / step_size())); }

  /// A pass over all data, by one rank.
  FittedScales scales_of_root() const {
    NumberLists lists = numbers_of_root([&]() -> NumberLists {
      const auto [network, resolved] =
          fit_scales(train_, *experiment_.system, inputs_, plan_.normalisation, plan_.held.target,
                     usable_times(train_, longest_horizon(plan_), step_size()));
      return {network.input_mean, network.input_scale, network.output_mean, network.output_scale, resolved};
    });
    return {{lists[0], lists[1], lists[2], lists[3]}, lists[4]};
  }

  std::string label() const {
    if (runs_.size() == 1) return fmt::format("training {} (seed {})", runs_[0].name(), plan_.seed);
    return fmt::format("training {} ({} seeds)", runs_[0].name(), runs_.size());
  }

  Group next_group() {
    Group group;
    std::size_t first = plan_.steps();
    for (const auto& run : runs_)
      if (run.open()) first = std::min(first, run.state.step);
    if (first == plan_.steps()) return group;
    while (first >= group.stage_start + plan_.stages[group.stage].steps)
      group.stage_start += plan_.stages[group.stage++].steps;
    group.end = group.stage_start + plan_.stages[group.stage].steps;
    for (auto& run : runs_) {
      if (!run.open()) continue;
      if (run.state.step == first)
        group.runs.push_back(&run);
      else
        group.end = std::min(group.end, run.state.step);
    }
    return group;
  }

  std::unique_ptr<Descent<T>> make_descent(const Group& group, const DescentPlan& plan, Loss<T>& loss) const {
    if constexpr (std::is_same_v<T, float>)
      if (on_device(plan.stage)) {
        std::vector<DescentModel> models;
        for (const auto* run : group.runs) models.push_back({run->plan().seed, &run->state});
        return make_device_descent(plan, shape_, models);
      }
    return make_host_descent<T>(plan, shape_, loss, group.runs[0]->plan().seed, group.runs[0]->state);
  }

  /// Ranks sum the same numbers in the same groups only on processors of one kind.
  static void check_processors() {
    std::vector<std::uint64_t> all(ranks().size());
    all[ranks().rank()] = cpu::kernel_lanes<T>();
    ranks().gather(reinterpret_cast<std::byte*>(all.data()),
                   std::vector<std::size_t>(all.size(), sizeof(std::uint64_t)));
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        throw UsageError(
            "the processors of rank 0 and rank {} have vectors of {} and {} numbers, and sums would differ: "
            "say "
            "--portable, or take nodes of one kind",
            r, all[0], all[r]);
  }

  /// Rollout losses of equations that came as text need a compiler at run time.
  void warn_of_host_steps() const {
    const bool rolls = std::ranges::any_of(
        plan_.stages, [](const StagePlan& stage) { return stage.loss != LossKind::closure; });
    if (options_.device != Device::cuda || options_.quiet || !rolls) return;
    if (const std::string reason = uncompiled_equations(*experiment_.system); !reason.empty())
      say("mac: rollout losses take their coupled steps on the host, which is slower: {}\n", reason);
  }

  static bool any_rank(bool here) {
    std::vector<std::byte> all(ranks().size());
    all[ranks().rank()] = static_cast<std::byte>(here);
    ranks().gather(all.data(), std::vector<std::size_t>(all.size(), 1));
    return std::ranges::find(all, std::byte{1}) != all.end();
  }

  /// Whether loss and optimiser run there as well; in float64 the network alone does.
  bool on_device(const StagePlan& stage) const {
    return std::is_same_v<T, float> && options_.device == Device::cuda && plan_.history == 0 &&
           !train_.masked() && descends_on_device(stage, *experiment_.system, inputs_) &&
           (stage.loss == LossKind::closure || takes_device_steps(stage));
  }

  /// Whether the device has the coupled steps of a rollout loss.
  bool takes_device_steps(const StagePlan& stage) const {
    return train_.systems().empty() && context_.dt.is_one_rk4_step() &&
           stage.rollout_gradient == RolloutGradient::full;
  }

  void advance(Group& group, Progress& progress) {
    const StagePlan& stage = plan_.stages[group.stage];
    if (!on_device(stage)) group.runs.resize(1);
    if (is_score(stage.loss) && train_.masked())
      throw UsageError(
          "the losses crps and energy count every state, and the data are masked where rows were missing: "
          "cut "
          "them there instead (--gaps split)");
    const std::size_t stage_end = group.stage_start + stage.steps;
    // On a device the data have a copy of their own.
    const TrainingData data(train_, plan_.held.target, usable_times(train_, stage.horizon, step_size()),
                            on_device(stage) ? 0 : plan_.memory * 1e9);
    const auto loss = make_loss<T>(stage, context_, *engine_);
    std::optional<LossValidation> validation_loss;
    if (plan_.select == Selection::loss)
      validation_loss.emplace(*validation_, plan_.held.target, stage,
                              usable_times(*validation_, stage.horizon, step_size()),
                              plan_.validation_trajectories, inputs_.frame_modes());
    std::size_t step = group.runs[0]->state.step;
    if (step == group.stage_start && plan_.select == Selection::loss)  // losses of two stages don't compare
      for (auto* run : group.runs) run->state.best_validation = std::numeric_limits<double>::infinity();
    std::optional<BatchShare> share;
    if (ranks().size() > 1)
      share.emplace(loss->form_of(stage.batch, sample_shape(stage, data)), cpu::kernel_lanes<T>(), ranks());
    shared_gradient_.use(share ? &*share : nullptr);
    if (share && share->parts() < ranks().size() && !options_.quiet)
      say("mac: batches of {} give work to {} of {} ranks\n", stage.batch, share->parts(), ranks().size());
    const auto descent = make_descent(group,
                                      {stage, group.stage_start, plan_.averaging, data, context_,
                                       plan_.memory * 1e9, share ? &*share : nullptr},
                                      *loss);

    const auto begin = Clock::now();
    auto last_report = begin;
    const std::size_t first_step = step;
    std::vector<StepReport> reports;
    for (bool regroup = false; step < group.end && !regroup;) {
      std::size_t count = std::min(descent->most_steps(), pace(begin, step - first_step));
      count = std::min({count, group.end - step, plan_.checkpoint_every - step % plan_.checkpoint_every});
      if (plan_.select != Selection::last)
        count = std::min(count, plan_.validate_every - step % plan_.validate_every);
      reports.resize(group.runs.size() * count);
      descent->take(step - group.stage_start, count, reports);
      step += count;

      const bool stop = any_rank(interrupted()), last = step == stage_end,
                 save = step % plan_.checkpoint_every == 0;
      const bool validate = plan_.select != Selection::last && (last || step % plan_.validate_every == 0);
      std::size_t skipped = 0;
      for (std::size_t m = 0; m < group.runs.size(); ++m) {
        TrainingRun<T>& run = *group.runs[m];
        for (std::size_t i = 0; i < count && run.open(); ++i) {
          const std::size_t local = run.state.step - group.stage_start;
          const StepReport& report = reports[m * count + i];
          run.count_step(report, local == 0);
          if (!run.open()) break;
          const bool measure = validate && i + 1 == count;
          double error = NAN;
          if (measure) {
            descent->read(m, run.state);
            error = validation_error(run, *loss, validation_loss);
            run.judge(error);
          }
          run.note(report, error, last && i + 1 == count);
        }
        regroup = regroup || !run.open();
        if (validate && !last && run.open() && plan_.patience > 0 &&
            run.validations_since_best(group.stage_start) >= plan_.patience) {
          skipped += run.leave_stage(stage_end);
          regroup = true;
        }
      }
      for (std::size_t m = 0; m < group.runs.size(); ++m) {
        if (!group.runs[m]->open()) continue;
        if (stop || save || regroup || step == group.end) descent->read(m, group.runs[m]->state);
        if (stop || save) group.runs[m]->save();
      }
      if (stop) throw Interrupted();
      progress.note(summary(*group.runs[0], reports[count - 1],
                            static_cast<double>(step - first_step) / seconds_since(begin)));
      const double seconds = seconds_since(std::exchange(last_report, Clock::now()));
      time_left_.count(group.stage, count * group.runs.size(), seconds);
      TimeLeft::Estimate left;
      for (const auto& run : runs_)
        if (run.open()) {
          const auto [of_run, at_least] = time_left_.after(run.state.step);
          left.seconds += of_run, left.at_least = left.at_least || at_least;
        }
      progress.expect(left.seconds, left.at_least);
      progress.advance(count * group.runs.size() + skipped);
    }
  }

  /// Steps that take about as long as the user should wait for news.
  static std::size_t pace(Clock::time_point begin, std::size_t steps) {
    if (steps == 0) return 1;
    const double pace = static_cast<double>(steps) * seconds_between_reports / seconds_since(begin);
    return static_cast<std::size_t>(std::clamp(pace, 1.0, 1e6));
  }

  std::string summary(const TrainingRun<T>& run, const StepReport& report, double rate) const {
    std::string text = fmt::format("loss {:.3g}, lr {:.2e}, gradient {:.2g}, {:.1f} it/s", report.loss,
                                   report.lr, report.gradient_norm, rate);
    if (!run.state.best.empty())
      text += fmt::format(", best {} {:.4g}", plan_.select == Selection::loss ? "loss" : "rollout error",
                          run.state.best_validation);
    return text;
  }

  double validation_error(const TrainingRun<T>& run, Loss<T>& loss,
                          const std::optional<LossValidation>& validation_loss) const {
    return rollouts_ ? rollouts_->template error<T>(shape_, run.current(), context_)
                     : validation_loss->template error<T>(run.current().data(), loss);
  }

  const Experiment& experiment_;
  const TrainingPlan& plan_;
  TimeLeft time_left_;
  NetworkShape shape_;
  TrainOptions options_;
  int threads_;
  DataSplit train_;
  InputMap inputs_;
  FittedScales scales_;
  LossContext context_;
  SharedGradient<T> shared_gradient_;
  std::unique_ptr<SequenceEngine<T>> engine_;
  std::vector<TrainingRun<T>> runs_;
  std::optional<DataSplit> validation_;
  std::optional<RolloutValidation> rollouts_;
};

void check(const Experiment& experiment, const ModelPlan& plan, const DataFile& data) {
  if (!plan.network) throw UsageError("the model {} of kind {} is not a network", plan.name, plan.kind);
  check_data(experiment, data);
}

void check_device(const ModelPlan& plan, const TrainOptions& options) {
  if (options.device == Device::cuda && plan.network->noise.channels > 0)
    throw UsageError("{}: networks that read noise are trained on the CPU: use --device cpu", plan.name);
}

}  // namespace

std::vector<TrainingResult> train_as_planned(const Experiment& experiment, const ModelPlan& plan,
                                             std::span<const std::uint64_t> seeds, const DataFile& data,
                                             std::span<const std::string> paths,
                                             const TrainOptions& options) {
  std::vector<ModelPlan> models;
  for (const std::uint64_t seed : seeds) {
    models.push_back(plan);
    models.back().network->training.seed = seed;
  }
  if (plan.network->training.precision == Precision::float64)
    return Trainer<double>(experiment, models, data, paths, options).run();
  return Trainer<float>(experiment, models, data, paths, options).run();
}

std::vector<TrainingResult> train_seeds(const Experiment& experiment, const ModelPlan& plan,
                                        std::span<const std::uint64_t> seeds, const DataFile& data,
                                        std::span<const std::string> paths, const TrainOptions& options) {
  check(experiment, plan, data);
  check_device(plan, options);
  std::deque<OutputLock> locks;
  on_root([&] {
    for (const std::string& path : paths) {
      check_output(path, {experiment.config.source(), data.path()});
      locks.emplace_back(path);
      check_writable(path);
    }
  });
  if (plan.network->training.recipe != "auto")
    return train_as_planned(experiment, plan, seeds, data, paths, options);
  std::vector<TrainingResult> results;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    ModelPlan one = plan;
    one.network->training.seed = seeds[i];
    results.emplace_back();  // rank 0's; its clock and its files decide what is tried next
    on_root([&] { results.back() = train_auto(experiment, one, data, paths[i], options); });
  }
  return results;
}

Device device_from(std::string_view name) {
  if (name == "cpu") return Device::cpu;
  if (name == "cuda") return Device::cuda;
  throw UsageError("the device is \"{}\", expected cpu or cuda", name);
}

TrainingResult train(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                     const std::string& path, const TrainOptions& options) {
  if (!plan.network) throw UsageError("the model {} of kind {} is not a network", plan.name, plan.kind);
  const std::uint64_t seed = plan.network->training.seed;
  return train_seeds(experiment, plan, {&seed, 1}, data, {&path, 1}, options).at(0);
}

}  // namespace mac
