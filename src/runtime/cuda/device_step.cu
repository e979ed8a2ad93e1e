// A block of threads takes a tile of columns one step on: the tile's memory comes into shared memory, beside the weights
// where they fit, and goes back.
#include <algorithm>
#include <mac/held_rk4.hpp>
#include <mac/paper_networks.hpp>
#include <string_view>

#include "coupling/fourier_angle.hpp"
#include "network/cuda/network_step.cuh"
#include "network/kinds/gru/cuda/step.cuh"
#include "network/kinds/mamba/cuda/step.cuh"
#include "runtime/cuda/device_step.hpp"

namespace mac::cuda {

namespace {

/// Places in shared memory: a step's; the closures, and the inputs in physical units, which are one after the other in one
/// room; for each column whether it takes part and whether its input was refused. Of the columns' memory there is
/// room for that of one block of the network, or of all.
struct Layout {
  SharedLayout shared;
  StepRooms step;
  int fields;           // double
  int active, refused;  // int

  template <class Net>
  __host__ __device__ Layout(const Net& net, int group, bool shared_weights, bool all_blocks)
      : step(shared, net, group, shared_weights, Net::Layer::work_rows(net),
             all_blocks ? net.state() : net.block_state()) {
    fields = shared.take(2 * group * (net.d_in > net.d_out ? net.d_in : net.d_out));
    active = shared.take(group), refused = shared.take(group);
  }
};

/// Component i of a column's row that begins with modes theta_k = phi_k + i psi_k: theta_k e^{ika} for the way 1, into the
/// frame for the way -1.
__device__ double turned(const DeviceStep& step, int i, int column, const double* row, double way) {
  const int modes = step.modes, columns = step.memory.columns;
  if (i >= 2 * modes) return row[i];
  const int k = i < modes ? i : i - modes;
  const double* const factor = step.factors + static_cast<std::size_t>(2 * k) * columns + column;
  const double phi = row[k], psi = row[modes + k], cosine = factor[0], sine = way * factor[columns];
  return i < modes ? phi * cosine - psi * sine : phi * sine + psi * cosine;
}

/// The frame of each column's step. A kernel of its own: it would take the others' registers.
__global__ void choose_frames_kernel(const DeviceStep step) {
  struct Row {
    const DeviceField& of;
    unsigned column;
    __device__ double operator[](std::size_t i) const { return of.get(i, column); }
  };
  const ColumnMemory& memory = step.memory;
  for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < memory.columns;
       column += gridDim.x * blockDim.x) {
    if (step.mask && !step.mask[column]) continue;
    const double kept = memory.angles[column];
    const double angle =
        isnan(kept) ? fourier_angle(step.modes, Row{step.y, static_cast<unsigned>(column)}) : kept;
    step.chosen[column] = angle;
    for (int k = 0; k < step.modes; ++k) {
      double* const factor = step.factors + static_cast<std::size_t>(2 * k) * memory.columns + column;
      sincos((k + 1) * angle, factor + memory.columns, factor);
    }
  }
}

__device__ void copy_quads(float* to, const float* from, int quads) {
#pragma unroll 4
  for (int i = threadIdx.x; i < quads; i += blockDim.x) quad_at(to + 4 * i) = quad_at(from + 4 * i);
}

/// The memory of a tile of columns on its way between device memory and shared memory, (rows, group) in either. A thread
/// brings back what it fetched, so that nobody waits in between.
template <int GROUP>
struct TileMemory {
  static constexpr int width = GROUP % 4 == 0 ? 4 : 1;
  float *shared, *kept;
  const int *active, *refused;

  __device__ void fetch(int first, int count) const {
#pragma unroll 4
    for (int i = width * threadIdx.x; i < count; i += width * blockDim.x)
      Tile<width>::load(kept + first + i).store(shared + i);
  }
  __device__ void bring_back(int first, int count) const {
    for (int i = width * threadIdx.x; i < count; i += width * blockDim.x) {
      const int g = i % GROUP;
      bool all = true;
      for (int k = 0; k < width; ++k) all = all && steps(g + k);
      if (all)
        Tile<width>::load(shared + i).store(kept + first + i);
      else
        for (int k = 0; k < width; ++k)
          if (steps(g + k)) kept[first + i + k] = shared[i + k];
    }
  }
  __device__ bool steps(int g) const { return active[g] && !refused[g]; }
};

/// The memory of one block of the network at a time.
template <int GROUP>
struct PassingStates {
  TileMemory<GROUP> memory;
  int size;  // of a block's

