// A trained network as a closure: the step engine in tandem with the reduced equations.
#include <algorithm>
#include <mac/ensemble.hpp>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>
#include <mac/model.hpp>
#include <mac/network.hpp>
#include <mac/rollout.hpp>
#include <vector>

#include "coupling/network_columns.hpp"
#include "data/given_series.hpp"
#include "rollout/group.hpp"

namespace mac {

namespace {

template <class T>
class NetworkGroup final : public ClosureGroup, public PredictsStages {
 public:
  /// Trajectories `first` and on of the split; `member` says whose noise they read.
  NetworkGroup(const StepEngine<T>& engine, const Normalisers& normalisers, InputMap inputs,
               const DataSplit& split, std::size_t first, std::size_t count, bool stages, RedNoise noise,
               const MemberPlan& member)
      : inputs_(std::move(inputs)),
        d_(split.resolved_size()),
        given_(split, first, inputs_.given_size() > 0 ? count : 0),
        network_(engine, normalisers, inputs_, count),
        memory_(network_.columns() * engine.state_size()),
        before_(stages ? memory_.size() : 0),
        noise_(std::move(noise)),
        first_(first),
        member_(member),
        closure_(stages ? count * split.closure_size() : 0) {}

  void predict(std::size_t n, const double* y, double* closure) override {
    std::copy_n(memory_.begin(), before_.size(), before_.begin());
    if (noise_.channels() > 0 && member_.noise) {
      for (std::size_t i = 0; i < network_.trajectories(); ++i)
        noise_.advance(i,
                       {member_.seed, static_cast<std::uint32_t>(first_ + i),
                        static_cast<std::uint32_t>(member_.member)},
                       n);
      network_.set_noise(noise_.values());
    }
    network_.predict(y, d_, given_.at(n), closure, memory_.data());
    step_ = n;
  }

  void advance(std::size_t n, const GroupStep& step, double* y) override {
    if (step.held.hold == Hold::stage)
      advance_by_stages(step, y);
    else
      ClosureGroup::advance(n, step, y);
  }

  const double* predict_stage(const double* y) override {
    scratch_ = before_;
    network_.predict(y, d_, given_.at(step_), closure_.data(), scratch_.data());
    return closure_.data();
  }

  // A trajectory's recurrent state, for a step by stages the one before it, the noise that was read last, and the angle
  // of its frame.
  std::optional<std::size_t> memory_size() const override {
    return (memory_.size() + before_.size()) / network_.trajectories() + noise_.channels() +
           (inputs_.frame_modes() > 0 ? 1 : 0);
  }
  void save_memory(double* memory) const override {
    const std::vector<double> angles = network_.angles();
    for (std::size_t i = 0; i < network_.trajectories(); ++i) {
      for (const std::vector<T>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / network_.trajectories();
        memory = std::copy_n(states->begin() + static_cast<std::ptrdiff_t>(i * size), size, memory);
      }
      memory = std::copy_n(noise_.of(i), noise_.channels(), memory);
      if (!angles.empty()) *memory++ = angles[i];
    }
  }
  void restore_memory(const double* memory) override {
    for (std::size_t i = 0; i < network_.trajectories(); ++i) {
      for (std::vector<T>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / network_.trajectories();
        for (std::size_t k = 0; k < size; ++k) (*states)[i * size + k] = static_cast<T>(*memory++);
      }
      std::copy_n(memory, noise_.channels(), noise_.of(i));
      memory += noise_.channels();
      if (inputs_.frame_modes() > 0) network_.set_angle(i, *memory++);
    }
    network_.set_noise(noise_.values());  // for the stages of the step that follows
  }

 private:
  /// The first stage of a step, at y_n itself, is the one that is remembered; the others start from the
  /// memory before it.
  void advance_by_stages(const GroupStep& step, double* y) {
    const std::size_t d = step.system.resolved_size(), c = step.system.closure_size();
    room_.resize(step.count * d);
    held_rk4::step(
        {step.count, d, c, step.system.closure_targets().data()}, step.dt, room_,
        [&](std::size_t, const double* at, double* rate) {
          for (std::size_t i = 0; i < step.count; ++i)
            step.system_of(i).reduced_rhs(at + i * d, rate + i * d);
        },
        [&](std::size_t i, const double* at) -> held_rk4::StageClosure {
          if (i == 0) return {step.closure, nullptr, 0};
          return {predict_stage(at), nullptr, 0};
        },
        y);
  }

