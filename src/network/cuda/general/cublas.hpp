// Matrix products by cuBLAS, which is loaded at the first one: program and library start without it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "network/cuda/device.hpp"
#include "network/cuda/general/pending_sums.hpp"
#include "network/cuda_engine.hpp"

namespace mac::cuda {

/// Matrices are row-major: `columns` numbers a row, and `stride` from a row to the next.
template <class T>
struct MatrixView {
  T* data;
  std::size_t rows;
  int columns;
  std::size_t stride;

  MatrixView(T* data, std::size_t rows, int columns)
      : MatrixView(data, rows, columns, static_cast<std::size_t>(columns)) {}
  MatrixView(T* data, std::size_t rows, int columns, std::size_t stride)
      : data(data), rows(rows), columns(columns), stride(stride) {}
  template <class U>
  requires(!std::is_same_v<U, T> && std::is_convertible_v<U*, T*>) MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.columns, other.stride) {}

  /// `count` columns from `first` on.
  MatrixView part(int first, int count) const { return {data + first, rows, count, stride}; }
};
template <class T>
using Matrix = MatrixView<T>;
template <class T>
using ConstMatrix = MatrixView<const T>;

/// The three products of a linear layer y = x Wᵀ, W (outputs, inputs). One object serves one stream at a time. The same
/// call gives the same bytes: cuBLAS has a workspace of its own, no atomic sums, and arrays begin at multiples of 128
/// bytes, on which its choice of kernels may depend. In float64 where T is double.
template <class T>
class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products();

  void use(cudaStream_t stream);

  /// y (+)= x Wᵀ
  void forward(Matrix<T> y, ConstMatrix<T> x, ConstMatrix<T> w, bool add = false);
  /// d_x (+)= d_y W
  void to_inputs(Matrix<T> d_x, ConstMatrix<T> d_y, ConstMatrix<T> w, bool add = false);
  /// d_w (outputs, inputs) = d_yᵀ x, its rows one after the other; summed over parts of the rows, and these by `sums`
  void to_weights(PendingSums<T>& sums, T* d_w, ConstMatrix<T> d_y, ConstMatrix<T> x);

 private:
  struct Call;
  void run(const Call& call);

  void* handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  DeviceArray<char> workspace_;
};

/// Opens the first of these libraries that is there; throws Error if none is.
void* open_cublas(const std::vector<std::string>& names);

/// Whether this machine has cuBLAS.
bool has_cublas();

/// The distance between arrays of device memory in numbers: a multiple of 128 bytes.
inline std::size_t aligned(std::size_t count) { return (count + 31) / 32 * 32; }

}  // namespace mac::cuda
