// A trained network as a closure: the step engine in tandem with the reduced equations.
#include <algorithm>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>
#include <mac/model.hpp>
#include <mac/network.hpp>
#include <mac/rollout.hpp>
#include <vector>

#include "coupling/network_columns.hpp"
#include "rollout/group.hpp"

namespace mac {

namespace {

template <class T>
class NetworkGroup final : public ClosureGroup, public PredictsStages {
 public:
  NetworkGroup(const StepEngine<T>& engine, const Normalisers& normalisers, std::size_t count, bool stages)
      : network_(engine, normalisers, count),
        memory_(count * engine.state_size()),
        before_(stages ? memory_.size() : 0) {}

  void predict(std::size_t, const double* y, double* closure) override {
    std::copy_n(memory_.begin(), before_.size(), before_.begin());
    network_.predict(y, closure, memory_.data());
  }

  void advance(std::size_t n, const GroupStep& step, double* y) override {
    if (step.held.hold == Hold::stage)
      advance_by_stages(step, y);
    else
      ClosureGroup::advance(n, step, y);
  }

  const double* predict_stage(const double* y) override {
    closure_.resize(network_.columns() * network_.outputs());
    scratch_ = before_;
    network_.predict(y, closure_.data(), scratch_.data());
    return closure_.data();
  }

  // A trajectory's recurrent state, and for a step by stages the one before it.
  std::optional<std::size_t> memory_size() const override {
    return (memory_.size() + before_.size()) / network_.columns();
  }
  void save_memory(double* memory) const override {
    for (std::size_t i = 0; i < network_.columns(); ++i)
      for (const std::vector<T>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / network_.columns();
        memory = std::copy_n(states->begin() + static_cast<std::ptrdiff_t>(i * size), size, memory);
      }
  }
  void restore_memory(const double* memory) override {
    for (std::size_t i = 0; i < network_.columns(); ++i)
      for (std::vector<T>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / network_.columns();
        for (std::size_t k = 0; k < size; ++k) (*states)[i * size + k] = static_cast<T>(*memory++);
      }
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
          for (std::size_t i = 0; i < step.count; ++i) step.system.reduced_rhs(at + i * d, rate + i * d);
        },
        [&](std::size_t i, const double* at) -> held_rk4::StageClosure {
          if (i == 0) return {step.closure, nullptr, 0};
          return {predict_stage(at), nullptr, 0};
        },
        y);
  }

  NetworkColumns<T> network_;
  std::vector<T> memory_, before_, scratch_;  // recurrent states now, before the current step, of a stage
  held_rk4::StageArrays room_;
  std::vector<double> closure_;
};

template <class T>
class NetworkClosure final : public ClosureModel {
 public:
  NetworkClosure(const Model& model, std::string name, HeldClosure held)
      : name_(std::move(name)),
        held_(held),
        normalisers_(model.normalisation),
        engine_(model.shape, parameters_as<T>(model)) {}

  std::string name() const override { return name_; }
  HeldClosure held() const override { return held_; }
  std::optional<Precision> precision() const override { return precision_of<T>; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    if (split.resolved_size() != engine_.shape().d_in || split.closure_size() != engine_.shape().d_out)
      throw UsageError("{}: the network maps {} variables to {} closure components, the data have {} and {}",
                       name_, engine_.shape().d_in, engine_.shape().d_out, split.resolved_size(),
                       split.closure_size());
    return std::make_unique<NetworkGroup<T>>(engine_, normalisers_, count, held_.hold == Hold::stage);
  }

 private:
  std::string name_;
  HeldClosure held_;
  Normalisers normalisers_;
  StepEngine<T> engine_;
};

}  // namespace

std::unique_ptr<ClosureModel> make_network_closure(const Model& model, const std::string& name,
                                                   HeldClosure held, std::optional<Precision> precision) {
  if (held.hold == Hold::stage && held.target == Target::mean)
    throw UsageError(
        "{}: was trained on step means, which are not closures at a stage; use the hold zero or linear",
        name);
  if (precision.value_or(model.precision()) == Precision::float64)
    return std::make_unique<NetworkClosure<double>>(model, name, held);
  return std::make_unique<NetworkClosure<float>>(model, name, held);
}

}  // namespace mac
