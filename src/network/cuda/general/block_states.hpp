#pragma once

#include <cstddef>
#include <mac/host_device.hpp>

namespace mac::cuda {

/// One block's share of the states of a batch; null data means zeros, or not wanted.
template <class T>
struct BlockStates {
  T* data = nullptr;
  std::size_t stride = 0;  // from a sequence to the next

  MAC_HOST_DEVICE explicit operator bool() const { return data != nullptr; }
  MAC_HOST_DEVICE T* of(std::size_t sequence) const { return data + sequence * stride; }
  BlockStates skip(std::size_t count) const { return {data ? data + count : nullptr, stride}; }
};

}  // namespace mac::cuda