  InputMap inputs_;
  std::size_t d_, step_ = 0;  // resolved variables; the step that predict() was called for last
  GivenSeries given_;
  NetworkTrajectories<T> network_;
  std::vector<T> memory_, before_, scratch_;  // recurrent states now, before the current step, of a stage
  RedNoise noise_;
  std::size_t first_;
  MemberPlan member_;
  held_rk4::StageArrays room_;
  std::vector<double> closure_;
};

template <class T>
class NetworkClosure final : public ClosureModel {
 public:
  NetworkClosure(const Model& model, std::string name, HeldClosure held, std::shared_ptr<const System> system)
      : model_(model),
        name_(std::move(name)),
        held_(held),
        inputs_(model.inputs),
        system_(std::move(system)),
        normalisers_(model.normalisation),
        noise_(model.noise),
        step_(model.closure_step.value_or(0)),
        engine_(model.shape, parameters_as<T>(model)) {
    for (std::size_t m = 0; m < model.shape.members && model.shape.members > 1; ++m) {
      const Model one = member_of(model, m);
      apart_.emplace_back(one.shape, parameters_as<T>(one));
    }
  }

  std::string name() const override { return name_; }
  HeldClosure held() const override { return held_; }
  std::unique_ptr<ClosureModel> in_float64() const override {
    if (std::is_same_v<T, double>) return nullptr;
    return std::make_unique<NetworkClosure<double>>(model_, name_, held_, system_);
  }
  std::optional<Precision> precision() const override { return precision_of<T>; }
  std::size_t most_members() const override {
    return noise_.channels > 0 ? most_stochastic_members : std::max<std::size_t>(1, apart_.size());
  }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                      std::size_t count) const override {
    return start_member(split, first, count, {});
  }
  std::unique_ptr<ClosureGroup> start_member(const DataSplit& split, std::size_t first, std::size_t count,
                                             const MemberPlan& member) const override {
    const bool apart = member.apart && noise_.channels == 0;
    return std::make_unique<NetworkGroup<T>>(apart ? apart_.at(member.member) : engine_, normalisers_,
                                             map_for(split), split, first, count, held_.hold == Hold::stage,
                                             RedNoise(noise_, step_, count), member);
  }

 private:
  InputMap map_for(const DataSplit& split) const {
    InputMap map = inputs_.is_plain() ? InputMap::plain(split.resolved_size(), split.closure_size())
                                      : InputMap(inputs_, *system_, split.input_names());
    const std::size_t inputs = normalisers_.input.size();
    if (map.features() != inputs || map.outputs() != engine_.shape().d_out)
      throw UsageError("{}: the network maps {} variables to {} closure components, the data have {} and {}",
                       name_, inputs, engine_.shape().d_out, map.features(), map.outputs());
    return map;
  }

  Model model_;
  std::string name_;
  HeldClosure held_;
  NetworkInputs inputs_;
  std::shared_ptr<const System> system_;
  Normalisers normalisers_;
  NoiseInputs noise_;
  double step_;
  StepEngine<T> engine_;
  std::vector<StepEngine<T>> apart_;  // the networks of an ensemble, each by itself
};

}  // namespace

std::unique_ptr<ClosureModel> make_network_closure(const Model& model, const std::string& name,
                                                   HeldClosure held, std::optional<Precision> precision,
                                                   std::shared_ptr<const System> system) {
  if (!system && !model.inputs.is_plain())
    throw UsageError("{}: reads other inputs than the resolved variables: say of which system", name);
  if (held.hold == Hold::stage && held.target == Target::mean)
    throw UsageError(
        "{}: was trained on step means, which are not closures at a stage; use the hold zero or linear",
        name);
  if (precision.value_or(model.precision()) == Precision::float64)
    return std::make_unique<NetworkClosure<double>>(model, name, held, std::move(system));
  return std::make_unique<NetworkClosure<float>>(model, name, held, std::move(system));
}

}  // namespace mac
