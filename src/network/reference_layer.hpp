// A layer of the reference engine, as its kind computes it.
#pragma once

#include <cstddef>
#include <mac/network.hpp>
#include <memory>

namespace mac::reference {

/// One block's share of the recurrent states of a batch. Sample b starts at `data + b·stride`. Null data
/// means zeros (an input) or not wanted (an output).
template <class T>
struct StateView {
  T* data = nullptr;
  std::size_t stride = 0;

  explicit operator bool() const { return data != nullptr; }
  T* sample(std::size_t b) const { return data + b * stride; }
  StateView skip(std::size_t count) const { return {data ? data + count : nullptr, stride}; }
};

/// What a layer's forward pass leaves for its backward pass.
class LayerTape {
 public:
  virtual ~LayerTape() = default;
};

/// The conventions are those of reference_layers.hpp; `weights` are the tensors of the layer, one after the
/// other.
template <class T>
class ReferenceLayer {
 public:
  virtual ~ReferenceLayer() = default;

  virtual std::unique_ptr<LayerTape> make_tape() const = 0;

  /// out, u (batch, time, d_model); out is overwritten
  virtual void forward(T* out, StateView<T> final_state, LayerTape& tape, const T* u,
                       StateView<const T> initial, const T* weights, SequenceDims dims) const = 0;
  /// d_u, d_initial and d_weights are added to.
  virtual void backward(T* d_u, StateView<T> d_initial, T* d_weights, const T* d_out,
                        StateView<const T> d_final, const LayerTape& tape, const T* u,
                        StateView<const T> initial, const T* weights, SequenceDims dims) const = 0;
};

/// By a kind's own reference_forward and reference_backward, which keep Activations in between.
template <class T, class Sizes, class Activations>
class ReferenceLayerOf final : public ReferenceLayer<T> {
 public:
  explicit ReferenceLayerOf(const NetworkShape& shape) : sizes_(shape) {}

  std::unique_ptr<LayerTape> make_tape() const override { return std::make_unique<Kept>(); }

  void forward(T* out, StateView<T> final_state, LayerTape& tape, const T* u, StateView<const T> initial,
               const T* weights, SequenceDims dims) const override {
    reference_forward(out, final_state, dynamic_cast<Kept&>(tape).activations, u, initial,
                      view(sizes_, weights), sizes_, dims);
  }
  void backward(T* d_u, StateView<T> d_initial, T* d_weights, const T* d_out, StateView<const T> d_final,
                const LayerTape& tape, const T* u, StateView<const T> initial, const T* weights,
                SequenceDims dims) const override {
    reference_backward(d_u, d_initial, view(sizes_, d_weights), d_out, d_final,
                       dynamic_cast<const Kept&>(tape).activations, u, initial, view(sizes_, weights), sizes_,
                       dims);
  }

 private:
  struct Kept final : LayerTape {
    Activations activations;
  };
  Sizes sizes_;
};

}  // namespace mac::reference
