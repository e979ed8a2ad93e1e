// A network of any size on the device. Models are worked off one after the other, each in the same way: several give
// the same bytes as each alone.
#pragma once

#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/rows.hpp"
#include "network/cuda/network_path.hpp"

namespace mac::cuda {

class GeneralNetwork final : public NetworkPath {
 public:
  GeneralNetwork(const NetworkShape& shape, std::size_t models);

  std::size_t tape_bytes(SequenceDims dims) const override;
  void forward(const float* parameters, SequenceDims dims, const float* x, float* y,
               const float* initial_state, float* final_state, DeviceTape* tape,
               cudaStream_t stream) override;
  void backward(const float* parameters, SequenceDims dims, const float* x, const float* initial_state,
                const float* d_y, DeviceTape& tape, const Gradients<float>& gradients, bool add,
                cudaStream_t stream) override;

 private:
  /// What a forward pass leaves of a model. Without a tape all blocks share one.
  struct Kept {
    float* x;          // (rows, d_in), a copy
    float* embedding;  // (rows, d_model): input_proj, before SiLU
    struct Block {
      float *h, *u, *layer;  // (rows, d_model): into the block, and into the layer; the layer's own
    };
    std::vector<Block> blocks;
    float *h, *normalised;      // (rows, d_model): after the last block
    float *hidden, *activated;  // (rows, d_model): output_proj.0, before SiLU and after
  };
  Kept kept(Parts& memory, SequenceDims dims, bool recorded) const;
  std::size_t kept_size(SequenceDims dims, bool recorded) const;

  const float* weight(const char* name) const;
  float* gradient(const char* name);
  BlockTensors<const float> layer_weights(std::size_t block) const;
  LayerPass layer_pass(SequenceDims dims, std::size_t block, const Kept& kept, const float* initial,
                       float* scratch, cudaStream_t stream);
  template <class T>
  BlockStates<T> block_states(T* states, std::size_t block) const;

  void forward_model(const Kept& kept, SequenceDims dims, const float* x, float* y, const float* initial,
                     float* final, cudaStream_t stream);
  void backward_model(const Kept& kept, SequenceDims dims, const float* d_y, float* d_x, const float* initial,
                      float* d_initial, const float* d_final, cudaStream_t stream);

  NetworkShape shape_;
  ParameterLayout layout_;
  std::size_t models_;
  std::vector<TensorPlace> places_;    // in the order of the layout
  std::vector<std::size_t> in_layer_;  // the layer's tensors, from the first on
  std::size_t aligned_size_ = 0;       // of all parameters
  std::unique_ptr<GeneralLayer> layer_;
  Products products_;
  DeviceArray<TensorPlace> device_places_;
  DeviceArray<float> weights_, gradients_;  // of a model, aligned
  DeviceArray<float> unrecorded_, scratch_, sums_;
};

}  // namespace mac::cuda
