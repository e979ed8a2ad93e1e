#include <mac/dual.hpp>

#include "rollout/coupled_rk4.hpp"
#include "training/cuda/device_random.cuh"
#include "training/cuda/rollout_kernels.hpp"

namespace mac::cuda {

namespace {

constexpr int threads = 128;

/// A thread for each state of each window.
__global__ void __launch_bounds__(threads)
    start_rollouts_kernel(const RolloutProblem p, const BatchSource source, const Sample* samples, int models,
                          int batch, int first, double noise, double* truth, double* z, float* x) {
  const int t = static_cast<int>(blockIdx.x * threads + threadIdx.x), w = static_cast<int>(blockIdx.y);
  const int group = p.windows / models;
  const Sample sample = samples[w / group * batch + first + w % group];
  const double2* const rotations = rotations_of(sample, source.modes);
  if (t >= p.states) return;
  double row[most_components];
  transform(row, source.resolved + sample.resolved + static_cast<std::size_t>(t) * p.d, p.d, source.modes,
            rotations, sample);
  const bool starts = t < p.starts;
  const std::size_t chain = starts ? static_cast<std::size_t>(p.chain(w, t)) : 0;
  NoiseRow normals(sample.seed, sample.stream, static_cast<std::uint64_t>(t) * p.d);
  for (int v = 0; v < p.d; ++v) {
    truth[(static_cast<std::size_t>(w) * p.states + t) * p.d + v] = row[v];
    if (!starts) continue;
    z[chain * p.d + v] = row[v];
    double value = (row[v] - p.input_mean[v]) * p.input_factor[v];
    if (noise > 0) value += noise * normals.next();
    x[chain * p.d + v] = static_cast<float>(value);
  }
}

/// What one chain's step reads: its own prediction and the one before, if there is one.
template <int Capacity>
struct ChainClosures {
  double closure[Capacity], previous[Capacity];
  bool has_previous;

