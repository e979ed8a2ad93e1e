// Arrays that start at a cache line, as the kernels' whole-vector loads need.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace mac::cpu {

inline constexpr std::align_val_t kAlignment{64};

struct AlignedDelete {
  void operator()(void* array) const { ::operator delete[](array, kAlignment); }
};

template <class T>
using AlignedArray = std::unique_ptr<T[], AlignedDelete>;

/// Zeros.
template <class T>
AlignedArray<T> aligned_array(std::size_t count) {
  return AlignedArray<T>(new (kAlignment) T[count]());
}

}  // namespace mac::cpu
