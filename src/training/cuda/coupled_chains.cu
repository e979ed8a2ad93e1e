#include "coupling/cuda/written_kernel.hpp"
#include "training/cuda/coupled_chains.hpp"
#include "training/cuda/coupled_step.cuh"
#include "training/cuda/device_random.cuh"

namespace mac::cuda {

namespace {

constexpr int threads = coupled_threads;

/// A thread for each state of each window.
__global__ void __launch_bounds__(threads)
    start_rollouts_kernel(const RolloutProblem p, const BatchSource source, const Sample* samples, int models,
                          int batch, int first, double noise, double* truth, float* given, double* z,
                          float* x) {
  const int t = static_cast<int>(blockIdx.x * threads + threadIdx.x), w = static_cast<int>(blockIdx.y);
  const int group = p.windows / models;
  const Sample sample = samples[w / group * batch + first + w % group];
  const double2* const rotations = rotations_of(sample, source.modes);
  if (t >= p.states) return;
  const double* const row = source.resolved + sample.resolved + static_cast<std::size_t>(t) * p.d;
  const std::size_t row_of = static_cast<std::size_t>(w) * p.states + t;
  const bool starts = t < p.starts;
  const std::size_t chain = starts ? static_cast<std::size_t>(p.chain(w, t)) : 0;
  NoiseRow normals(sample.seed, sample.stream, static_cast<std::uint64_t>(t) * p.d);
  for (int v = 0; v < p.d; ++v) {
    const double state = component_of_image(row, v, p.d, source.modes, rotations, sample);
    truth[row_of * p.d + v] = state;
    if (!starts) continue;
    z[chain * p.d + v] = state;
    double value = p.input.to_network(v, state);
    if (noise > 0) value += noise * normals.next();
    x[chain * p.inputs() + v] = static_cast<float>(value);
  }
  for (int k = 0; k < p.given; ++k) {
    const float value = given_input(source, sample, t, k);
    given[row_of * p.given + k] = value;
    if (starts) x[chain * p.inputs() + p.d + k] = value;
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
    const double norm = ::sqrt(mean + windows.floor * windows.floor), size = windows.sizes[part];
    windows.losses[part] = norm / (size * parts);
    windows.slopes[i] = 1 / (size * parts * windows.errors * norm);
  } else {
    windows.losses[part] = mean / parts;
    windows.slopes[i] = 2 / (parts * windows.errors);
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
  d_y[i] = static_cast<float>(sum * p.output.scale[j]);
}

/// A thread for each number of `to`.
__global__ void __launch_bounds__(threads)
    swap_kernel(const float* from, float* to, std::size_t rows, std::size_t columns, std::size_t width,
                std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const std::size_t k = i % width, row = i / width % rows, column = i / width / rows % columns,
                    model = i / width / rows / columns;
  to[i] = from[((model * rows + row) * columns + column) * width + k];
}

__global__ void __launch_bounds__(threads) add_kernel(const float* from, float* to, std::size_t count) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < count) to[i] += from[i];
}

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>((count + threads - 1) / threads); }

/// Calls launch(room, equations): with the number of variables where it is one of the paper's systems, else
/// with room for any. For equations that came as text, launch_own(equations).
template <class Launch, class LaunchOwn>
void with_room(const ReducedEquations& equations, int d, const Launch& launch, const LaunchOwn& launch_own) {
  std::visit(
      [&](const auto& of) {
        using Equations = std::decay_t<decltype(of)>;
        if constexpr (std::is_same_v<Equations, WrittenEquations>)
          launch_own(of);
        else if (d == Equations::variables_of_paper)
          launch(std::integral_constant<int, Equations::variables_of_paper>(), of);
        else
          launch(std::integral_constant<int, static_cast<int>(most_variables)>(), of);
      },
      equations.of);
}

}  // namespace

KernelName coupled_step_name(const WrittenEquations& equations) {
  return own_kernel("training/cuda/coupled_step.cuh", "coupled_step_kernel",
                    {std::to_string(equations.variables)});
}
KernelName coupled_adjoint_name(const WrittenEquations& equations) {
  return own_kernel("training/cuda/coupled_step.cuh", "coupled_adjoint_kernel",
                    {std::to_string(equations.variables)});
}

void launch_start_rollouts(const RolloutProblem& problem, const BatchSource& source, const Sample* samples,
                           int models, int batch, int first, double noise, double* truth, float* given,
                           double* z, float* x, cudaStream_t stream) {
  const dim3 grid(blocks_for(static_cast<std::size_t>(problem.states)),
                  static_cast<unsigned>(problem.windows));
  start_rollouts_kernel<<<grid, threads, 0, stream>>>(problem, source, samples, models, batch, first, noise,
                                                      truth, given, z, x);
}

void launch_coupled_step(const ReducedEquations& equations, const RolloutProblem& problem,
                         const CoupledArrays& at, double* z_next, float* x_next, double* errors,
                         cudaStream_t stream) {
  const unsigned blocks = blocks_for(problem.chains());
  with_room(
      equations, problem.d,
      [&](auto room, const auto& of) {
        coupled_step_kernel<room()><<<blocks, threads, 0, stream>>>(of, problem, at, z_next, x_next, errors);
      },
      [&](const WrittenEquations& of) {
        launch_written(written_kernel(of, coupled_step_name(of)), blocks, threads, 0, stream, NoNumbers(),
                       problem, at, z_next, x_next, errors);
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
  const auto blocks_with = [&](int room) {
    return blocks_for(static_cast<std::size_t>(problem.chains()) * lanes_of(room));
  };
  with_room(
      equations, problem.d,
      [&](auto room, const auto& of) {
        coupled_adjoint_kernel<room()><<<blocks_with(room()), threads, 0, stream>>>(
            of, problem, at, z_next, slopes, d_z, d_x, d_z_before, d_own, d_previous);
      },
      [&](const WrittenEquations& of) {
        launch_written(written_kernel(of, coupled_adjoint_name(of)), blocks_with(problem.d), threads, 0,
                       stream, NoNumbers(), problem, at, z_next, slopes, d_z, d_x, d_z_before, d_own,
                       d_previous);
      });
}

void launch_output_gradient(const RolloutProblem& problem, int s, const double* d_own, const double* later,
                            const double* d_previous, float* d_y, cudaStream_t stream) {
  const std::size_t count = static_cast<std::size_t>(problem.chains()) * problem.c;
  output_gradient_kernel<<<blocks_for(count), threads, 0, stream>>>(problem, s, d_own, later, d_previous,
                                                                    d_y);
}

void launch_swap(const float* from, float* to, std::size_t models, std::size_t rows, std::size_t columns,
                 std::size_t width, cudaStream_t stream) {
  const std::size_t count = models * rows * columns * width;
  swap_kernel<<<blocks_for(count), threads, 0, stream>>>(from, to, rows, columns, width, count);
}

void launch_add(const float* from, float* to, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;  // states of a kind without memory
  add_kernel<<<blocks_for(count), threads, 0, stream>>>(from, to, count);
}

}  // namespace mac::cuda
