#include "network/cuda/general/cublas.hpp"

#include <dlfcn.h>
#include <library_types.h>

#include <algorithm>
#include <string>

#include "network/cuda/general/rows.hpp"
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

namespace mac::cuda {

namespace {

// As cublas_v2.h has them, which a machine that builds need not have.
enum Operation { as_it_is = 0, transposed = 1 };
enum ComputeType { compute_float32 = 68, compute_tf32 = 77 };
constexpr int default_algorithm = -1, success = 0;
#if __has_include(<cublas_v2.h>)
static_assert(CUBLAS_OP_N == int{as_it_is} && CUBLAS_OP_T == int{transposed});
static_assert(CUBLAS_COMPUTE_32F == int{compute_float32} && CUBLAS_COMPUTE_32F_FAST_TF32 == int{compute_tf32});
static_assert(CUBLAS_GEMM_DEFAULT == default_algorithm && CUBLAS_STATUS_SUCCESS == success);
#endif

constexpr std::size_t workspace_bytes = 32 << 20;  // what cuBLAS asks for on a Hopper GPU

struct Library {
  int (*create)(void** handle);
  int (*destroy)(void* handle);
  int (*set_stream)(void* handle, cudaStream_t stream);
  int (*set_workspace)(void* handle, void* memory, std::size_t bytes);
  int (*gemm)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
              cudaDataType a_type, int a_stride, long long a_next, const void* b, cudaDataType b_type, int b_stride,
              long long b_next, const void* beta, void* c, cudaDataType c_type, int c_stride, long long c_next,
              int count, int compute_type, int algorithm);
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

}  // namespace

void set_product_precision(ProductPrecision precision) { chosen_precision = precision; }

void* open_cublas(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Error(
      "a network of this size needs cuBLAS on a CUDA device, and {} was not found: install cuBLAS of CUDA {}, or use "
      "--device cpu",
      names.at(0), version);
}

/// In cuBLAS' terms, where a matrix is column by column: our rows are its columns.
struct Products::Call {
  Operation op_a, op_b;
  int m, n, k;
  ConstMatrix a;
  std::size_t a_next;
  ConstMatrix b;
  std::size_t b_next;
  Matrix c;
  std::size_t c_next;
  int count;
  bool add;
};

Products::~Products() {
  if (handle_) library().destroy(handle_);
}

void Products::use(cudaStream_t stream) {
  if (!handle_) {
    check_cublas(library().create(&handle_), "starting");
    workspace_.reserve(workspace_bytes);
  }
  stream_ = stream;
  check_cublas(library().set_stream(handle_, stream), "taking a stream");
  check_cublas(library().set_workspace(handle_, workspace_.data(), workspace_bytes), "taking its workspace");
}

void Products::run(const Call& call) {
  const float one = 1, zero = 0;
  const auto size = [](std::size_t value) { return static_cast<int>(value); };
  const auto next = [](std::size_t value) { return static_cast<long long>(value); };
  check_cublas(
      library().gemm(handle_, call.op_a, call.op_b, call.m, call.n, call.k, &one, call.a.data, CUDA_R_32F,
                     size(call.a.stride), next(call.a_next), call.b.data, CUDA_R_32F, size(call.b.stride),
                     next(call.b_next), call.add ? &one : &zero, call.c.data, CUDA_R_32F, size(call.c.stride),
                     next(call.c_next), call.count, default_algorithm,
                     chosen_precision == ProductPrecision::tf32 ? compute_tf32 : compute_float32),
      "multiplying");
}

void Products::forward(Matrix y, ConstMatrix x, ConstMatrix w, bool add) {
  run({transposed, as_it_is, y.columns, static_cast<int>(y.rows), x.columns, w, 0, x, 0, y, 0, 1, add});
}

void Products::to_inputs(Matrix d_x, ConstMatrix d_y, ConstMatrix w, bool add) {
  run({as_it_is, as_it_is, d_x.columns, static_cast<int>(d_x.rows), d_y.columns, w, 0, d_y, 0, d_x, 0, 1, add});
}

void Products::to_weights(float* d_w, ConstMatrix d_y, ConstMatrix x) {
  // Few tiles of the result have to share out very many rows: enough parts that tiles of 64 × 64 keep every
  // multiprocessor busy, and not so many that a part has less than 256 rows.
  constexpr std::size_t tile = 64, busy = 512, fewest_rows = 256;
  const std::size_t rows = x.rows, m = static_cast<std::size_t>(x.columns), n = static_cast<std::size_t>(d_y.columns);
  const std::size_t tiles = (m + tile - 1) / tile * ((n + tile - 1) / tile);
  const std::size_t parts = std::clamp<std::size_t>(busy / tiles, 1, std::max<std::size_t>(1, rows / fewest_rows));
  const std::size_t of_part = rows / parts, rest = rows - parts * of_part, size = aligned(m * n);
  partials_.reserve((parts + 1) * size);
  const auto sum = [&](std::size_t first_row, std::size_t count_rows, std::size_t to, std::size_t count) {
    run({as_it_is,
         transposed,
         x.columns,
         d_y.columns,
         static_cast<int>(count_rows),
         {x.data + first_row * x.stride, count_rows, x.columns, x.stride},
         of_part * x.stride,
         {d_y.data + first_row * d_y.stride, count_rows, d_y.columns, d_y.stride},
         of_part * d_y.stride,
         {partials_.data() + to * size, n, x.columns},
         size,
         static_cast<int>(count),
         false});
  };
  sum(0, of_part, 0, parts);
  if (rest > 0) sum(parts * of_part, rest, parts, 1);
  sum_parts(d_w, partials_.data(), parts + (rest > 0), size, m * n, stream_);
}

}  // namespace mac::cuda