  __device__ float* begin(int i) const {
    memory.fetch(i * size, size);
    return memory.shared;
  }
  __device__ void end(int i) const { memory.bring_back(i * size, size); }
};

/// How a kernel uses shared memory.
template <int GROUP_, bool SHARED_WEIGHTS, bool ALL_BLOCKS, int THREADS>
struct Use {
  static constexpr int group = GROUP_, threads = THREADS;
  static constexpr bool shared_weights = SHARED_WEIGHTS, all_blocks = ALL_BLOCKS;
};

template <class Net, class Use>
__global__ void __launch_bounds__(Use::threads, 1024 / Use::threads) step_kernel(const DeviceStep step) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = Use::group, threads = Use::threads, width = TileMemory<group>::width;
  const Net net(step.network);
  const Layout at(net, group, Use::shared_weights, Use::all_blocks);
  const ColumnMemory& memory = step.memory;
  if constexpr (Use::shared_weights) copy_quads(shared + at.step.weights, step.weights, (net.size() + 3) / 4);
  const float* const w = Use::shared_weights ? shared + at.step.weights : step.weights;
  int* const active = reinterpret_cast<int*>(shared + at.active);
  int* const refused = reinterpret_cast<int*>(shared + at.refused);
  double* const fields = reinterpret_cast<double*>(shared + at.fields);
  const int d = net.d_in, c = net.d_out, of_block = net.block_state() * group, of_tile = net.state() * group;
  const auto tell = [&](bool in_closure, int component, int column) {
    atomicMin(memory.trouble, Trouble::of(in_closure, component, column));
  };

  const int tiles = static_cast<int>(memory.tiles());
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int first = tile * group;
    bool any = false;
    for (int g = threadIdx.x; g < group; g += threads) {
      const int column = first + g;
      active[g] = column < memory.columns && (!step.mask || step.mask[column]);
      refused[g] = 0;
      any = any || active[g];
    }
    if (!__syncthreads_or(any)) continue;
    const TileMemory<group> recurrent{shared + at.step.state,
                                      memory.recurrent + static_cast<std::size_t>(tile) * memory.tile_size(),
                                      active, refused};
    if constexpr (Use::all_blocks) recurrent.fetch(0, of_tile);
    const auto refuse = [&](int k, int g) {
      tell(false, k, first + g);
      atomicExch(&refused[g], 1);
    };
    /// x = to_network(value(k, g)) of the columns that take part
    const auto normalise = [&](auto value) {
      for (int i = threadIdx.x; i < d * group; i += threads) {
        const int g = i % group, k = i / group;
        float x = 0;
        if (active[g]) {
          x = static_cast<float>(step.input.to_network(k, value(k, g)));
          if (!isfinite(x)) refuse(k, g);
        }
        shared[at.step.x + i] = x;
      }
      __syncthreads();
    };
    if (step.modes == 0) {
      normalise([&](int k, int g) { return step.y.get(k, first + g); });
    } else {
      for (int i = threadIdx.x; i < d * group; i += threads) {
        const int g = i % group, k = i / group;
        fields[g * d + k] = active[g] ? step.y.get(k, first + g) : 0;
      }
      __syncthreads();
      // A number that is not finite spoils others of its column; it is the one to be told.
      normalise([&](int k, int g) {
        const double value = turned(step, k, first + g, fields + g * d, -1);
        return isfinite(value) || !isfinite(fields[g * d + k]) ? value : 0.0;
      });
    }
    const auto finish = [&](int o, int g, const Tile<width>& out) {
      for (int i = 0; i < width; ++i)
        fields[(g + i) * c + o] = step.output.to_physical(o, static_cast<double>(out.at[i]));
    };
    if constexpr (Use::all_blocks) {
      step_forward<width>(shared, at.step, w, net, group, NoTape(), finish,
                          ResidentStates{shared + at.step.state, of_block});
      recurrent.bring_back(0, of_tile);
    } else {
      step_forward<width>(shared, at.step, w, net, group, NoTape(), finish,
                          PassingStates<group>{recurrent, of_block});
    }
    for (int i = threadIdx.x; i < c * group; i += threads) {
      const int g = i % group, o = i / group, column = first + g;
      if (!active[g]) continue;
      if (refused[g]) {
        step.closure.put(o, column, NAN);
        continue;
      }
      const double value = step.modes == 0 ? fields[g * c + o] : turned(step, o, column, fields + g * c, 1);
      const std::size_t place = static_cast<std::size_t>(o) * memory.columns + column;
      memory.previous[place] = memory.closure[place];
      memory.closure[place] = value;
      if (!isfinite(step.closure.put(o, column, value))) tell(true, o, column);
    }
    for (int g = threadIdx.x; g < group; g += threads)
      if (recurrent.steps(g)) {
        ++memory.steps[first + g];
        if (step.modes > 0) memory.angles[first + g] = step.chosen[first + g];
      }
    __syncthreads();
  }
}

