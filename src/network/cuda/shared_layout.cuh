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

__device__ inline void load(float* to, const float* from, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

__device__ inline void fill(float* to, int count, float value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

}  // namespace mac::cuda
