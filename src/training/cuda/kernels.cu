#include <algorithm>
#include <cmath>

#include "training/cuda/device_random.cuh"
#include "training/cuda/kernels.hpp"

namespace mac::cuda {

namespace {

constexpr int threads = 256;

/// f(which, t, i) for the two numbers of a pair in (time, d), as far as they exist.
template <class F>
__device__ void for_each_of_pair(int pair, int time, int d, F f) {
  if (d == 0) return;
  int t = 2 * pair / d, i = 2 * pair - t * d;
  for (int which = 0; which < 2; ++which) {
    if (t < time) f(which, t, i);
    if (++i == d) i = 0, ++t;
  }
}

/// A thread for each pair of numbers of a sample.
__global__ void __launch_bounds__(threads)
    make_batch_kernel(const BatchSource source, const Sample* samples, int time, double noise, float* x,
                      float* target) {
  const Sample sample = samples[blockIdx.y];
  const double2* const rotations = rotations_of(sample, source.modes);
  const int pair = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  const std::size_t first = static_cast<std::size_t>(blockIdx.y) * time;
  const int width = source.d_in + source.given.count;
  const auto image = [&](const double* data, int t, int i, int d) {
    return component_of_image(data + static_cast<std::size_t>(t) * d, i, d, source.modes, rotations, sample);
  };
  double2 normals{};
  if (noise > 0 && 2 * pair < time * source.d_in)
    normals = normal_pair(sample.seed, sample.stream, static_cast<std::uint64_t>(pair));
  for_each_of_pair(pair, time, source.d_in, [&](int which, int t, int i) {
    const double value = image(source.resolved + sample.resolved, t, i, source.d_in),
                 normal = which == 0 ? normals.x : normals.y;
    x[(first + t) * width + i] = static_cast<float>(source.input.to_network(i, value) + noise * normal);
  });
  for_each_of_pair(pair, time, source.given.count, [&](int, int t, int k) {
    x[(first + t) * width + source.d_in + k] = given_input(source, sample, t, k);
  });
  for_each_of_pair(pair, time, source.d_out, [&](int, int t, int i) {
    const double value = image(source.closure + sample.closure, t, i, source.d_out);
    target[(first + t) * source.d_out + i] = static_cast<float>(source.output.to_network(i, value));
  });
}

/// The sum over a block's threads, in a fixed order.
__device__ double block_sum(double value) {
  __shared__ double values[threads];
  __syncthreads();  // a sum before this one has been read
  values[threadIdx.x] = value;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  return values[0];
}

/// loss_parts blocks for each sequence.
__global__ void __launch_bounds__(threads)
    closure_loss_kernel(const ClosureErrors errors, const double* weights, double share) {
  const int numbers = errors.time * errors.d_out;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x / loss_parts) * numbers;
  double total = 0;
  for (int i = static_cast<int>(blockIdx.x % loss_parts * threads + threadIdx.x); i < numbers;
       i += loss_parts * threads) {
    const double weight = weights[i % errors.d_out];
    const double error =
        static_cast<double>(errors.y[first + i]) - static_cast<double>(errors.target[first + i]);
    total += weight * error * error;
    errors.d_y[first + i] = static_cast<float>(2 * share * weight * error);
  }
  total = block_sum(total);
  if (threadIdx.x == 0) errors.sums[blockIdx.x] = total;
}

/// A block for each sample.
__global__ void __launch_bounds__(threads)
    variable_sizes_kernel(const BatchSource source, const Sample* samples, const int* groups, int time,
                          double floor, double* sizes) {
  __shared__ double group_squares[most_components], members[most_components];
  const Sample sample = samples[blockIdx.x];
  const int d = source.d_in;
  const double2* const rotations = rotations_of(sample, source.modes);
  if (static_cast<int>(threadIdx.x) < most_components)
    group_squares[threadIdx.x] = 0, members[threadIdx.x] = 0;
  for (int v = 0; v < d; ++v) {
    double squares = 0;
    for (int t = threadIdx.x; t < time; t += threads) {
      const double* const row = source.resolved + sample.resolved + static_cast<std::size_t>(t) * d;
      const double value =
          component_of_image(row, v, d, source.modes, rotations, sample) * source.input.factor[v];
      squares += value * value;
    }
    const double total = block_sum(squares);
    if (threadIdx.x == 0) group_squares[groups[v]] += total, members[groups[v]] += time;
  }
  __syncthreads();
  if (const int v = threadIdx.x; v < d)
    sizes[static_cast<std::size_t>(blockIdx.x) * d + v] =
        sqrt(group_squares[groups[v]] / members[groups[v]] + floor * floor);
}

/// A block for each sequence.
__global__ void __launch_bounds__(threads)
    relative_loss_kernel(const ClosureErrors errors, const RelativeSizes relative_to, double parts) {
  const int time = errors.time, d_out = errors.d_out;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * time * d_out;
  const double* const sizes = relative_to.sizes + static_cast<std::size_t>(blockIdx.x) * relative_to.d_in;
  const auto error = [&](int t, int j) {
    const std::size_t i = first + static_cast<std::size_t>(t) * d_out + j;
    return static_cast<double>(errors.y[i]) - static_cast<double>(errors.target[i]);
  };
  double total = 0;
  for (int j = 0; j < d_out; ++j) {
    double squares = 0;
    for (int t = threadIdx.x; t < time; t += threads) squares += error(t, j) * error(t, j);
    const double norm = sqrt(block_sum(squares) / time + relative_to.floor * relative_to.floor);
    const double relative = norm / sizes[relative_to.targets[j]];
    total += relative / parts;
    const double slope = relative / (parts * time * norm * norm);
    for (int t = threadIdx.x; t < time; t += threads)
      errors.d_y[first + static_cast<std::size_t>(t) * d_out + j] = static_cast<float>(slope * error(t, j));
  }
  if (threadIdx.x == 0) errors.sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(threads)
    mean_loss_kernel(const double* sums, int batch, double share, double* losses) {
  double total = 0;
  for (int i = threadIdx.x; i < batch; i += threads)
    total += sums[static_cast<std::size_t>(blockIdx.x) * batch + i];
  total = block_sum(total);
  if (threadIdx.x == 0) losses[blockIdx.x] = share * total;
}

__global__ void __launch_bounds__(threads)
    gradient_norm_kernel(const float* gradient, std::size_t parameters, double* norms) {
  double total = 0;
  for (std::size_t i = threadIdx.x; i < parameters; i += threads) {
    const double g = gradient[blockIdx.x * parameters + i];
    total += g * g;
  }
  total = block_sum(total);
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrt(total);
}

__global__ void __launch_bounds__(threads)
    adamw_kernel(const DeviceStep step, const AdamWArrays arrays, const float* gradient, const double* norms,
                 std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const std::size_t at = blockIdx.y * count + i;
  const double norm = norms[blockIdx.y];
  const float g = norm > step.clip ? static_cast<float>(step.clip / norm) * gradient[at] : gradient[at];
  float m = arrays.first_moment[at], v = arrays.second_moment[at], parameter = arrays.parameters[at];
  step.adam.take(parameter, m, v, g);
  arrays.first_moment[at] = m;
  arrays.second_moment[at] = v;
  arrays.parameters[at] = parameter;
  if (arrays.average) arrays.average[at] += step.newest_share * (parameter - arrays.average[at]);
}

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>((count + threads - 1) / threads); }

}  // namespace

