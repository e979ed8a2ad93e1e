// SOAP on the device: the arithmetic of training/soap.cpp for all matrices of several models at once, sums in
// a fixed order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "training/cuda/kernels.hpp"

namespace mac::cuda {

/// A tensor of the network; vectors are one row. Of a matrix (m, n): P and Q in the bases, the rest in the
/// working memory.
struct SoapTensor {
  int rows, columns;
  bool is_matrix;
  std::size_t offset;  // in the parameters
  std::size_t P = 0, Q = 0;
  std::size_t gradient_transposed = 0, Q_transposed = 0;  // (n, m), (n, n)
  std::size_t half = 0, moment_half = 0, rotated = 0;     // (m, n) each
  std::size_t row_order = 0, column_order = 0;            // in the orders
};

/// A matrix has two sides, each with the covariance of `count` vectors and its basis, (size, size).
struct SoapSide {
  int size, count;
  std::size_t covariance, basis;  // in the bases
  bool left;                      // the vectors are the gradient's columns, otherwise its rows
  std::size_t vectors;            // (count, size): in the working memory if left, otherwise in the gradient
  std::size_t product;            // covariance · basis, in the working memory
  std::size_t householder;        // two (size, size) and three (size), in the working memory of doubles
  std::size_t order;              // (size), in the orders
};

/// Some rows of a tensor or of a side: the work of one block.
struct SoapSlab {
  int of, first, rows;
};
inline constexpr int soap_slab_rows = 4;

/// The matrices of one model; lists in device memory. Slabs of matrices come before those of vectors.
struct SoapProblem {
  const SoapTensor* tensors;
  const SoapSide* sides;
  const SoapSlab *slabs, *side_slabs;
  int matrices, side_count, slab_count, matrix_slabs, side_slab_count;
  int largest_side;
  std::size_t parameters, bases, work, doubles, orders;  // numbers of each array
};

/// Arrays (model, numbers) in device memory. No average: null.
struct SoapArrays {
  float *parameters, *gradient, *first_moment, *second_moment, *average;
  float *bases = nullptr, *work = nullptr;
  double* doubles = nullptr;
  int* orders = nullptr;
};

/// Clips the gradients in place by their norms (model), then takes the step; with `follow` it makes ready what
/// launch_soap_follow takes.
void launch_soap(const SoapProblem& problem, const SoapArrays& arrays, const DeviceStep& step, bool follow,
                 const double* norms, int models, cudaStream_t stream);
/// The bases follow the covariances, and the second moments them.
void launch_soap_follow(const SoapProblem& problem, const SoapArrays& arrays, int models,
                        std::size_t shared_bytes, cudaStream_t stream);

}  // namespace mac::cuda
