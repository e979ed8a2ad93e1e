#include "training/rollout_network.hpp"

#include <algorithm>
#include <vector>

namespace mac {

namespace {

template <class T>
class SequenceForm final : public RolloutNetwork<T> {
 public:
  SequenceForm(SequenceEngine<T>& engine, SequenceDims dims, std::size_t steps)
      : engine_(engine), dims_(dims) {
    for (std::size_t s = 0; s < steps; ++s) tapes_.push_back(engine.make_tape(dims));
  }

  std::size_t chain(std::size_t b, std::size_t t) const override { return b * dims_.time + t; }
  std::size_t first() const override { return 0; }

  void forward(const T* parameters, std::size_t s, const T* x, T* y) override {
    engine_.forward(parameters, dims_, x, y, nullptr, nullptr, tapes_[s].get());
  }

  void backward(const T* parameters, std::size_t s, const T* x, const T* d_y, T* gradient, T* d_x) override {
    engine_.backward(parameters, dims_, x, nullptr, d_y, *tapes_[s], {.parameters = gradient, .x = d_x});
  }

 private:
  SequenceEngine<T>& engine_;
  SequenceDims dims_;
  std::vector<std::unique_ptr<Tape>> tapes_;
};

/// Chains are ordered by t, then b: the memories after X_0..X_t of all windows are then one run of the array
/// that step 1 starts from.
template <class T>
class AutoregressiveForm final : public RolloutNetwork<T> {
 public:
  AutoregressiveForm(SequenceEngine<T>& engine, std::size_t windows, std::size_t starts, std::size_t steps,
                     std::size_t first)
      : engine_(engine),
        windows_(windows),
        starts_(starts),
        first_(first),
        state_(engine.shape().state_size()) {
    memory_.resize(steps);
    for (auto& memory : memory_) memory.resize(windows * starts * state_);
    d_memory_.resize(windows * starts * state_);
    d_before_.resize(windows * starts * state_);
    for (std::size_t t = 0; t < starts; ++t) reading_tapes_.push_back(engine.make_tape({windows, 1}));
    for (std::size_t s = 1; s < steps; ++s) tapes_.push_back(engine.make_tape(going()));
  }

  std::size_t chain(std::size_t b, std::size_t t) const override { return t * windows_ + b; }
  std::size_t first() const override { return first_; }

  void forward(const T* parameters, std::size_t s, const T* x, T* y) override {
    if (s > 0) {
      engine_.forward(parameters, going(), x + skipped() * d_in(), y + skipped() * d_out(), memory(s - 1),
                      memory(s), tapes_[s - 1].get());
      return;
    }
    for (std::size_t t = 0; t < starts_; ++t)
      engine_.forward(parameters, one(), x + t * windows_ * d_in(), y + t * windows_ * d_out(), before(t),
                      memory_[0].data() + t * windows_ * state_, reading_tapes_[t].get());
  }

  void backward(const T* parameters, std::size_t s, const T* x, const T* d_y, T* gradient, T* d_x) override {
    const bool last = s + 1 == memory_.size();
    if (s > 0) {
      const std::size_t from = skipped() * state_;
      engine_.backward(parameters, going(), x + skipped() * d_in(), memory(s - 1), d_y + skipped() * d_out(),
                       *tapes_[s - 1],
                       {gradient, d_x ? d_x + skipped() * d_in() : nullptr, d_before_.data() + from,
                        last ? nullptr : d_memory_.data() + from});
      d_memory_.swap(d_before_);
      return;
    }
    // Memory t is read by chain t's step 1 (d_memory_ so far) and by the reading of X_{t+1} (d_before_).
    std::fill_n(d_memory_.begin(), last ? d_memory_.size() : skipped() * state_, T(0));
    const std::size_t run = windows_ * state_;
    for (std::size_t t = starts_; t-- > 0;) {
      T* const d_here = d_memory_.data() + t * run;
      if (t + 1 < starts_)
        for (std::size_t i = 0; i < run; ++i) d_here[i] += d_before_[i];
      engine_.backward(parameters, one(), x + t * windows_ * d_in(), before(t), d_y + t * windows_ * d_out(),
                       *reading_tapes_[t],
                       {gradient, d_x ? d_x + t * windows_ * d_in() : nullptr,
                        t > 0 ? d_before_.data() : nullptr, d_here});
    }
  }

 private:
  SequenceDims one() const { return {windows_, 1}; }
  SequenceDims going() const { return {windows_ * (starts_ - first_), 1}; }  // the chains after step 0 ...
  std::size_t skipped() const { return windows_ * first_; }                  // ... and those before them
  T* memory(std::size_t s) { return memory_[s].data() + skipped() * state_; }
  std::size_t d_in() const { return engine_.shape().d_in; }
  std::size_t d_out() const { return engine_.shape().d_out; }
  const T* before(std::size_t t) const {
    return t > 0 ? memory_[0].data() + (t - 1) * windows_ * state_ : nullptr;
  }

  SequenceEngine<T>& engine_;
  std::size_t windows_, starts_, first_, state_;
  std::vector<std::vector<T>> memory_;  // [s] (chains, state_size): after step s
  std::vector<T> d_memory_, d_before_;  // (chains, state_size)
  std::vector<std::unique_ptr<Tape>> reading_tapes_, tapes_;
};

}  // namespace

template <class T>
std::unique_ptr<RolloutNetwork<T>> make_rollout_network(RolloutForm form, SequenceEngine<T>& engine,
                                                        std::size_t windows, std::size_t starts,
                                                        std::size_t steps, std::size_t first) {
  if (form == RolloutForm::sequence)
    return std::make_unique<SequenceForm<T>>(engine, SequenceDims{windows, starts}, steps);
  return std::make_unique<AutoregressiveForm<T>>(engine, windows, starts, steps, first);
}

template std::unique_ptr<RolloutNetwork<float>> make_rollout_network(RolloutForm, SequenceEngine<float>&,
                                                                     std::size_t, std::size_t, std::size_t,
                                                                     std::size_t);
template std::unique_ptr<RolloutNetwork<double>> make_rollout_network(RolloutForm, SequenceEngine<double>&,
                                                                      std::size_t, std::size_t, std::size_t,
                                                                      std::size_t);

}  // namespace mac
