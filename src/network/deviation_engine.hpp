// Sequence mode of a network that predicts how far its outputs may be off (NetworkShape::deviations): an engine of the
// network behind it gives means m and numbers s,
//
//   y = m + softplus(s) e,   e the last d_out inputs
//
// which are noise. They reach the outputs alone, not the network's memory.
#pragma once

#include <algorithm>
#include <mac/network.hpp>

#include "network/reference_layers.hpp"

namespace mac {

template <class T>
class DeviationEngine final : public SequenceEngine<T> {
 public:
  /// `core` is an engine of shape.core().
  DeviationEngine(const NetworkShape& shape, std::unique_ptr<SequenceEngine<T>> core)
      : shape_(shape), core_(std::move(core)) {}

  const NetworkShape& shape() const override { return shape_; }
  /// x (d_in - d_out) -> m, s (2 d_out), with the same parameters: for those who want the distribution itself.
  SequenceEngine<T>& core() { return *core_; }

  std::unique_ptr<Tape> make_tape(SequenceDims largest) override {
    auto tape = std::make_unique<CoreTape>();
    tape->core = core_->make_tape(largest);
    return tape;
  }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    auto* const own = dynamic_cast<CoreTape*>(tape);
    std::vector<T> outputs;
    std::vector<T>& z = own ? own->outputs : outputs;
    z.resize(rows(dims) * 2 * c());
    core_->forward(parameters, dims, inputs_of(dims, x).data(), z.data(), initial_state, final_state,
                   own ? own->core.get() : nullptr);
    for (std::size_t row = 0; row < rows(dims); ++row)
      for (std::size_t j = 0; j < c(); ++j) {
        const T* const of_row = z.data() + row * 2 * c();
        y[row * c() + j] = of_row[j] + reference::softplus(of_row[c() + j]) * noise(x, row)[j];
      }
  }

  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* grad_y,
                Tape& tape, const Gradients<T>& gradients) override {
    auto& own = dynamic_cast<CoreTape&>(tape);
    std::vector<T> d_z(own.outputs.size()), d_x(gradients.x ? rows(dims) * d() : 0);
    for (std::size_t row = 0; row < rows(dims); ++row)
      for (std::size_t j = 0; j < c(); ++j) {
        const std::size_t mean = row * 2 * c() + j;
        const T slope = grad_y[row * c() + j], s = own.outputs[mean + c()];
        d_z[mean] = slope;
        d_z[mean + c()] = slope * noise(x, row)[j] * reference::sigmoid(s);
        if (gradients.x) gradients.x[row * (d() + c()) + d() + j] = slope * reference::softplus(s);
      }
    Gradients<T> of_core = gradients;
    of_core.x = gradients.x ? d_x.data() : nullptr;
    core_->backward(parameters, dims, inputs_of(dims, x).data(), initial_state, d_z.data(), *own.core,
                    of_core);
    for (std::size_t row = 0; gradients.x && row < rows(dims); ++row)
      std::copy_n(d_x.data() + row * d(), d(), gradients.x + row * (d() + c()));
  }

 private:
  struct CoreTape final : Tape {
    std::unique_ptr<Tape> core;
    std::vector<T> outputs;  // m and s of every row
  };

  std::size_t c() const { return shape_.d_out; }
  std::size_t d() const { return shape_.d_in - shape_.d_out; }
  static std::size_t rows(SequenceDims dims) { return dims.batch * dims.time; }
  const T* noise(const T* x, std::size_t row) const { return x + row * (d() + c()) + d(); }

  const std::vector<T>& inputs_of(SequenceDims dims, const T* x) {
    x_.resize(rows(dims) * d());
    for (std::size_t row = 0; row < rows(dims); ++row)
      std::copy_n(x + row * (d() + c()), d(), x_.data() + row * d());
    return x_;
  }

  NetworkShape shape_;
  std::unique_ptr<SequenceEngine<T>> core_;
  std::vector<T> x_;
};

}  // namespace mac
