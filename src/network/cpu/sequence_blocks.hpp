// The blocks of a network over chunks of time points, h + Layer(LayerNorm(h)), as their kind computes them.
#pragma once

#include <mac/network.hpp>
#include <memory>
#include <span>
#include <vector>

#include "network/cpu/workspace.hpp"
#include "network/parameters.hpp"

namespace mac::cpu {

/// The activations of a chunk and their gradients, reused by all blocks of a thread.
class LayerWork {
 public:
  virtual ~LayerWork() = default;
};

template <class T>
class SequenceBlocks {
 public:
  virtual ~SequenceBlocks() = default;

  /// The place in the kernels' state of number i of a block's state as NetworkShape::state_size() has it.
  virtual std::size_t place_of_state(std::size_t i) const = 0;
  virtual std::unique_ptr<LayerWork> make_work(Arena<T>& arena, std::size_t chunk) const = 0;

  /// Called whenever the weights have changed.
  virtual void take_weights() = 0;

  /// next = h + Layer(LayerNorm(h)); the state is advanced.
  virtual void forward(std::size_t block, Rows<T> next, Rows<const T> h, T* state, LayerWork& work,
                       std::size_t rows) const = 0;
  /// d_h comes in as the gradient of `next`, leaves as that of h; likewise d_state. `state` is the one before
  /// the chunk: all activations are computed again from it and h.
  virtual void backward(std::size_t block, Rows<T> d_h, T* d_state, const BlockParameters<T>& d_weights,
                        Rows<const T> h, const T* state, LayerWork& work, std::size_t rows) const = 0;
};

/// Of a kind's Block, which does the same for one block. Its activations are a Block::Work(arena, sizes,
/// chunk).
template <class T, class Sizes, class Block>
class SequenceBlocksOf final : public SequenceBlocks<T> {
 public:
  SequenceBlocksOf(const NetworkShape& shape, const Kernels<T>& kernels, Arena<T>& arena,
                   std::span<const BlockParameters<const T>> weights)
      : sizes_(shape) {
    for (const BlockParameters<const T>& of_block : weights)
      blocks_.emplace_back(sizes_, kernels, arena, of_block);
  }

  std::size_t place_of_state(std::size_t i) const override { return Block::place_of_state(sizes_, i); }
  std::unique_ptr<LayerWork> make_work(Arena<T>& arena, std::size_t chunk) const override {
    return std::make_unique<Work>(arena, sizes_, chunk);
  }
  void take_weights() override {
    for (Block& block : blocks_) block.take_weights();
  }
  void forward(std::size_t block, Rows<T> next, Rows<const T> h, T* state, LayerWork& work,
               std::size_t rows) const override {
    blocks_[block].forward(next, h, state, static_cast<Work&>(work).of_layer, rows);
  }
  void backward(std::size_t block, Rows<T> d_h, T* d_state, const BlockParameters<T>& d_weights,
                Rows<const T> h, const T* state, LayerWork& work, std::size_t rows) const override {
    blocks_[block].backward(d_h, d_state, d_weights, h, state, static_cast<Work&>(work).of_layer, rows);
  }

 private:
  struct Work final : LayerWork {
    typename Block::Work of_layer;
    Work(Arena<T>& arena, const Sizes& sizes, std::size_t chunk) : of_layer(arena, sizes, chunk) {}
  };

  Sizes sizes_;
  std::vector<Block> blocks_;
};

}  // namespace mac::cpu