void launch_make_batch(const BatchSource& source, const Sample* samples, int count, int time, double noise,
                       float* x, float* target, cudaStream_t stream) {
  const std::size_t numbers =
      static_cast<std::size_t>(time) * std::max({source.d_in, source.d_out, source.given.count});
  const dim3 grid(blocks_for((numbers + 1) / 2), static_cast<unsigned>(count));
  make_batch_kernel<<<grid, threads, 0, stream>>>(source, samples, time, noise, x, target);
}

void launch_closure_loss(const ClosureErrors& errors, const double* weights, cudaStream_t stream) {
  const double share = 1 / (static_cast<double>(errors.batch) * errors.time * errors.d_out);
  closure_loss_kernel<<<errors.models * errors.batch * loss_parts, threads, 0, stream>>>(errors, weights,
                                                                                         share);
  launch_mean_loss(errors.sums, errors.models, errors.batch * loss_parts, share, errors.losses, stream);
}

void launch_mean_loss(const double* sums, int models, int batch, double share, double* losses,
                      cudaStream_t stream) {
  mean_loss_kernel<<<models, threads, 0, stream>>>(sums, batch, share, losses);
}

void launch_variable_sizes(const BatchSource& source, const Sample* samples, const int* groups, int count,
                           int time, double floor, double* sizes, cudaStream_t stream) {
  variable_sizes_kernel<<<count, threads, 0, stream>>>(source, samples, groups, time, floor, sizes);
}

void launch_relative_loss(const ClosureErrors& errors, const RelativeSizes& relative, cudaStream_t stream) {
  const double parts = static_cast<double>(errors.batch) * errors.d_out;
  relative_loss_kernel<<<errors.models * errors.batch, threads, 0, stream>>>(errors, relative, parts);
  launch_mean_loss(errors.sums, errors.models, errors.batch, 1.0, errors.losses, stream);
}

void launch_gradient_norm(const float* gradient, int models, std::size_t parameters, double* norms,
                          cudaStream_t stream) {
  gradient_norm_kernel<<<models, threads, 0, stream>>>(gradient, parameters, norms);
}

void launch_adamw(const DeviceStep& step, const AdamWArrays& arrays, const float* gradient,
                  const double* norms, int models, std::size_t count, cudaStream_t stream) {
  const dim3 grid(blocks_for(count), static_cast<unsigned>(models));
  adamw_kernel<<<grid, threads, 0, stream>>>(step, arrays, gradient, norms, count);
}

}  // namespace mac::cuda
