// A trained network as a closure: the step engine in tandem with the reduced equations.
//
//   x = (y - input_mean) / input_scale,   C = output_mean + output_scale * network(x, memory)
//
// hold = "stage": the closure is predicted anew at every Runge-Kutta stage, from the stage's state and the
// memory of the steps before; only the first stage of a step, at y_n itself, is remembered.
#include <algorithm>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>
#include <mac/model.hpp>
#include <mac/network.hpp>
#include <mac/rollout.hpp>
#include <vector>

namespace mac {

namespace {

class NetworkGroup final : public ClosureGroup {
 public:
  NetworkGroup(const StepEngine<float>& engine, const Normalisation& normalisation, std::size_t count,
               bool stages)
      : engine_(engine),
        normalisation_(normalisation),
        count_(count),
        x_(count * engine.shape().d_in),
        c_(count * engine.shape().d_out),
        memory_(count * engine.state_size()),
        before_(stages ? memory_.size() : 0) {}

  void predict(std::size_t, const double* y, double* closure) override {
    std::copy_n(memory_.begin(), before_.size(), before_.begin());
    evaluate(y, closure, memory_);
  }

  void advance(std::size_t n, const GroupStep& step, double* y) override {
    if (step.held.hold == Hold::stage)
      advance_by_stages(step, y);
    else
      ClosureGroup::advance(n, step, y);
  }

  // A trajectory's recurrent state, and for a step by stages the one before it.
  std::optional<std::size_t> memory_size() const override {
    return (memory_.size() + before_.size()) / count_;
  }
  void save_memory(double* memory) const override {
    for (std::size_t i = 0; i < count_; ++i)
      for (const std::vector<float>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / count_;
        memory = std::copy_n(states->begin() + static_cast<std::ptrdiff_t>(i * size), size, memory);
      }
  }
  void restore_memory(const double* memory) override {
    for (std::size_t i = 0; i < count_; ++i)
      for (std::vector<float>* states : {&memory_, &before_}) {
        const std::size_t size = states->size() / count_;
        for (std::size_t k = 0; k < size; ++k) (*states)[i * size + k] = static_cast<float>(*memory++);
      }
  }

 private:
  void evaluate(const double* y, double* closure, std::vector<float>& memory) {
    const auto& [in_mean, in_scale, out_mean, out_scale] = normalisation_;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const std::size_t v = i % in_mean.size();
      x_[i] = static_cast<float>((y[i] - in_mean[v]) / in_scale[v]);
    }
    engine_.step(count_, x_.data(), c_.data(), memory.data());
    for (std::size_t i = 0; i < c_.size(); ++i) {
      const std::size_t v = i % out_mean.size();
      closure[i] = out_mean[v] + out_scale[v] * static_cast<double>(c_[i]);
    }
  }

  /// RK4 of dy/dt = R^(y) + C(y, memory before the step).
  void advance_by_stages(const GroupStep& step, double* y) {
    const std::size_t d = step.system.resolved_size(), c = step.system.closure_size();
    const auto targets = step.system.closure_targets();
    std::vector<double> stage(y, y + count_ * d), k(count_ * d), sum(count_ * d),
        closure(step.closure, step.closure + count_ * c);
    std::vector<float> scratch;
    for (std::size_t s = 0; s < held_rk4::stages; ++s) {
      if (s > 0) {
        held_rk4::stage_state(s, stage.size(), step.dt, y, k.data(), stage.data());
        scratch = before_;
        evaluate(stage.data(), closure.data(), scratch);
      }
      for (std::size_t i = 0; i < count_; ++i) {
        step.system.reduced_rhs(stage.data() + i * d, k.data() + i * d);
        for (std::size_t j = 0; j < c; ++j) k[i * d + targets[j]] += closure[i * c + j];
      }
      for (std::size_t i = 0; i < k.size(); ++i) sum[i] += held_rk4::b(s) * k[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) y[i] += step.dt * sum[i];
  }

  const StepEngine<float>& engine_;
  const Normalisation& normalisation_;
  std::size_t count_;
  std::vector<float> x_, c_;            // (count, d_in), (count, d_out), normalised
  std::vector<float> memory_, before_;  // recurrent states now and before the current step
};

class NetworkClosure final : public ClosureModel {
 public:
  NetworkClosure(const Model& model, std::string name, HeldClosure held)
      : name_(std::move(name)),
        held_(held),
        normalisation_(model.normalisation),
        engine_(model.shape, parameters_as<float>(model)) {}

  std::string name() const override { return name_; }
  HeldClosure held() const override { return held_; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    if (split.resolved_size() != engine_.shape().d_in || split.closure_size() != engine_.shape().d_out)
      throw UsageError("{}: the network maps {} variables to {} closure components, the data have {} and {}",
                       name_, engine_.shape().d_in, engine_.shape().d_out, split.resolved_size(),
                       split.closure_size());
    return std::make_unique<NetworkGroup>(engine_, normalisation_, count, held_.hold == Hold::stage);
  }

 private:
  std::string name_;
  HeldClosure held_;
  Normalisation normalisation_;
  StepEngine<float> engine_;
};

}  // namespace

std::unique_ptr<ClosureModel> make_network_closure(const Model& model, const std::string& name,
                                                   HeldClosure held) {
  if (held.hold == Hold::stage && held.target == Target::mean)
    throw UsageError(
        "{}: was trained on step means, which are not closures at a stage; use the hold zero or linear",
        name);
  return std::make_unique<NetworkClosure>(model, name, held);
}

}  // namespace mac
