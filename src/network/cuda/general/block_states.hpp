#pragma once

#include <cstddef>
#include <mac/host_device.hpp>

namespace mac::cuda {

/// One block's share of the states of a batch; null data means zeros, or not wanted.
template <class T>
struct BlockStates {
  T* data = nullptr;
  std::size_t stride = 0;  // from a sequence to the next
  /// From a time to the next, where these are the states after every step; 0: after the last.
  std::size_t step = 0;

  MAC_HOST_DEVICE explicit operator bool() const { return data != nullptr; }
  MAC_HOST_DEVICE T* of(std::size_t sequence) const { return data + sequence * stride; }
  /// After step t of `time` steps; null if that is not wanted.
  MAC_HOST_DEVICE T* after(std::size_t sequence, int t, int time) const {
    if (!data || (step == 0 && t + 1 < time)) return nullptr;
    return of(sequence) + static_cast<std::size_t>(t) * step;
  }
  BlockStates skip(std::size_t count) const { return {data ? data + count : nullptr, stride, step}; }
};

}  // namespace mac::cuda