__global__ void closure_at_kernel(const ColumnMemory memory, HeldClosure held, double fraction,
                                  const DeviceField out) {
  for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < memory.columns;
       column += gridDim.x * blockDim.x) {
    const double share = held_rk4::share(held, memory.steps[column] > 1, fraction);
    for (int o = 0; o < memory.outputs; ++o) {
      const std::size_t at = static_cast<std::size_t>(o) * memory.columns + column;
      out.put(o, column, held_rk4::line(memory.closure[at], memory.previous[at], share));
    }
  }
}

/// A block to a column.
__global__ void exchange_kernel(Exchange way, const ColumnMemory memory, const unsigned* columns, int count,
                                const ColumnRecords records) {
  const auto exchange = [&](auto& record, auto& kept) {
    if (way == Exchange::save)
      record = kept;
    else
      kept = record;
  };
  for (int k = blockIdx.x; k < count; k += gridDim.x) {
    const unsigned column = columns[k];
    const std::size_t row = k;
    for (int i = threadIdx.x; i < memory.states; i += blockDim.x)
      exchange(records.recurrent[row * memory.states + i], memory.recurrent[memory.place(i, column)]);
    for (int o = threadIdx.x; o < memory.outputs; o += blockDim.x) {
      const std::size_t at = static_cast<std::size_t>(o) * memory.columns + column;
      exchange(records.closure[row * memory.outputs + o], memory.closure[at]);
      exchange(records.previous[row * memory.outputs + o], memory.previous[at]);
    }
    if (threadIdx.x == 0) {
      exchange(records.steps[row], memory.steps[column]);
      if (records.angles) exchange(records.angles[row], memory.angles[column]);
    }
  }
}

struct StepVariant {
  void (*kernel)(DeviceStep);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&);
  int group, threads;
};

template <class Net, class Use>
constexpr StepVariant variant() {
  return {step_kernel<Net, Use>, Net::suits,
          [](const PackedSizes& sizes) {
            const Layout layout(Net(sizes), Use::group, Use::shared_weights, Use::all_blocks);
            return layout.shared.used * sizeof(float);
          },
          Use::group, Use::threads};
}

/// What a launch is good for, from few columns to many; docs/device.md has the times. Weights that are not brought into
/// shared memory come through the cache; several blocks then share a multiprocessor, and each works while others wait.
using One = Use<1, true, true, 512>;
using OneOfLarge = Use<1, false, true, 256>;
using Some = Use<4, true, true, 512>;
using More = Use<12, true, true, 512>;
using ManySmall = Use<4, false, false, 256>;
using Many = Use<12, false, false, 256>;

template <class Layer>
using Any = PackedLayout<Layer, AnyPackedSizes>;
/// The paper's Mamba of a system.
constexpr NetworkShape shape_of(std::string_view system) {
  return find_paper_network(system, LayerKind::mamba)->shape;
}
constexpr NetworkShape burgers = shape_of("burgers"), kdv = shape_of("kdv"), lorenz96 = shape_of("lorenz96");
template <const NetworkShape& S>
using Fixed =
    PackedLayout<mamba::StepLayer, FixedPackedSizes<S.d_in, S.d_out, S.d_model, S.n_blocks, S.d_state>>;
