#include "network/cuda/general/cublas.hpp"

#include <dlfcn.h>
#include <library_types.h>

#include <algorithm>
#include <string>

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

namespace mac::cuda {

namespace {

// As cublas_v2.h has them, which a machine that builds need not have.
enum Operation { as_it_is = 0, transposed = 1 };
enum ComputeType { compute_float32 = 68, compute_float64 = 70, compute_tf32 = 77 };
constexpr int default_algorithm = -1, success = 0;
#if __has_include(<cublas_v2.h>)
static_assert(CUBLAS_OP_N == int{as_it_is} && CUBLAS_OP_T == int{transposed});
static_assert(CUBLAS_COMPUTE_32F == int{compute_float32} && CUBLAS_COMPUTE_64F == int{compute_float64} &&
              CUBLAS_COMPUTE_32F_FAST_TF32 == int{compute_tf32});
static_assert(CUBLAS_GEMM_DEFAULT == default_algorithm && CUBLAS_STATUS_SUCCESS == success);
#endif

constexpr std::size_t workspace_bytes = 32 << 20;  // what cuBLAS asks for on a Hopper GPU

struct Library {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, cudaStream_t stream);
  int (*set_workspace)(void* handle, void* memory, std::size_t bytes);
  int (*gemm)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
              cudaDataType a_type, int a_stride, long long a_next, const void* b, cudaDataType b_type,
              int b_stride, long long b_next, const void* beta, void* c, cudaDataType c_type, int c_stride,
              long long c_next, int count, int compute_type, int algorithm);
};

constexpr int version = CUDART_VERSION / 1000;

