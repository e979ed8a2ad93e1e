// A layer of any size on the device, as its kind computes it: products by cuBLAS, the rest in kernels of its own.
// Numbers lie as in the reference engine: matrices are (rows, channels), a row a time step of a sequence, sequences
// one after the other. A model is worked off at a time.
#pragma once

#include <mac/network.hpp>
#include <memory>

#include "network/cuda/general/block_states.hpp"
#include "network/cuda/general/cublas.hpp"

namespace mac::cuda {

/// Where a block's tensors lie, each at a multiple of 128 bytes; weights or gradients, in the order of Layer::tensors.
template <class T>
class BlockTensors {
 public:
  BlockTensors(T* first, const std::vector<std::size_t>& offsets) : first_(first), offsets_(&offsets) {}
  T* operator[](std::size_t i) const { return first_ + (*offsets_)[i]; }

 private:
  T* first_;
  const std::vector<std::size_t>* offsets_;
};

/// Hands out parts of an array, each at a multiple of 128 bytes. Asked with null, only counts.
template <class T>
class Parts {
 public:
  explicit Parts(T* first) : first_(first) {}
  T* take(std::size_t count) {
    T* const part = first_ ? first_ + taken_ : nullptr;
    taken_ += aligned(count);
    return part;
  }
  std::size_t taken() const { return taken_; }

 private:
  T* first_;
  std::size_t taken_ = 0;
};

/// What every pass is told.
template <class T>
struct LayerPass {
  SequenceDims dims;
  BlockTensors<const T> weights;
  BlockStates<const T> initial;
  BlockStates<const T> after;  // the way back: states after every step, if the forward pass left them
  T* tape;                     // tape_size(dims) numbers
  T* scratch;                  // scratch_size(dims) numbers, of all layers in turn
  Products<T>& products;
  PendingSums<T>& sums;  // gradients of weights
  cudaStream_t stream;

  std::size_t rows() const { return dims.batch * dims.time; }
};

template <class T>
class GeneralLayer {
 public:
  virtual ~GeneralLayer() = default;

  virtual std::size_t tape_size(SequenceDims dims) const = 0;
  virtual std::size_t scratch_size(SequenceDims dims) const = 0;

  /// out, u (rows, d_model); out is overwritten
  virtual void forward(const LayerPass<T>& pass, T* out, const T* u, BlockStates<T> final_state) = 0;
  /// d_u and d_initial are overwritten, and d_weights when pass.sums are made. d_final is of every step where the
  /// forward pass left all states.
  virtual void backward(const LayerPass<T>& pass, T* d_u, BlockTensors<T> d_weights, BlockStates<T> d_initial,
                        const T* d_out, const T* u, BlockStates<const T> d_final) = 0;
};

/// Throws Error if the network's sizes are beyond the kernels.
template <class T>
std::unique_ptr<GeneralLayer<T>> make_general_layer(const NetworkShape& shape);

}  // namespace mac::cuda

namespace mac {

// Each kind defines its own, for float and double.
#define MAC_KIND(kind)                                                                  \
  namespace kind {                                                                      \
  template <class T>                                                                    \
  std::unique_ptr<cuda::GeneralLayer<T>> make_general_layer(const NetworkShape& shape); \
  }
MAC_LAYER_KINDS(MAC_KIND)
#undef MAC_KIND

}  // namespace mac
