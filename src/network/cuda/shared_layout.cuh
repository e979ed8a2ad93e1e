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

/// to (rows, ld) = from (·, n); row(r) says which row of `from` becomes row r, −1: zeros.
template <class Row>
__device__ void load_padded(float* to, int ld, const float* from, int rows, int n, Row row) {
  for (int i = threadIdx.x; i < rows * ld; i += blockDim.x) {
    const int r = row(i / ld), k = i % ld;
    to[i] = r >= 0 && k < n ? from[r * n + k] : 0;
  }
}
__device__ inline void load_padded(float* to, int ld, const float* from, int rows, int n) {
  load_padded(to, ld, from, rows, n, [](int r) { return r; });
}

__device__ inline void fill(float* to, int count, float value) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = value;
}

}  // namespace mac::cuda