Library load() {
  const std::string named = fmt::format("libcublas.so.{}", version);
  void* const library = open_cublas({named, "/usr/local/cuda/lib64/" + named, "libcublas.so"});
  Library found{};
  const auto find = [&](auto& function, const char* name) {
    void* const symbol = dlsym(library, name);
    if (!symbol) throw Error("{} has no function {}: install cuBLAS of CUDA {}", named, name, version);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  find(found.create, "cublasCreate_v2");
  find(found.destroy, "cublasDestroy_v2");
  find(found.set_stream, "cublasSetStream_v2");
  find(found.set_workspace, "cublasSetWorkspace_v2");
  find(found.gemm, "cublasGemmStridedBatchedEx");
  return found;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

void check_cublas(int status, const char* what) {
  if (status != success) throw Error("cuBLAS failed while {}: status {}", what, status);
}

ProductPrecision chosen_precision = ProductPrecision::float32;

template <class T>
ComputeType compute_type() {
  if constexpr (std::is_same_v<T, double>) return compute_float64;
  return chosen_precision == ProductPrecision::tf32 ? compute_tf32 : compute_float32;
}

template <class T>
constexpr cudaDataType data_type = std::is_same_v<T, double> ? CUDA_R_64F : CUDA_R_32F;

}  // namespace

void set_product_precision(ProductPrecision precision) { chosen_precision = precision; }

void* open_cublas(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Error(
      "a network of this size needs cuBLAS on a CUDA device, and {} was not found: install cuBLAS of CUDA "
      "{}, or use --device cpu",
      names.at(0), version);
}

bool has_cublas() {
  try {
    library();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// c (+)= a b as row-major matrices, for `count` of them, which are `next` numbers apart. Those with the flag are stored
/// transposed.
template <class T>
struct Products<T>::Call {
  ConstMatrix<T> a;
  bool a_transposed;
  ConstMatrix<T> b;
  bool b_transposed;
  Matrix<T> c;
  int depth;
  std::size_t a_next = 0, b_next = 0, c_next = 0;
  std::size_t count = 1;
  bool add = false;
};

template <class T>
Products<T>::~Products() {
  if (handle_) library().destroy(handle_);
}

template <class T>
void Products<T>::use(cudaStream_t stream) {
  stream_ = stream;
  if (!handle_) {
    check_cublas(library().create(&handle_), "starting");
    workspace_.reserve(workspace_bytes);
  }
  check_cublas(library().set_stream(handle_, stream), "taking a stream");
  check_cublas(library().set_workspace(handle_, workspace_.data(), workspace_bytes), "taking its workspace");
}

/// cuBLAS takes matrices column by column: our rows are its columns, and c = a b is its cᵀ = bᵀ aᵀ.
template <class T>
void Products<T>::run(const Call& call) {
  const T one = 1, zero = 0;
  constexpr cudaDataType type = data_type<T>;
  const auto size = [](std::size_t value) { return static_cast<int>(value); };
  const auto next = [](std::size_t value) { return static_cast<long long>(value); };
  const auto op = [](bool flag) { return flag ? transposed : as_it_is; };
  const int status = library().gemm(
      handle_, op(call.b_transposed), op(call.a_transposed), call.c.columns, size(call.c.rows), call.depth,
      &one, call.b.data, type, size(call.b.stride), next(call.b_next), call.a.data, type, size(call.a.stride),
      next(call.a_next), call.add ? &one : &zero, call.c.data, type, size(call.c.stride), next(call.c_next),
      size(call.count), compute_type<T>(), default_algorithm);
  if (status != success)
    throw Error("cuBLAS failed: status {} from {} × {} × {}, transposed {} {}, strides {} {} {}, {} at once",
                status, call.c.rows, call.c.columns, call.depth, call.a_transposed, call.b_transposed,
                call.a.stride, call.b.stride, call.c.stride, call.count);
}

template <class T>
void Products<T>::forward(Matrix<T> y, ConstMatrix<T> x, ConstMatrix<T> w, bool add) {
  run({.a = x, .a_transposed = false, .b = w, .b_transposed = true, .c = y, .depth = x.columns, .add = add});
}

template <class T>
void Products<T>::to_inputs(Matrix<T> d_x, ConstMatrix<T> d_y, ConstMatrix<T> w, bool add) {
  run({.a = d_y,
       .a_transposed = false,
       .b = w,
       .b_transposed = false,
       .c = d_x,
       .depth = d_y.columns,
       .add = add});
}

template <class T>
void Products<T>::to_weights(PendingSums<T>& sums, T* d_w, ConstMatrix<T> d_y, ConstMatrix<T> x) {
  // Few tiles of the result have to share out very many rows: enough parts that tiles of 64 × 64 keep every
  // multiprocessor busy, and not so many that a part has less than 256 rows.
  constexpr std::size_t tile = 64, busy = 512, fewest_rows = 256;
  const std::size_t rows = x.rows, m = static_cast<std::size_t>(x.columns),
                    n = static_cast<std::size_t>(d_y.columns);
  const std::size_t tiles = (m + tile - 1) / tile * ((n + tile - 1) / tile);
  const std::size_t parts =
      std::clamp<std::size_t>(busy / tiles, 1, std::max<std::size_t>(1, rows / fewest_rows));
  const std::size_t of_part = rows / parts, rest = rows - parts * of_part, size = aligned(m * n);
  T* const of_parts = sums.take((parts + 1) * size);
  const auto sum = [&](std::size_t first_row, std::size_t count_rows, std::size_t to, std::size_t count) {
    const auto from = [&](const ConstMatrix<T>& all) {
      return ConstMatrix<T>(all.data + first_row * all.stride, count_rows, all.columns, all.stride);
    };
    run({.a = from(d_y),
         .a_transposed = true,
         .b = from(x),
         .b_transposed = false,
         .c = {of_parts + to * size, n, x.columns},
         .depth = static_cast<int>(count_rows),
         .a_next = of_part * d_y.stride,
         .b_next = of_part * x.stride,
         .c_next = size,
         .count = count});
  };
  sum(0, of_part, 0, parts);
  if (rest > 0) sum(parts * of_part, rest, parts, 1);
  sums.add({d_w, of_parts, parts + (rest > 0), size, m * n});
}

template class Products<float>;
template class Products<double>;

}  // namespace mac::cuda
