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

/// What a kind offers beside whose state is linear in the state before it, so that segments of a sequence can be
/// computed side by side (segments.hpp). A block's state, in vectors, is a history, which depends on the last
/// `reach` time points alone, and behind it the linear part: after a segment it is decay·(that before) + (what
/// comes out from zero).
template <class T>
class SegmentBlocks {
 public:
  virtual ~SegmentBlocks() = default;

  virtual std::size_t reach() const = 0;
  virtual std::size_t history_vectors() const = 0;
  /// Of the sums over a segment's time points that its decays are made of.
  virtual std::size_t sum_vectors() const = 0;

  /// The state's history after `reach` time points h.
  virtual void find_history(std::size_t block, T* state, Rows<const T> h, LayerWork& work) const = 0;
  /// The state goes through a chunk, and nothing else is computed; sums are added to.
  virtual void advance(std::size_t block, T* state, T* sums, Rows<const T> h, LayerWork& work,
                       std::size_t rows) const = 0;
  /// The linear part's gradient goes back through a chunk, and nothing else is computed. d_h is the gradient of
  /// the block's output, `state` the one before the chunk, of which the history is read.
  virtual void retreat(std::size_t block, T* d_state, Rows<const T> d_h, Rows<const T> h, const T* state,
                       LayerWork& work, std::size_t rows) const = 0;
  /// decays (laid out as a state; the linear part) of a segment with these sums
  virtual void find_decays(std::size_t block, T* decays, const T* sums) const = 0;
  /// The gradient of a history goes to its time points: d_h (of the block's input) and weights are added to.
  virtual void history_backward(std::size_t block, Rows<T> d_h, const BlockParameters<T>& d_weights,
                                Rows<const T> h, T* d_state, LayerWork& work) const = 0;
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
  /// Null unless the state is linear in the one before.
  virtual const SegmentBlocks<T>* segments() const = 0;
};

/// Of a kind's Block, which does the same for one block, where the state is linear with `kReach` and the functions
/// of SegmentBlocks. Its activations are a Block::Work(arena, sizes,
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
  const SegmentBlocks<T>* segments() const override {
    if constexpr (kLinearState)
      return &segments_;
    else
      return nullptr;
  }

 private:
  struct Work final : LayerWork {
    typename Block::Work of_layer;
    Work(Arena<T>& arena, const Sizes& sizes, std::size_t chunk) : of_layer(arena, sizes, chunk) {}
  };

  template <class B>
  class Segments final : public SegmentBlocks<T> {
   public:
    explicit Segments(const std::vector<B>& blocks) : blocks_(blocks) {}
    std::size_t reach() const override { return B::kReach; }
    std::size_t history_vectors() const override { return blocks_[0].history_vectors(); }
    std::size_t sum_vectors() const override { return blocks_[0].sum_vectors(); }
    void find_history(std::size_t block, T* state, Rows<const T> h, LayerWork& work) const override {
      blocks_[block].find_history(state, h, static_cast<Work&>(work).of_layer);
    }
    void advance(std::size_t block, T* state, T* sums, Rows<const T> h, LayerWork& work,
                 std::size_t rows) const override {
      blocks_[block].advance(state, sums, h, static_cast<Work&>(work).of_layer, rows);
    }
    void retreat(std::size_t block, T* d_state, Rows<const T> d_h, Rows<const T> h, const T* state,
                 LayerWork& work, std::size_t rows) const override {
      blocks_[block].retreat(d_state, d_h, h, state, static_cast<Work&>(work).of_layer, rows);
    }
    void find_decays(std::size_t block, T* decays, const T* sums) const override {
      blocks_[block].find_decays(decays, sums);
    }
    void history_backward(std::size_t block, Rows<T> d_h, const BlockParameters<T>& d_weights,
                          Rows<const T> h, T* d_state, LayerWork& work) const override {
      blocks_[block].history_backward(d_h, d_weights, h, d_state, static_cast<Work&>(work).of_layer);
    }

   private:
    const std::vector<B>& blocks_;
  };
  struct NoSegments {
    explicit NoSegments(const std::vector<Block>&) {}
  };
  static constexpr bool kLinearState = requires { Block::kReach; };

  Sizes sizes_;
  std::vector<Block> blocks_;
  std::conditional_t<kLinearState, Segments<Block>, NoSegments> segments_{blocks_};
};

}  // namespace mac::cpu
