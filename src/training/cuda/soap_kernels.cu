#include <algorithm>
#include <cmath>

#include "network/cuda/launch_plan.hpp"
#include "training/cuda/soap_kernels.hpp"
#include "training/soap.hpp"

namespace mac::cuda {

namespace {

constexpr int threads = 128;

/// The arrays of one model, that of the block.
__device__ SoapArrays of_model(const SoapProblem& p, const SoapArrays& all) {
  const std::size_t m = blockIdx.y, parameters = m * p.parameters;
  return {all.parameters + parameters,
          all.gradient + parameters,
          all.first_moment + parameters,
          all.second_moment + parameters,
          all.average ? all.average + parameters : nullptr,
          all.bases + m * p.bases,
          all.work + m * p.work,
          all.doubles + m * p.doubles,
          all.orders + m * p.orders};
}

/// fn(i, j) for the elements of a slab's rows, a thread for each.
template <class Function>
__device__ void for_each(const SoapSlab& slab, int columns, const Function& fn) {
  for (int e = static_cast<int>(threadIdx.x); e < slab.rows * columns; e += threads)
    fn(slab.first + e / columns, e % columns);
}

/// start + Σ_l a(l) b(l), one after the other.
template <class A, class B>
__device__ float sum(float start, int count, const A& a, const B& b) {
#pragma unroll 8
  for (int l = 0; l < count; ++l) start += a(l) * b(l);
  return start;
}

__device__ void move(const SoapArrays& at, const DeviceStep& step, std::size_t i, float direction) {
  step.adam.move(at.parameters[i], direction);
  if (at.average) at.average[i] += step.newest_share * (at.parameters[i] - at.average[i]);
}

/// Clips, takes the first moments on and moves the vectors. Leaves the transposes of the gradient and of Q,
/// in which neighbouring threads will read neighbouring numbers.
__global__ void __launch_bounds__(threads)
    moments_kernel(const SoapProblem p, const SoapArrays all, const DeviceStep step, const double* norms) {
  const SoapSlab slab = p.slabs[blockIdx.x];
  const SoapTensor tensor = p.tensors[slab.of];
  const SoapArrays at = of_model(p, all);
  const int m = tensor.rows, n = tensor.columns;
  const double norm = norms[blockIdx.y];
  const float factor = norm > step.clip ? static_cast<float>(step.clip / norm) : 1.0f;
  for_each(slab, n, [&](int i, int j) {
    const std::size_t e = tensor.offset + static_cast<std::size_t>(i) * n + j;
    const float g = factor * at.gradient[e];
    at.gradient[e] = g;
    step.adam.update_first(at.first_moment[e], g);
    if (tensor.is_matrix) {
      at.work[tensor.gradient_transposed + static_cast<std::size_t>(j) * m + i] = g;
    } else {
      step.adam.update_second(at.second_moment[e], g);
      move(at, step, e, step.adam.direction(at.first_moment[e], at.second_moment[e]));
    }
  });
  if (!tensor.is_matrix) return;
  const int slabs = (m + soap_slab_rows - 1) / soap_slab_rows;
  for (int e = slab.first / soap_slab_rows * threads + static_cast<int>(threadIdx.x); e < n * n;
       e += slabs * threads)
    at.work[tensor.Q_transposed + e] = at.bases[tensor.Q + static_cast<std::size_t>(e % n) * n + e / n];
}

/// Rows of the step in the eigenbases: rotated = (Pᵀ M Q) / √V, with V from Pᵀ G Q.
__global__ void __launch_bounds__(threads)
    rotate_kernel(const SoapProblem p, const SoapArrays all, const DeviceStep step) {
  const SoapSlab slab = p.slabs[blockIdx.x];
  const SoapTensor tensor = p.tensors[slab.of];
  const SoapArrays at = of_model(p, all);
  const int m = tensor.rows, n = tensor.columns;
  const float *const P = at.bases + tensor.P, *const Q = at.bases + tensor.Q;
  float *const half = at.work + tensor.half, *const moment_half = at.work + tensor.moment_half;
  for_each(slab, n, [&](int i, int j) {
    const auto column_of_P = [&](int l) { return P[l * m + i]; };
    const float *const g = at.gradient + tensor.offset, *const first = at.first_moment + tensor.offset;
    half[i * n + j] = sum(0, m, column_of_P, [&](int l) { return g[l * n + j]; });
    moment_half[i * n + j] = sum(0, m, column_of_P, [&](int l) { return first[l * n + j]; });
  });
  __syncthreads();
  for_each(slab, n, [&](int i, int j) {
    const auto column_of_Q = [&](int l) { return Q[l * n + j]; };
    float& v = at.second_moment[tensor.offset + static_cast<std::size_t>(i) * n + j];
    step.adam.update_second(v, sum(
                                   0, n, [&](int l) { return half[i * n + l]; }, column_of_Q));
    const float moment = sum(
        0, n, [&](int l) { return moment_half[i * n + l]; }, column_of_Q);
    at.work[tensor.rotated + static_cast<std::size_t>(i) * n + j] = step.adam.direction(moment, v);
  });
}

/// Rows of the weights go along P · rotated · Qᵀ.
__global__ void __launch_bounds__(threads)
    move_kernel(const SoapProblem p, const SoapArrays all, const DeviceStep step) {
  const SoapSlab slab = p.slabs[blockIdx.x];
  const SoapTensor tensor = p.tensors[slab.of];
  const SoapArrays at = of_model(p, all);
  const int m = tensor.rows, n = tensor.columns;
  const float *const P = at.bases + tensor.P, *const Q_transposed = at.work + tensor.Q_transposed;
  const float* const rotated = at.work + tensor.rotated;
  float* const half = at.work + tensor.half;
  for_each(slab, n, [&](int i, int j) {
    half[i * n + j] = sum(
        0, m, [&](int l) { return P[i * m + l]; }, [&](int l) { return rotated[l * n + j]; });
  });
  __syncthreads();
  for_each(slab, n, [&](int i, int j) {
    move(at, step, tensor.offset + static_cast<std::size_t>(i) * n + j,
         sum(
             0, n, [&](int l) { return half[i * n + l]; }, [&](int l) { return Q_transposed[l * n + j]; }));
  });
}

/// Rows of a side's covariance take the gradient in; where the basis is to follow, rows of their product too.
__global__ void __launch_bounds__(threads)
    covariance_kernel(const SoapProblem p, const SoapArrays all, bool follow) {
  constexpr float keep = static_cast<float>(soap_covariance_beta),
                  share = static_cast<float>(1 - soap_covariance_beta);
  const SoapSlab slab = p.side_slabs[blockIdx.x];
  const SoapSide side = p.sides[slab.of];
  const SoapArrays at = of_model(p, all);
  const int n = side.size;
  float* const covariance = at.bases + side.covariance;
  const float* const basis = at.bases + side.basis;
  const float* const vectors = (side.left ? at.work : at.gradient) + side.vectors;
  for_each(slab, n, [&](int i, int j) {
    covariance[i * n + j] = sum(
        keep * covariance[i * n + j], side.count, [&](int l) { return share * vectors[l * n + i]; },
        [&](int l) { return vectors[l * n + j]; });
  });
  if (!follow) return;
  __syncthreads();
  for_each(slab, n, [&](int i, int j) {
    at.work[side.product + static_cast<std::size_t>(i) * n + j] = sum(
        0, n, [&](int l) { return covariance[i * n + l]; }, [&](int l) { return basis[l * n + j]; });
  });
}

constexpr int follow_threads = 512, lanes = 32, warps = follow_threads / lanes;
constexpr int together = 8;  // rows that a warp reflects at once, so that it need not wait for each sum

/// The sum over a warp's lanes, the same bits in each.
__device__ double warp_sum(double value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// n rows of n numbers: the last ones in shared memory, as many as fit, those before in device memory. Warp w
/// writes rows w, w + warps, ..., lane l entries l, l + lanes, ...
struct SplitRows {
  double *shared, *device;
  int n, in_device;

  __device__ SplitRows(double* shared_rows, std::size_t shared_numbers, double* device_rows, int size)
      : shared(shared_rows), device(device_rows), n(size) {
    const std::size_t fitting = shared_numbers / static_cast<std::size_t>(n);
    in_device = fitting >= static_cast<std::size_t>(n) ? 0 : n - static_cast<int>(fitting);
  }
  __device__ double* operator[](int row) const {
    return row < in_device ? device + static_cast<std::size_t>(row) * n
                           : shared + static_cast<std::size_t>(row - in_device) * n;
  }
};

/// The lane's first entry from `first` on.
__device__ int first_entry(int first) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  return (first - lane + lanes - 1) / lanes * lanes + lane;
}
/// The warp's first row from `first` on.
__device__ int first_row(int first) {
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  return first <= warp ? warp : (first - warp + warps - 1) / warps * warps + warp;
}

/// v - 2 (w · v) w for the warp's rows v from `first` on; w = vector / length from entry k on, whose entry k
/// is `head`.
__device__ void reflect(const SplitRows& rows, int first, const double* vector, int k, double head,
                        double inverse_length) {
  const int n = rows.n;
  const auto w = [&](int i) { return inverse_length * (i == k ? head : vector[i]); };
  for (int begin = first_row(first); begin < n; begin += together * warps) {
    double* v[together];
    double dot[together];
#pragma unroll
    for (int r = 0; r < together; ++r) {
      const int row = begin + r * warps;
      v[r] = row < n ? rows[row] : nullptr;
      dot[r] = 0;
    }
    for (int i = first_entry(k); i < n; i += lanes) {
      const double here = w(i);
#pragma unroll
      for (int r = 0; r < together; ++r)
        if (v[r]) dot[r] += here * v[r][i];
    }
#pragma unroll
    for (int r = 0; r < together; ++r)
      if (v[r]) dot[r] = 2 * warp_sum(dot[r]);
    for (int i = first_entry(k); i < n; i += lanes) {
      const double here = w(i);
#pragma unroll
      for (int r = 0; r < together; ++r)
        if (v[r]) v[r][i] -= dot[r] * here;
    }
  }
}

/// A block for each side: a step of orthogonal iteration, as in training/soap.cpp, by Householder reflections
/// of the product's columns in the order of their eigenvalues.
__global__ void __launch_bounds__(follow_threads)
    orthonormalise_kernel(const SoapProblem p, const SoapArrays all, std::size_t shared_numbers) {
  extern __shared__ double shared[];
  const SoapSide side = p.sides[blockIdx.x];
  const SoapArrays at = of_model(p, all);
  const int n = side.size, thread = static_cast<int>(threadIdx.x);
  float* const basis = at.bases + side.basis;
  const float* const product = at.work + side.product;
  int* const order = at.orders + side.order;
  double* const vectors = at.doubles + side.householder;  // (n, n) in device memory
  double* const spilled = vectors + static_cast<std::size_t>(n) * n;
  double *const eigenvalue = spilled + static_cast<std::size_t>(n) * n, *const head = eigenvalue + n,
                *const inverse_length = head + n;

  for (int j = thread; j < n; j += follow_threads) {
    double total = 0;
    for (int i = 0; i < n; ++i)
      total += static_cast<double>(basis[i * n + j]) * static_cast<double>(product[i * n + j]);
    eigenvalue[j] = isnan(total) ? -INFINITY : total;
  }
  __syncthreads();
  for (int j = thread; j < n; j += follow_threads) {
    int place = 0;
    for (int i = 0; i < n; ++i)
      place += eigenvalue[i] > eigenvalue[j] || (eigenvalue[i] == eigenvalue[j] && i < j);
    order[place] = j;
  }
  __syncthreads();
  const SplitRows a(shared, shared_numbers, vectors, n);
  for (int e = thread; e < n * n; e += follow_threads)
    a[e / n][e % n] = static_cast<double>(product[e % n * n + order[e / n]]);
  __syncthreads();

  for (int k = 0; k < n; ++k) {
    const double* const vector = a[k];
    double squares = 0;
    for (int i = first_entry(k); i < n; i += lanes) squares += vector[i] * vector[i];
    const double norm = sqrt(warp_sum(squares)), before = vector[k];
    const double from = before > 0 ? before + norm : before - norm;
    const double length = sqrt(2 * norm * (norm + fabs(before)));  // of (from, vector[k+1], ...)
    const double inverse = length > 0 ? 1 / length : 0;
    if (thread == 0) head[k] = from, inverse_length[k] = inverse;
    if (inverse > 0) reflect(a, k + 1, vector, k, from, inverse);
    __syncthreads();
  }

  // The shared memory now goes to the basis vectors: each is reflected as often as its index says.
  for (int e = thread; e < n * n; e += follow_threads) {
    const int row = e / n;
    if (row >= a.in_device) vectors[e] = a[row][e % n];
  }
  __syncthreads();
  const SplitRows q(shared, shared_numbers, spilled, n);
  for (int j = first_row(0); j < n; j += warps)
    for (int i = first_entry(0); i < n; i += lanes) q[j][i] = i != j ? 0 : head[j] > 0 ? -1 : 1;
  for (int k = n - 1; k >= 0; --k)
    if (inverse_length[k] > 0)
      reflect(q, k, vectors + static_cast<std::size_t>(k) * n, k, head[k], inverse_length[k]);
  __syncthreads();
  for (int e = thread; e < n * n; e += follow_threads) basis[e] = static_cast<float>(q[e % n][e / n]);
}

/// A block for each matrix: the second moments go with their directions.
__global__ void __launch_bounds__(follow_threads) reorder_kernel(const SoapProblem p, const SoapArrays all) {
  const SoapTensor tensor = p.tensors[blockIdx.x];
  const SoapArrays at = of_model(p, all);
  const int n = tensor.columns, numbers = tensor.rows * n;
  const int *const rows = at.orders + tensor.row_order, *const columns = at.orders + tensor.column_order;
  float *const V = at.second_moment + tensor.offset, *const before = at.work + tensor.half;
  for (int e = static_cast<int>(threadIdx.x); e < numbers; e += follow_threads) before[e] = V[e];
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < numbers; e += follow_threads)
    V[e] = before[rows[e / n] * n + columns[e % n]];
}

dim3 grid_of(int blocks, int models) {
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(models));
}

}  // namespace

