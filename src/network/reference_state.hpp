// One block's share of the recurrent states of a batch.
#pragma once

#include <cstddef>

namespace mac::reference {

/// Sample b starts at `data + b·stride`. Null data means zeros (an input) or not wanted (an output).
template <class T>
struct StateView {
  T* data = nullptr;
  std::size_t stride = 0;

  explicit operator bool() const { return data != nullptr; }
  T* sample(std::size_t b) const { return data + b * stride; }
  StateView skip(std::size_t count) const { return {data ? data + count : nullptr, stride}; }
};

}  // namespace mac::reference
