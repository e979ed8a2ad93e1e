// A network of any size on the device, in float or double. Models are worked off one after the other, each in the same way: several give
// the same bytes as each alone.
#pragma once

#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/rows.hpp"
#include "network/cuda/network_path.hpp"

namespace mac::cuda {

template <class T>
class GeneralNetwork final : public NetworkPath<T> {
 public:
  GeneralNetwork(const NetworkShape& shape, std::size_t models);

  std::size_t tape_bytes(SequenceDims dims) const override;
  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, DeviceTape* tape, cudaStream_t stream) override;
  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* d_y,
                DeviceTape& tape, const Gradients<T>& gradients, bool add, cudaStream_t stream) override;

  /// As forward from zeros, with the states after every step: (model, time, sequence, state).
  void forward_every(const T* parameters, SequenceDims dims, const T* x, T* y, T* states, DeviceTape& tape,
                     cudaStream_t stream);
  /// As backward after that, with the gradient of those states.
  void backward_every(const T* parameters, SequenceDims dims, const T* states, const T* d_y,
                      const T* d_states, DeviceTape& tape, T* d_parameters, bool add, cudaStream_t stream);

 private:
  /// What a forward pass leaves of a model. Without a tape all blocks share one.
  struct Kept {
    T* x;          // (rows, d_in), a copy
    T* embedding;  // (rows, d_model): input_proj, before SiLU
    struct Block {
      T *h, *u, *layer;  // (rows, d_model): into the block, and into the layer; the layer's own
    };
    std::vector<Block> blocks;
    T *h, *normalised;      // (rows, d_model): after the last block
    T *hidden, *activated;  // (rows, d_model): output_proj.0, before SiLU and after
  };
  Kept kept(Parts<T>& memory, SequenceDims dims, bool recorded) const;
  std::size_t kept_size(SequenceDims dims, bool recorded) const;

  const T* weight(const char* name) const;
  T* gradient(const char* name);
  BlockTensors<const T> layer_weights(std::size_t block) const;
  /// A pass's states: given or wanted before the first step, after the last, or after every step.
  template <class U>
  struct States {
    U* first;  // of all models, or null
    bool every = false;
  };
  template <class U>
  BlockStates<U> of_model(States<U> states, std::size_t model, SequenceDims dims) const;
  template <class U>
  BlockStates<U> of_block(BlockStates<U> of_network, std::size_t block) const;

  LayerPass<T> layer_pass(SequenceDims dims, std::size_t block, const Kept& kept,
                          BlockStates<const T> initial, BlockStates<const T> after, T* scratch,
                          cudaStream_t stream);

  void forward_models(const T* parameters, SequenceDims dims, const T* x, T* y, States<const T> initial,
                      States<T> final, DeviceTape* tape, cudaStream_t stream);
  void backward_models(const T* parameters, SequenceDims dims, States<const T> initial, States<const T> after,
                       const T* d_y, T* d_x, States<T> d_initial, States<const T> d_final, DeviceTape& tape,
                       T* d_parameters, bool add, cudaStream_t stream);
  void forward_model(const Kept& kept, SequenceDims dims, const T* x, T* y, BlockStates<const T> initial,
                     BlockStates<T> final, cudaStream_t stream);
  /// A pass's states and their gradients.
  struct BackwardStates {
    BlockStates<const T> initial, after, d_final;
    BlockStates<T> d_initial;
  };
  void backward_model(const Kept& kept, SequenceDims dims, const T* d_y, T* d_x, const BackwardStates& states,
                      cudaStream_t stream);

  NetworkShape shape_;
  ParameterLayout layout_;
  std::size_t models_;
  std::vector<TensorPlace> places_;    // in the order of the layout
  std::vector<std::size_t> in_layer_;  // the layer's tensors, from the first on
  std::size_t aligned_size_ = 0;       // of all parameters
  std::unique_ptr<GeneralLayer<T>> layer_;
  Products<T> products_;
  PendingSums<T> sums_;
  DeviceArray<TensorPlace> device_places_;
  DeviceArray<T> weights_, gradients_;  // of a model, aligned
  DeviceArray<char> unrecorded_;        // as a tape's, of forward passes without one
  DeviceArray<T> scratch_;
};

}  // namespace mac::cuda
