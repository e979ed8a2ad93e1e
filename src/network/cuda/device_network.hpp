// The network on the device: arrays are device memory, work is queued on a stream, nothing waits for the
// host. The fused kernels are in float; in double every network takes the general path.
//
// Several models of one shape run at once, each on its own batch: arrays have a leading (model) dimension,
// and the sequences of all models are numbered through, (model, sample).
#pragma once

#include <mac/network.hpp>

#include "network/cuda/network_path.hpp"

namespace mac::cuda {

/// Kernels compiled for the network's sizes, fused ones of any size, or those of the general path.
enum class KernelsTaken { tuned, fused, general };

template <class T>
class BasicDeviceNetwork {
 public:
  /// Throws Error if the network is beyond the device's kernels, UsageError for an ensemble.
  BasicDeviceNetwork(const NetworkShape& shape, std::size_t models, Kernels kernels = Kernels::fastest);

  const NetworkShape& shape() const { return shape_; }
  std::size_t models() const { return models_; }
  std::size_t parameter_count() const { return parameter_count_; }
  /// Which kernels it takes: `tuned`, `fused` or `general`.
  const char* kernels() const;
  bool is_general() const { return kernels_ == KernelsTaken::general; }
  /// That a forward pass leaves, of one model.
  std::size_t tape_bytes(SequenceDims dims) const { return path_->tape_bytes(dims); }

  /// As SequenceEngine::forward, with a leading model dimension.
  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, DeviceTape* tape, cudaStream_t stream) {
    path_->forward(parameters, dims, x, y, initial_state, final_state, tape, stream);
  }
  /// As SequenceEngine::backward; the parameter gradients are added to only if `add` is set.
  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* d_y,
                DeviceTape& tape, const Gradients<T>& gradients, bool add, cudaStream_t stream) {
    path_->backward(parameters, dims, x, initial_state, d_y, tape, gradients, add, stream);
  }

 private:
  NetworkShape shape_;
  std::size_t models_, parameter_count_;
  KernelsTaken kernels_;
  std::unique_ptr<NetworkPath<T>> path_;
};
using DeviceNetwork = BasicDeviceNetwork<float>;

/// Whether cuBLAS is there, and the environment asks for no other kernels.
bool may_take_general_path();

/// The fastest kernels for one step of so many sequences. The fused ones take steps four at a time, of which one would be
/// there.
Kernels kernels_for_single_steps(std::size_t sequences);

}  // namespace mac::cuda
