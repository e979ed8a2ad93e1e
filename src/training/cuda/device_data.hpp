// Training data in device memory, and the samples of a step.
#pragma once

#include <array>

#include "network/cuda/device.hpp"
#include "training/cuda/kernels.hpp"
#include "training/descent.hpp"

namespace mac::cuda {

/// Memory that the device can copy from while the host goes on.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t count) {
    check(cudaMallocHost(&data_, count * sizeof(T)), "pinning host memory");
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { cudaFreeHost(data_); }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// All the data where they fit, otherwise the windows of one step at a time, read from the file.
class DeviceData {
 public:
  DeviceData(const DescentPlan& plan, SampleShape shape, std::size_t models);

  const BatchSource& source() const { return source_; }

  /// Model m's samples at a step of the stage; when the data don't fit, queues the copy of their windows.
  void draw(std::size_t m, std::uint64_t seed, std::size_t step, Sample* samples, cudaStream_t stream);

 private:
  void upload_all();
  /// What turns the images of a window that begins with the state y into their frames, by image_of.
  std::array<double, 4> angles_into_frame(const double* y) const;

  const TrainingData& data_;
  StagePlan stage_;
  std::size_t first_step_;
  SampleShape shape_;
  Augmentation augmentation_;
  bool resident_;
  bool framed_;  // samples come in the frames of their first states (coupling/fourier_frame.hpp)
  BatchSource source_{};
  std::vector<std::array<double, 4>> frames_;  // of all windows, where the data are resident
  DeviceArray<double> resolved_, closure_, given_, scales_;
  DeviceArray<int> reads_;
  std::vector<double> host_resolved_, host_closure_, host_given_;
};

}  // namespace mac::cuda
