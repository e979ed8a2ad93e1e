// Matrix products without cuBLAS, for machines that have none: in float32, about half as fast.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace mac::cuda {

/// c (+)= a · b for `count` problems, row-major c (rows, columns). Without its flag a is (rows, depth) and b (depth,
/// columns); with it, they are stored transposed. Strides are from a row to the next; `next` from a problem to the next.
struct OwnProduct {
  std::size_t rows, columns, depth;
  const float* a;
  std::size_t a_stride, a_next;
  bool a_transposed;
  const float* b;
  std::size_t b_stride, b_next;
  bool b_transposed;
  float* c;
  std::size_t c_stride, c_next;
  std::size_t count;
  bool add;
};

void launch_own_product(const OwnProduct& product, cudaStream_t stream);

}  // namespace mac::cuda
