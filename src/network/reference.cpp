// The reference engine: the whole network in plain loops, forward and backward. Start reading here; the
// layers are in reference_layers.hpp and kinds/KIND/reference.hpp.
//
// Paper, Neural Network Architectures (apdx_neural_network_architectures):
//
//   h = SiLU(input_proj x),   h ← h + Layer(Norm(h)) in every block,   y = W_2 SiLU(W_1 Norm(h))
//
// Every activation of a sequence is kept: memory is proportional to batch × time × n_blocks.
#include <algorithm>
#include <mac/error.hpp>
#include <mac/network.hpp>

#include "network/ensemble_engine.hpp"
#include "network/kinds/engines.hpp"
#include "network/parameters.hpp"
#include "network/reference_layer.hpp"
#include "network/reference_layers.hpp"

namespace mac {

namespace reference {

/// All (batch, time, d_model) unless said otherwise.
template <class T>
struct BlockActivations {
  std::vector<T> h;            // into the block
  std::vector<T> mean, scale;  // (batch, time): of the LayerNorm
  std::vector<T> normalised;   // into the layer
  std::unique_ptr<LayerTape> layer;
};

template <class T>
struct Activations final : Tape {
  SequenceDims dims;
  std::vector<T> embedding;  // input_proj, before SiLU
  std::vector<BlockActivations<T>> blocks;
  std::vector<T> h;  // after the last block
  std::vector<T> mean, scale;
  std::vector<T> normalised;
  std::vector<T> hidden;     // output_proj.0, before SiLU
  std::vector<T> activated;  // after SiLU

  void resize(const NetworkShape& shape, const ReferenceLayer<T>& layer, SequenceDims new_dims) {
    dims = new_dims;
    const std::size_t rows = dims.batch * dims.time, d = shape.d_model;
    blocks.resize(shape.n_blocks);
    for (BlockActivations<T>& block : blocks) {
      if (!block.layer) block.layer = layer.make_tape();
      for (auto* array : {&block.h, &block.normalised}) array->resize(rows * d);
      for (auto* array : {&block.mean, &block.scale}) array->resize(rows);
    }
    for (auto* array : {&embedding, &h, &normalised, &hidden, &activated}) array->resize(rows * d);
    for (auto* array : {&mean, &scale}) array->resize(rows);
  }
};

template <class T>
class Engine final : public SequenceEngine<T> {
 public:
  explicit Engine(const NetworkShape& shape)
      : shape_(shape),
        layout_(shape),
        layer_(engines_of(shape.kind).reference(shape, std::type_identity<T>())) {}

  const NetworkShape& shape() const override { return shape_; }

  std::unique_ptr<Tape> make_tape(SequenceDims) override { return std::make_unique<Activations<T>>(); }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    Activations<T> unrecorded;
    Activations<T>& a = tape ? dynamic_cast<Activations<T>&>(*tape) : unrecorded;
    a.resize(shape_, *layer_, dims);
    const auto w = view_parameters(shape_, layout_, parameters);
    const std::size_t rows = dims.batch * dims.time, d = shape_.d_model;

    linear_forward(a.embedding.data(), x, w.input_proj.weight, w.input_proj.bias, rows, shape_.d_in, d);
    silu_forward(a.blocks[0].h.data(), a.embedding.data(), rows * d);

    for (std::size_t i = 0; i < shape_.n_blocks; ++i) {
      BlockActivations<T>& block = a.blocks[i];
      std::vector<T>& next = i + 1 < shape_.n_blocks ? a.blocks[i + 1].h : a.h;
      layer_norm_forward(block.normalised.data(), block.mean.data(), block.scale.data(), block.h.data(),
                         w.blocks[i].norm.weight, w.blocks[i].norm.bias, rows, d);
      layer_->forward(next.data(), state_of(final_state, i), *block.layer, block.normalised.data(),
                      state_of(initial_state, i), w.blocks[i].layer, dims);
      for (std::size_t k = 0; k < rows * d; ++k) next[k] += block.h[k];
    }

