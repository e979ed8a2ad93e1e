// The network inside a rollout loss: K predictions in a row for a group of windows, and their gradient.
//
// A window of length L + K gives L chains, one from each of its first L states. Chain (b, t) lies at index
// chain(b, t) of every array (chains, ...). The two forms differ in what the network remembers:
//
//   sequence         step s reads the s-step predictions of t = 0..L-1 as one sequence, from zero memory
//   autoregressive   step s of chain t follows X_0..X_t, z(t,1), ..., z(t,s): its own memory, carried on
//
// Paper, Training Loss Choices (apdx_training_losses): the sequence form, L = 54 and K = 10 for Lorenz '96.
// Of a local network every site is a window of its own.
// Chains before t = `first` are only read, for the memory of those after them: their predictions after step 0
// mean nothing. In sequence form all of them are needed.
#pragma once

#include <mac/network.hpp>
#include <mac/training_plan.hpp>
#include <memory>

namespace mac {

template <class T>
class RolloutNetwork {
 public:
  virtual ~RolloutNetwork() = default;

  virtual std::size_t chain(std::size_t b, std::size_t t) const = 0;
  virtual std::size_t first() const = 0;  // t of the first chains that go on after step 0

  /// x (chains, d_in) -> y (chains, d_out) of step s; called for s = 0, 1, ..., K-1 ...
  virtual void forward(const T* parameters, std::size_t s, const T* x, T* y) = 0;
  /// ... then this for s = K-1, ..., 0, with the same x; adds to gradient, overwrites d_x.
  virtual void backward(const T* parameters, std::size_t s, const T* x, const T* d_y, T* gradient,
                        T* d_x) = 0;
};

/// For `windows` windows with `starts` starting states each, K = `steps`.
template <class T>
std::unique_ptr<RolloutNetwork<T>> make_rollout_network(RolloutForm form, SequenceEngine<T>& engine,
                                                        std::size_t windows, std::size_t starts,
                                                        std::size_t steps, std::size_t first);

}  // namespace mac