  __device__ ChainClosures(const RolloutProblem& p, const CoupledArrays& at, int chain) {
    const int t = p.time(chain);
    has_previous = at.s > 0 || t > 0;
    const float* const before =
        at.s > 0 ? at.previous_y + static_cast<std::size_t>(chain) * p.c
                 : at.y + static_cast<std::size_t>(t > 0 ? p.chain(p.window(chain), t - 1) : chain) * p.c;
    for (int j = 0; j < p.c; ++j) {
      const double scale = p.output_scale[j], mean = p.output_mean[j];
      closure[j] = static_cast<double>(at.y[static_cast<std::size_t>(chain) * p.c + j]) * scale + mean;
      previous[j] = static_cast<double>(before[j]) * scale + mean;
    }
  }
  __device__ const double* before() const { return has_previous ? previous : nullptr; }
};

__device__ CoupledRk4 integrator(const RolloutProblem& p) {
  return {static_cast<std::size_t>(p.d), static_cast<std::size_t>(p.c), p.targets, p.dt, p.linear, p.mean};
}

__device__ const double* true_state(const RolloutProblem& p, const CoupledArrays& at, int chain) {
  return at.truth + (static_cast<std::size_t>(p.window(chain)) * p.states + p.time(chain) + at.s + 1) * p.d;
}

/// A thread for each chain.
template <int Capacity, class Equations>
__global__ void __launch_bounds__(threads)
    coupled_step_kernel(const Equations equations, const RolloutProblem p, const CoupledArrays at,
                        double* z_next, float* x_next, double* errors) {
  const int chain = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (chain >= p.chains()) return;
  const std::size_t offset = static_cast<std::size_t>(chain) * p.d;
  const ChainClosures<Capacity> closures(p, at, chain);
  double y[Capacity];
  for (int v = 0; v < p.d; ++v) y[v] = at.z[offset + v];
  const auto rhs = [&](const double* state, double* rate) { equations.reduced_rhs(state, rate); };
  integrator(p).step<Capacity>(rhs, closures.closure, closures.before(), y);
  const double* const truth = true_state(p, at, chain);
  for (int v = 0; v < p.d; ++v) {
    const double error = (y[v] - truth[v]) * p.input_factor[v];
    errors[offset + v] = error * error + (at.s > 0 ? errors[offset + v] : 0);
    z_next[offset + v] = y[v];
    if (x_next) x_next[offset + v] = static_cast<float>((y[v] - p.input_mean[v]) * p.input_factor[v]);
  }
}

/// A thread for each window and variable.
__global__ void __launch_bounds__(threads)
    window_losses_kernel(const RolloutProblem p, const double* errors, const WindowLosses windows) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (i >= p.windows * p.d) return;
  const int w = i / p.d, v = i % p.d, group = p.windows / windows.models;
  const std::size_t part =
      static_cast<std::size_t>(w / group * windows.batch + windows.first + w % group) * p.d + v;
  const double parts = static_cast<double>(windows.batch) * p.d;
  double mean = 0;
  for (int t = 0; t < p.starts; ++t) mean += errors[static_cast<std::size_t>(p.chain(w, t)) * p.d + v];
  mean /= windows.errors;
  if (windows.sizes) {
    const double norm = sqrt(mean + windows.floor * windows.floor), size = windows.sizes[part];
    windows.losses[part] = norm / (size * parts);
    windows.slopes[i] = 1 / (size * parts * windows.errors * norm);
  } else {
    windows.losses[part] = mean / parts;
    windows.slopes[i] = 2 / (parts * windows.errors);
  }
}

/// `Capacity` lanes for each chain. All compute the same; each brings its own column of the Jacobian.
template <int Capacity, class Equations>
__global__ void __launch_bounds__(threads)
    coupled_adjoint_kernel(const Equations equations, const RolloutProblem p, const CoupledArrays at,
                           const double* z_next, const double* slopes, const double* d_z, const float* d_x,
                           double* d_z_before, double* d_own, double* d_previous) {
  const int thread = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  const int lane = thread % Capacity;
  const bool valid = thread / Capacity < p.chains();
  const int chain = valid ? thread / Capacity : p.chains() - 1;  // all lanes of a warp exchange values
  const std::size_t offset = static_cast<std::size_t>(chain) * p.d;
  const ChainClosures<Capacity> closures(p, at, chain);
  const double* const truth = true_state(p, at, chain);
  double y[Capacity], d_next[Capacity], d_y[Capacity], own[Capacity], before[Capacity];
  for (int v = 0; v < p.d; ++v) {
    y[v] = at.z[offset + v];
    d_next[v] = slopes[p.window(chain) * p.d + v] * (z_next[offset + v] - truth[v]) * p.input_factor[v] *
                p.input_factor[v];
    if (d_z) d_next[v] += d_z[offset + v] + static_cast<double>(d_x[offset + v]) * p.input_factor[v];
    d_y[v] = 0;
  }
  for (int j = 0; j < p.c; ++j) own[j] = 0, before[j] = 0;
  const auto rhs = [&](const double* state, double* rate) { equations.reduced_rhs(state, rate); };
  const auto add_vjp = [&](const double* state, const double* adjoint, double* grad) {
    Dual<1> point[Capacity], image[Capacity];
    for (int v = 0; v < p.d; ++v) {
      point[v] = Dual<1>(state[v]);
      point[v].partial[0] = v == lane ? 1 : 0;
    }
    equations.reduced_rhs(static_cast<const Dual<1>*>(point), image);
    double mine = 0;
    for (int v = 0; v < p.d; ++v) mine += image[v].partial[0] * adjoint[v];
    for (int v = 0; v < p.d; ++v) grad[v] += __shfl_sync(0xffffffffu, mine, v, Capacity);
  };
  integrator(p).adjoint<Capacity>(rhs, add_vjp, closures.closure, closures.before(), y, d_next, d_y, own,
                                  before);
  if (!valid) return;
  if (lane < p.d) d_z_before[offset + lane] = d_y[lane];
  if (lane < p.c) {
    d_own[static_cast<std::size_t>(chain) * p.c + lane] = own[lane];
    d_previous[static_cast<std::size_t>(chain) * p.c + lane] = before[lane];
  }
}

/// A thread for each chain and closure.
__global__ void __launch_bounds__(threads)
    output_gradient_kernel(const RolloutProblem p, int s, const double* d_own, const double* later,
                           const double* d_previous, float* d_y) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (i >= p.chains() * p.c) return;
  const int chain = i / p.c, j = i % p.c, t = p.time(chain);
  double sum = d_own[i];
  if (later) sum += later[i];
  if (s == 0 && t + 1 < p.starts)
    sum += d_previous[static_cast<std::size_t>(p.chain(p.window(chain), t + 1)) * p.c + j];
  d_y[i] = static_cast<float>(sum * p.output_scale[j]);
}

