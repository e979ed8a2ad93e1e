// The layers of a network's blocks in step mode, as their kind packs and runs them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mac::cpu {

/// Samples that go through the network together and share each load of a weight.
constexpr std::size_t kStepTile = 4;

/// The activations of a tile's samples; those of sample s lie `stride·s` behind the pointers.
template <class T>
struct StepTile {
  T* u;     // (padded d_model) the layer's input, then its output
  T* work;  // (scratch_size) whatever the layer needs
  std::size_t stride;
};

template <class T>
class StepBlocks {
 public:
  virtual ~StepBlocks() = default;

  /// Numbers of scratch space for one sample, whole vectors.
  virtual std::size_t scratch_size() const = 0;

  /// u ← Layer(u) of a block, of 1 or kStepTile samples; `state` is the block's of the first sample.
  virtual void step(std::size_t block, std::size_t samples, const StepTile<T>& tile, T* state,
                    std::size_t state_stride) const = 0;
};

/// How a layer with such packed weights takes a step.
template <class T, class Packed>
struct StepLayerKernels {
  using Step = void (*)(const Packed& weights, const StepTile<T>& tile, T* state, std::size_t state_stride);
  Step one, tile;  // sample; samples
};

/// Blocks of a kind whose weights are packed as Packed.
template <class T, class Packed>
class StepBlocksOf final : public StepBlocks<T> {
 public:
  explicit StepBlocksOf(std::vector<Packed> blocks)
      : kernels_(Packed::kernels()), blocks_(std::move(blocks)) {}

  std::size_t scratch_size() const override { return blocks_.front().scratch_size(); }
  void step(std::size_t block, std::size_t samples, const StepTile<T>& tile, T* state,
            std::size_t state_stride) const override {
    (samples == 1 ? kernels_.one : kernels_.tile)(blocks_[block], tile, state, state_stride);
  }

 private:
  StepLayerKernels<T, Packed> kernels_;
  std::vector<Packed> blocks_;
};

}  // namespace mac::cpu