void launch_soap(const SoapProblem& problem, const SoapArrays& arrays, const DeviceStep& step, bool follow,
                 const double* norms, int models, cudaStream_t stream) {
  moments_kernel<<<grid_of(problem.slab_count, models), threads, 0, stream>>>(problem, arrays, step, norms);
  if (problem.matrices == 0) return;
  rotate_kernel<<<grid_of(problem.matrix_slabs, models), threads, 0, stream>>>(problem, arrays, step);
  move_kernel<<<grid_of(problem.matrix_slabs, models), threads, 0, stream>>>(problem, arrays, step);
  covariance_kernel<<<grid_of(problem.side_slab_count, models), threads, 0, stream>>>(problem, arrays,
                                                                                      follow);
}

void launch_soap_follow(const SoapProblem& problem, const SoapArrays& arrays, int models,
                        std::size_t shared_bytes, cudaStream_t stream) {
  if (problem.matrices == 0) return;
  const std::size_t largest = static_cast<std::size_t>(problem.largest_side);
  const std::size_t bytes = std::min(shared_bytes, largest * largest * sizeof(double));
  allow_shared_memory(orthonormalise_kernel, bytes);
  orthonormalise_kernel<<<grid_of(problem.side_count, models), follow_threads, bytes, stream>>>(
      problem, arrays, bytes / sizeof(double));
  reorder_kernel<<<grid_of(problem.matrices, models), follow_threads, 0, stream>>>(problem, arrays);
}

}  // namespace mac::cuda