using Mamba = Any<mamba::StepLayer>;
using Gru = Any<gru::StepLayer>;

/// The first that takes all columns at once is chosen, else the one that has most of them at once. So those for few columns
/// stand first, and those of fixed sizes before those of any.
const StepVariant variants[] = {variant<Fixed<burgers>, One>(),
                                variant<Fixed<kdv>, One>(),
                                variant<Mamba, One>(),
                                variant<Gru, One>(),
                                variant<Mamba, OneOfLarge>(),
                                variant<Gru, OneOfLarge>(),
                                variant<Mamba, Some>(),
                                variant<Gru, Some>(),
                                variant<Fixed<burgers>, More>(),
                                variant<Mamba, More>(),
                                variant<Gru, More>(),
                                variant<Fixed<lorenz96>, ManySmall>(),
                                variant<Mamba, ManySmall>(),
                                variant<Gru, ManySmall>(),
                                variant<Fixed<burgers>, Many>(),
                                variant<Fixed<kdv>, Many>(),
                                variant<Mamba, Many>(),
                                variant<Gru, Many>()};

constexpr int threads_of_columns = 128;
int blocks_of(const ColumnMemory& memory) {
  return std::min((memory.columns + threads_of_columns - 1) / threads_of_columns, 4096);
}

/// Brings it to the device, where CUDA would wait until it is first launched.
cudaError_t load_kernel(const void* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace

cudaError_t prepare_step(const PackedSizes& network, int columns, const SharedMemory& shared, int processors,
                         std::optional<DeviceStepLaunch>& launch) {
  int most = 0;  // columns that a multiprocessor works on at once
  for (const StepVariant& variant : variants) {
    if (!variant.suits(network)) continue;
    const std::size_t bytes = variant.bytes(network);
    if (bytes > shared.per_block) continue;
    int blocks = 0;  // that share a multiprocessor
    cudaError_t status = cudaFuncSetAttribute(variant.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(bytes));
    if (status == cudaSuccess)
      status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, variant.kernel, variant.threads, bytes);
    if (status != cudaSuccess) return status;
    const int tiles = (columns + variant.group - 1) / variant.group;
    const bool all_at_once = tiles <= (variant.group == 1 ? 1 : blocks) * processors;
    if (!all_at_once && variant.group * blocks <= most) continue;
    most = variant.group * blocks;
    launch = {static_cast<int>(&variant - variants), variant.group, std::min(tiles, blocks * processors),
              bytes};
    if (all_at_once) break;
  }
  for (const void* kernel :
       {reinterpret_cast<const void*>(closure_at_kernel), reinterpret_cast<const void*>(exchange_kernel)})
    if (const cudaError_t status = load_kernel(kernel); status != cudaSuccess) return status;
  return cudaSuccess;
}

cudaError_t launch_step(const DeviceStep& step, const DeviceStepLaunch& launch, cudaStream_t stream) {
  const StepVariant& variant = variants[launch.variant];
  if (step.modes > 0) choose_frames_kernel<<<blocks_of(step.memory), threads_of_columns, 0, stream>>>(step);
  variant.kernel<<<launch.blocks, variant.threads, launch.bytes, stream>>>(step);
  return cudaGetLastError();
}

cudaError_t launch_closure_at(const ColumnMemory& memory, HeldClosure held, double fraction,
                              const DeviceField& out, cudaStream_t stream) {
  closure_at_kernel<<<blocks_of(memory), threads_of_columns, 0, stream>>>(memory, held, fraction, out);
  return cudaGetLastError();
}

cudaError_t launch_exchange(Exchange way, const ColumnMemory& memory, const unsigned* columns, int count,
                            const ColumnRecords& records, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  exchange_kernel<<<std::min(count, 4096), threads_of_columns, 0, stream>>>(way, memory, columns, count,
                                                                            records);
  return cudaGetLastError();
}

}  // namespace mac::cuda
