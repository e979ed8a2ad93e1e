// What stands behind a mac_device_state: the memory of a batch of columns on a device, and the weights they step with.
#pragma once

#include <mac/error.hpp>
#include <memory>
#include <span>

#include "network/cuda/device.hpp"
#include "runtime/cuda/device_step.hpp"
#include "runtime/runtime_state.hpp"

namespace mac::cuda {

class DeviceState {
 public:
  /// At rest, on the current device. Throws UsageError for a model that does not step there.
  DeviceState(std::shared_ptr<const RuntimeModel> model, std::size_t columns);

  const RuntimeModel& model() const { return *model_; }
  std::size_t columns() const { return static_cast<std::size_t>(memory_.columns); }
  int device() const { return device_; }
  std::size_t bytes() const;

  // Queued on the stream.
  void step(const DeviceField& y, const DeviceField& closure, cudaStream_t stream);
  void closure_at(HeldClosure held, double fraction, const DeviceField& out, cudaStream_t stream) const;
  void reset(cudaStream_t stream);
  /// (columns) in device memory; null: all columns take part.
  void set_mask(const unsigned char* mask) { mask_ = mask; }

  // These wait for the stream. Saved columns are those of RuntimeState.
  void save(ColumnList columns, std::span<std::byte> out, cudaStream_t stream) const;
  /// Columns from[k] of what was saved to columns to[k]: read() throws Error, and nothing has changed, unless the bytes
  /// are of this model and all columns are there; write() takes what it returned to the device.
  struct Read {
    std::vector<unsigned> columns;
    std::vector<float> recurrent;
    std::vector<double> closure, previous;
    std::vector<std::uint64_t> steps;
    std::vector<double> angles;  // NaN: none
  };
  Read read(std::span<const std::byte> saved, ColumnList from, ColumnList to) const;
  void write(const Read& read, cudaStream_t stream);
  void reset(ColumnList columns, cudaStream_t stream);
  void copy(const DeviceState& other, ColumnList from, ColumnList to, cudaStream_t stream);
  /// Throws NotFinite where an input or a closure was not finite since the last check.
  void check(cudaStream_t stream);

  /// Throws UsageError unless the device reaches what the pointer points at; `name` is the argument's.
  void require_reach(const void* pointer, const char* function, const char* name) const;

 private:
  std::vector<unsigned> places(ColumnList columns) const;
  Read at_rest(std::size_t count) const;
  class Records;

  std::shared_ptr<const RuntimeModel> model_;
  int device_ = 0;
  DeviceStepLaunch launch_{};
  PackedSizes network_{};
  DeviceArray<float> weights_, recurrent_;
  DeviceArray<double> input_, output_, closure_, previous_, angles_, chosen_, factors_;
  DeviceArray<std::uint64_t> steps_;
  DeviceArray<unsigned long long> trouble_;
  ColumnMemory memory_{};
  const unsigned char* mask_ = nullptr;
  mutable const void* reached_[4] = {};  // pointers that were found to be good, the latest ones
  mutable int next_reached_ = 0;
};

/// Makes a device the current one as long as it lives.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "asking which one is current");
    if (before_ != device) check(cudaSetDevice(device), "becoming the current one");
    changed_ = before_ != device;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace mac::cuda
