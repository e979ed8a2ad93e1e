#include "training/cuda/rollout_network.hpp"

#include "training/cuda/coupled_chains.hpp"

namespace mac::cuda {

namespace {

class SequenceForm final : public DeviceRolloutNetwork {
 public:
  SequenceForm(const NetworkShape& shape, std::size_t models, SequenceDims dims, std::size_t steps)
      : network_(shape, models), dims_(dims), tapes_(steps) {}

  std::size_t models() const override { return network_.models(); }

  void forward(const float* parameters, std::size_t s, const float* x, float* y,
               cudaStream_t stream) override {
    network_.forward(parameters, dims_, x, y, nullptr, nullptr, &tapes_[s], stream);
  }

  void backward(const float* parameters, std::size_t s, const float* x, const float* d_y, float* gradient,
                bool add, float* d_x, cudaStream_t stream) override {
    network_.backward(parameters, dims_, x, nullptr, d_y, tapes_[s], {.parameters = gradient, .x = d_x}, add,
                      stream);
  }

 private:
  DeviceNetwork network_;
  SequenceDims dims_;
  std::vector<DeviceTape> tapes_;
};

/// One model at a time: its chains are ordered by t, then window, so that the memories after X_0..X_t of all
/// windows are one run of the array that step 1 starts from.
class AutoregressiveForm final : public DeviceRolloutNetwork {
 public:
  AutoregressiveForm(const NetworkShape& shape, std::size_t windows, std::size_t starts, std::size_t steps)
      : network_(shape, 1),
        windows_(windows),
        starts_(starts),
        memory_(steps),
        reading_tapes_(starts),
        tapes_(steps) {
    for (auto& memory : memory_) memory.reserve(starts * run());
    d_memory_.reserve(starts * run());
    d_before_.reserve(starts * run());
  }

  std::size_t models() const override { return 1; }

  void forward(const float* parameters, std::size_t s, const float* x, float* y,
               cudaStream_t stream) override {
    if (s > 0) {
      network_.forward(parameters, all(), x, y, memory_[s - 1].data(), memory_[s].data(), &tapes_[s], stream);
      return;
    }
    for (std::size_t t = 0; t < starts_; ++t)
      network_.forward(parameters, one(), x + t * windows_ * d_in(), y + t * windows_ * d_out(), before(t),
                       memory_[0].data() + t * run(), &reading_tapes_[t], stream);
  }

  void backward(const float* parameters, std::size_t s, const float* x, const float* d_y, float* gradient,
                bool add, float* d_x, cudaStream_t stream) override {
    const bool last = s + 1 == memory_.size();
    if (s > 0) {
      network_.backward(parameters, all(), x, memory_[s - 1].data(), d_y, tapes_[s],
                        {gradient, d_x, d_before_.data(), last ? nullptr : d_memory_.data()}, add, stream);
      std::swap(d_memory_, d_before_);
      return;
    }
    // Memory t is read by chain t's step 1 (d_memory_ so far) and by the reading of X_{t+1} (d_before_).
    if (last)
      check(cudaMemsetAsync(d_memory_.data(), 0, starts_ * run() * sizeof(float), stream), "clearing it");
    for (std::size_t t = starts_; t-- > 0;) {
      float* const d_here = d_memory_.data() + t * run();
      if (t + 1 < starts_) launch_add(d_before_.data(), d_here, run(), stream);
      network_.backward(
          parameters, one(), x + t * windows_ * d_in(), before(t), d_y + t * windows_ * d_out(),
          reading_tapes_[t],
          {gradient, d_x ? d_x + t * windows_ * d_in() : nullptr, t > 0 ? d_before_.data() : nullptr, d_here},
          add || t + 1 < starts_, stream);
    }
  }

 private:
  SequenceDims one() const { return {windows_, 1}; }
  SequenceDims all() const { return {windows_ * starts_, 1}; }
  std::size_t d_in() const { return network_.shape().d_in; }
  std::size_t d_out() const { return network_.shape().d_out; }
  std::size_t run() const { return windows_ * network_.shape().state_size(); }
  const float* before(std::size_t t) const { return t > 0 ? memory_[0].data() + (t - 1) * run() : nullptr; }

  DeviceNetwork network_;
  std::size_t windows_, starts_;
  std::vector<DeviceArray<float>> memory_;  // [s] (chains, state_size): after step s
  DeviceArray<float> d_memory_, d_before_;  // (chains, state_size)
  std::vector<DeviceTape> reading_tapes_, tapes_;
};

}  // namespace

std::unique_ptr<DeviceRolloutNetwork> make_device_rollout_network(RolloutForm form, const NetworkShape& shape,
                                                                  std::size_t models, std::size_t windows,
                                                                  std::size_t starts, std::size_t steps) {
  if (form == RolloutForm::sequence)
    return std::make_unique<SequenceForm>(shape, models, SequenceDims{windows, starts}, steps);
  return std::make_unique<AutoregressiveForm>(shape, windows, starts, steps);
}

}  // namespace mac::cuda
