// Sums over parts that wait until a whole backward pass has left its parts, so that one launch makes many.
#pragma once

#include <vector>

#include "network/cuda/device.hpp"
#include "network/cuda/general/rows.hpp"

namespace mac::cuda {

template <class T>
class PendingSums {
 public:
  /// Memory for parts until the sums are made, at a multiple of 128 bytes.
  T* take(std::size_t count) {
    if (taken_ == memory_.size()) memory_.emplace_back();
    memory_[taken_].reserve(count);
    pending_ += count;
    return memory_[taken_++].data();
  }
  void add(const PartSum<T>& sum) { sums_.push_back(sum); }
  /// to (channels) = Σ_row from (row, channels), rows `stride` numbers apart.
  void add_rows(T* to, const T* from, std::size_t rows, int channels, std::size_t stride,
                cudaStream_t stream) {
    const std::size_t count = static_cast<std::size_t>(channels), parts = row_parts(rows);
    T* const of_parts = take(parts * count);
    sum_rows(of_parts, from, rows, channels, stride, stream);
    add({to, of_parts, parts, count, count});
  }

  void make(cudaStream_t stream) {
    make_sums(std::span<const PartSum<T>>(sums_), stream);
    forget();
  }
  /// Between two layers: some of a pass's sums early, where their parts would take too much memory.
  void make_if_large(cudaStream_t stream) {
    if (pending_ * sizeof(T) > std::size_t{256} << 20) make(stream);
  }
  /// Those of a pass that ended with an exception.
  void forget() {
    sums_.clear();
    taken_ = pending_ = 0;
  }

 private:
  std::vector<PartSum<T>> sums_;
  std::vector<DeviceArray<T>> memory_;   // of a `take` each, and of the same one in the next pass
  std::size_t taken_ = 0, pending_ = 0;  // takes, and their numbers
};

}  // namespace mac::cuda