__global__ void __launch_bounds__(threads) add_kernel(const float* from, float* to, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) to[i] += from[i];
}

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>((count + threads - 1) / threads); }

/// Calls launch(capacity, equations) with the least room that the variables need, as a compile-time number.
template <class Launch>
void with_capacity(const ReducedEquations& equations, int d, const Launch& launch) {
  std::visit(
      [&](const auto& of) {
        if (d <= 8)
          launch(std::integral_constant<int, 8>(), of);
        else if constexpr (!std::is_same_v<std::decay_t<decltype(of)>, GridBuses>)
          launch(std::integral_constant<int, static_cast<int>(most_variables)>(), of);
      },
      equations.of);
}

}  // namespace

void launch_start_rollouts(const RolloutProblem& problem, const BatchSource& source, const Sample* samples,
                           int models, int batch, int first, double noise, double* truth, double* z, float* x,
                           cudaStream_t stream) {
  const dim3 grid(blocks_for(static_cast<std::size_t>(problem.states)),
                  static_cast<unsigned>(problem.windows));
  start_rollouts_kernel<<<grid, threads, 0, stream>>>(problem, source, samples, models, batch, first, noise,
                                                      truth, z, x);
}

void launch_coupled_step(const ReducedEquations& equations, const RolloutProblem& problem,
                         const CoupledArrays& at, double* z_next, float* x_next, double* errors,
                         cudaStream_t stream) {
  with_capacity(equations, problem.d, [&](auto capacity, const auto& of) {
    coupled_step_kernel<capacity()>
        <<<blocks_for(problem.chains()), threads, 0, stream>>>(of, problem, at, z_next, x_next, errors);
  });
}

void launch_window_losses(const RolloutProblem& problem, const double* errors, const WindowLosses& windows,
                          cudaStream_t stream) {
  const std::size_t count = static_cast<std::size_t>(problem.windows) * problem.d;
  window_losses_kernel<<<blocks_for(count), threads, 0, stream>>>(problem, errors, windows);
}

void launch_coupled_adjoint(const ReducedEquations& equations, const RolloutProblem& problem,
                            const CoupledArrays& at, const double* z_next, const double* slopes,
                            const double* d_z, const float* d_x, double* d_z_before, double* d_own,
                            double* d_previous, cudaStream_t stream) {
  with_capacity(equations, problem.d, [&](auto capacity, const auto& of) {
    const std::size_t lanes = static_cast<std::size_t>(problem.chains()) * capacity();
    coupled_adjoint_kernel<capacity()><<<blocks_for(lanes), threads, 0, stream>>>(
        of, problem, at, z_next, slopes, d_z, d_x, d_z_before, d_own, d_previous);
  });
}

void launch_output_gradient(const RolloutProblem& problem, int s, const double* d_own, const double* later,
                            const double* d_previous, float* d_y, cudaStream_t stream) {
  const std::size_t count = static_cast<std::size_t>(problem.chains()) * problem.c;
  output_gradient_kernel<<<blocks_for(count), threads, 0, stream>>>(problem, s, d_own, later, d_previous,
                                                                    d_y);
}

void launch_add(const float* from, float* to, std::size_t count, cudaStream_t stream) {
  add_kernel<<<blocks_for(count), threads, 0, stream>>>(from, to, count);
}

}  // namespace mac::cuda
