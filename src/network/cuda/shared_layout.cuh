// Handing out shared memory, and bringing weights into it.
#pragma once

#include <cuda_runtime.h>

namespace mac::cuda {

/// Hands out shared memory, in floats, a multiple of four at a time.
struct SharedLayout {
  int used = 0;
  __host__ __device__ int take(int count) {
    const int start = used;
    used += (count + 3) / 4 * 4;
    return start;
  }
};

__host__ __device__ inline int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

/// to (rows, ld) = from (rows, n), padded with zeros.
__device__ inline void load_padded(float* to, int ld, const float* from, int rows, int n) {
  for (int i = threadIdx.x; i < rows * ld; i += blockDim.x)
    to[i] = i % ld < n ? from[i / ld * n + i % ld] : 0;
}

__device__ inline void fill(float* to, int count, float value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

}  // namespace mac::cuda