    layer_norm_forward(a.normalised.data(), a.mean.data(), a.scale.data(), a.h.data(), w.norm.weight,
                       w.norm.bias, rows, d);
    linear_forward(a.hidden.data(), a.normalised.data(), w.hidden_proj.weight, w.hidden_proj.bias, rows, d,
                   d);
    silu_forward(a.activated.data(), a.hidden.data(), rows * d);
    linear_forward(y, a.activated.data(), w.output_proj.weight, w.output_proj.bias, rows, d, shape_.d_out);
  }

  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* grad_y,
                Tape& tape, const Gradients<T>& gradients) override {
    const auto& a = dynamic_cast<const Activations<T>&>(tape);
    if (a.dims.batch != dims.batch || a.dims.time != dims.time)
      throw Error("the tape holds a forward pass of {} × {} steps, the backward pass asks for {} × {}",
                  a.dims.batch, a.dims.time, dims.batch, dims.time);
    const auto w = view_parameters(shape_, layout_, parameters);
    const auto d_w = view_parameters(shape_, layout_, gradients.parameters);
    const std::size_t rows = dims.batch * dims.time, d = shape_.d_model;
    if (gradients.initial_state) std::fill_n(gradients.initial_state, dims.batch * shape_.state_size(), T(0));

    std::vector<T> d_activated(rows * d), d_hidden(rows * d), d_normalised(rows * d);
    std::vector<T> d_h(rows * d);  // of the residual stream, from the last block down to the first
    linear_backward(d_activated.data(), d_w.output_proj.weight, d_w.output_proj.bias, grad_y,
                    a.activated.data(), w.output_proj.weight, rows, d, shape_.d_out);
    silu_backward(d_hidden.data(), d_activated.data(), a.hidden.data(), rows * d);
    linear_backward(d_normalised.data(), d_w.hidden_proj.weight, d_w.hidden_proj.bias, d_hidden.data(),
                    a.normalised.data(), w.hidden_proj.weight, rows, d, d);
    layer_norm_backward(d_h.data(), d_w.norm.weight, d_w.norm.bias, d_normalised.data(), a.mean.data(),
                        a.scale.data(), a.h.data(), w.norm.weight, rows, d);

    for (std::size_t i = shape_.n_blocks; i-- > 0;) {
      const BlockActivations<T>& block = a.blocks[i];
      std::ranges::fill(d_normalised, T(0));
      layer_->backward(d_normalised.data(), state_of(gradients.initial_state, i), d_w.blocks[i].layer,
                       d_h.data(), state_of(gradients.final_state, i), *block.layer, block.normalised.data(),
                       state_of(initial_state, i), w.blocks[i].layer, dims);
      layer_norm_backward(d_h.data(), d_w.blocks[i].norm.weight, d_w.blocks[i].norm.bias, d_normalised.data(),
                          block.mean.data(), block.scale.data(), block.h.data(), w.blocks[i].norm.weight,
                          rows, d);
    }

    std::vector<T> d_embedding(rows * d), d_x(rows * shape_.d_in);
    silu_backward(d_embedding.data(), d_h.data(), a.embedding.data(), rows * d);
    linear_backward(d_x.data(), d_w.input_proj.weight, d_w.input_proj.bias, d_embedding.data(), x,
                    w.input_proj.weight, rows, shape_.d_in, d);
    if (gradients.x) std::ranges::copy(d_x, gradients.x);
  }

 private:
  /// The share of block i in states (batch, state_size).
  template <class State>
  StateView<State> state_of(State* states, std::size_t i) const {
    const std::size_t stride = shape_.state_size();
    return StateView<State>{states, stride}.skip(i * (stride / shape_.n_blocks));
  }

  NetworkShape shape_;
  ParameterLayout layout_;
  std::unique_ptr<ReferenceLayer<T>> layer_;
};

}  // namespace reference

template <class T>
std::unique_ptr<SequenceEngine<T>> make_reference_engine(const NetworkShape& shape) {
  return with_members<T>(shape,
                         [](const NetworkShape& one) { return std::make_unique<reference::Engine<T>>(one); });
}

template std::unique_ptr<SequenceEngine<float>> make_reference_engine(const NetworkShape&);
template std::unique_ptr<SequenceEngine<double>> make_reference_engine(const NetworkShape&);

}  // namespace mac
