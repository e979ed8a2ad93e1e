// Sequence mode of an ensemble: an engine of one network takes its members one after the other.
#pragma once

#include <algorithm>
#include <mac/network.hpp>

#include "network/deviation_engine.hpp"

namespace mac {

template <class T>
class EnsembleEngine final : public SequenceEngine<T> {
 public:
  EnsembleEngine(const NetworkShape& shape, std::unique_ptr<SequenceEngine<T>> one)
      : shape_(shape), one_(std::move(one)), parameters_(parameter_count(shape.member())) {}

  const NetworkShape& shape() const override { return shape_; }

  std::unique_ptr<Tape> make_tape(SequenceDims largest) override {
    auto tapes = std::make_unique<Tapes>();
    for (std::size_t m = 0; m < shape_.members; ++m) tapes->members.push_back(one_->make_tape(largest));
    return tapes;
  }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    std::vector<T> before, after(final_state ? dims.batch * state() : 0),
        output(dims.batch * dims.time * shape_.d_out);
    std::fill_n(y, output.size(), T(0));
    for (std::size_t m = 0; m < shape_.members; ++m) {
      one_->forward(parameters + m * parameters_, dims, x, output.data(),
                    gathered(initial_state, m, dims, before), final_state ? after.data() : nullptr,
                    tape ? members_of(*tape)[m].get() : nullptr);
      for (std::size_t i = 0; i < output.size(); ++i) y[i] += output[i];
      scatter(after, m, dims, final_state);
    }
  }

  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* grad_y,
                Tape& tape, const Gradients<T>& gradients) override {
    std::vector<T> before, d_after, d_before(gradients.initial_state ? dims.batch * state() : 0),
        d_x(gradients.x ? dims.batch * dims.time * shape_.d_in : 0);
    if (gradients.x) std::fill_n(gradients.x, d_x.size(), T(0));
    for (std::size_t m = 0; m < shape_.members; ++m) {
      one_->backward(parameters + m * parameters_, dims, x, gathered(initial_state, m, dims, before), grad_y,
                     *members_of(tape)[m],
                     {gradients.parameters + m * parameters_, gradients.x ? d_x.data() : nullptr,
                      gradients.initial_state ? d_before.data() : nullptr,
                      gathered(gradients.final_state, m, dims, d_after)});
      for (std::size_t i = 0; i < d_x.size(); ++i) gradients.x[i] += d_x[i];
      scatter(d_before, m, dims, gradients.initial_state);
    }
  }

 private:
  struct Tapes final : Tape {
    std::vector<std::unique_ptr<Tape>> members;
  };
  static std::vector<std::unique_ptr<Tape>>& members_of(Tape& tape) {
    return dynamic_cast<Tapes&>(tape).members;
  }

  std::size_t state() const { return shape_.state_size() / shape_.members; }  // of a member

  /// Member m's share of states (batch, members, state); null stays null.
  const T* gathered(const T* states, std::size_t m, SequenceDims dims, std::vector<T>& to) const {
    if (!states) return nullptr;
    to.resize(dims.batch * state());
    for (std::size_t b = 0; b < dims.batch; ++b)
      std::copy_n(states + b * shape_.state_size() + m * state(), state(), to.data() + b * state());
    return to.data();
  }
  void scatter(const std::vector<T>& from, std::size_t m, SequenceDims dims, T* states) const {
    for (std::size_t b = 0; states && b < dims.batch; ++b)
      std::copy_n(from.data() + b * state(), state(), states + b * shape_.state_size() + m * state());
  }

  NetworkShape shape_;
  std::unique_ptr<SequenceEngine<T>> one_;
  std::size_t parameters_;  // of a member
};

/// make(shape) gives an engine of a single network.
template <class T, class Make>
std::unique_ptr<SequenceEngine<T>> with_members(const NetworkShape& shape, const Make& make) {
  if (shape.deviations) return std::make_unique<DeviationEngine<T>>(shape, make(shape.core()));
  if (shape.members == 1) return make(shape);
  return std::make_unique<EnsembleEngine<T>>(shape, make(shape.member()));
}

}  // namespace mac
