// The CUDA runtime behind exceptions and owners.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <mac/error.hpp>
#include <utility>
#include <vector>

#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw Error("the CUDA device failed while {}: {}", what, cudaGetErrorString(status));
}

/// After a launch: what the launch itself reports, without waiting for the device.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

const SharedMemory& shared_memory();  // of the current device; throws Error without one
int multiprocessors();                // likewise
std::size_t device_memory();          // all of it, in bytes; likewise

/// Numbers in device memory; grows on demand and never copies.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t count) { reserve(count); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  /// At least `count` numbers; their values are undefined afterwards.
  void reserve(std::size_t count) {
    if (count <= count_) return;
    cudaFree(std::exchange(data_, nullptr));
    count_ = 0;
    const std::size_t bytes = count * sizeof(T);
    if (cudaMalloc(&data_, bytes) != cudaSuccess) {
      cudaGetLastError();  // the error is ours now
      throw Error("the CUDA device has no {} MiB left: take a smaller batch or shorter sequences",
                  bytes >> 20);
    }
    count_ = count;
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

  void upload(const T* from, std::size_t count, cudaStream_t stream) {
    reserve(count);
    check(cudaMemcpyAsync(data_, from, count * sizeof(T), cudaMemcpyHostToDevice, stream), "copying to it");
  }
  void download(T* to, std::size_t count, cudaStream_t stream) const {
    check(cudaMemcpyAsync(to, data_, count * sizeof(T), cudaMemcpyDeviceToHost, stream), "copying from it");
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Copies and waits: of what the default stream copies the last pieces may still be on their way, and our streams do not
/// wait for it.
template <class T>
void upload_now(DeviceArray<T>& to, const std::vector<T>& from) {
  to.upload(from.data(), from.size(), nullptr);
  check(cudaStreamSynchronize(nullptr), "copying to it");
}

/// There is an address even where there are no numbers.
template <class T>
DeviceArray<T> on_device(const std::vector<T>& values) {
  DeviceArray<T> array(values.empty() ? 1 : values.size());
  upload_now(array, values);
  return array;
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_), "running the network"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Work beside a stream's: it begins where the stream is, and the stream goes on when it is done.
class SideStream {
 public:
  SideStream() {
    for (cudaEvent_t* event : {&begin_, &end_})
      check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  ~SideStream() {
    cudaStreamSynchronize(stream_);  // the arrays that it writes may be freed next
    cudaEventDestroy(begin_), cudaEventDestroy(end_);
  }

  cudaStream_t leave(cudaStream_t stream) const {
    check(cudaEventRecord(begin_, stream), "marking a place in a stream");
    check(cudaStreamWaitEvent(stream_, begin_, 0), "waiting for a stream");
    return stream_;
  }
  void join(cudaStream_t stream) const {
    check(cudaEventRecord(end_, stream_), "marking a place in a stream");
    check(cudaStreamWaitEvent(stream, end_, 0), "waiting for a stream");
  }
  /// For the host.
  void wait() const { stream_.wait(); }

 private:
  Stream stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace mac::cuda
