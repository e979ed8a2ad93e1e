// A block of threads takes a tile of columns one step on: the tile's memory comes into shared memory, beside the weights
// where they fit, and goes back.
#include <algorithm>
#include <mac/held_rk4.hpp>
#include <mac/paper_networks.hpp>

#include "network/cuda/network_step.cuh"
#include "network/kinds/gru/cuda/step.cuh"
#include "network/kinds/mamba/cuda/step.cuh"
#include "runtime/cuda/device_step.hpp"

namespace mac::cuda {

namespace {

/// Places in shared memory: a step's, and for each column whether it takes part and whether its input was refused.
struct Layout {
  SharedLayout shared;
  StepRooms step;
  int active, refused;  // int

  template <class Net>
  __host__ __device__ Layout(const Net& net, int group, bool shared_weights)
      : step(shared, net, group, shared_weights, Net::Layer::work_rows(net)) {
    active = shared.take(group), refused = shared.take(group);
  }
};

__device__ void copy_quads(float* to, const float* from, int quads) {
#pragma unroll 4
  for (int i = threadIdx.x; i < quads; i += blockDim.x) quad_at(to + 4 * i) = quad_at(from + 4 * i);
}

template <class Net, int GROUP, bool SHARED_WEIGHTS, int THREADS>
__global__ void __launch_bounds__(THREADS) step_kernel(const DeviceStep step) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  constexpr int group = GROUP, tile_width = GROUP % 4 == 0 ? 4 : 1;
  const Net net(step.network);
  const Layout at(net, group, SHARED_WEIGHTS);
  const ColumnMemory& memory = step.memory;
  if constexpr (SHARED_WEIGHTS) copy_quads(shared + at.step.weights, step.weights, (net.size() + 3) / 4);
  const float* const w = SHARED_WEIGHTS ? shared + at.step.weights : step.weights;
  float* const state = shared + at.step.state;
  int* const active = reinterpret_cast<int*>(shared + at.active);
  int* const refused = reinterpret_cast<int*>(shared + at.refused);
  const int d = net.d_in, tile_size = static_cast<int>(memory.tile_size());
  const auto tell = [&](bool in_closure, int component, int column) {
    atomicMin(memory.trouble, Trouble::of(in_closure, component, column));
  };

  const int tiles = static_cast<int>(memory.tiles());
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int first = tile * group;
    bool any = false;
    for (int g = threadIdx.x; g < group; g += THREADS) {
      const int column = first + g;
      active[g] = column < memory.columns && (!step.mask || step.mask[column]);
      refused[g] = 0;
      any = any || active[g];
    }
    if (!__syncthreads_or(any)) continue;
    float* const kept = memory.recurrent + static_cast<std::size_t>(tile) * tile_size;
    copy_quads(state, kept, tile_size / 4);
    for (int i = threadIdx.x; i < d * group; i += THREADS) {
      const int g = i % group, k = i / group;
      float x = 0;
      if (active[g]) {
        x = static_cast<float>(step.input.to_network(k, step.y.get(k, first + g)));
        if (!isfinite(x)) {
          tell(false, k, first + g);
          atomicExch(&refused[g], 1);
        }
      }
      shared[at.step.x + i] = x;
    }
    __syncthreads();
    step_forward<tile_width>(
        shared, at.step, w, net, group, NoTape(), [&](int o, int g, const Tile<tile_width>& out) {
          for (int i = 0; i < tile_width; ++i) {
            const int column = first + g + i;
            if (!active[g + i]) continue;
            const double value =
                refused[g + i] ? NAN : step.output.to_physical(o, static_cast<double>(out.at[i]));
            const double given = step.closure.put(o, column, value);
            if (refused[g + i]) continue;
            const std::size_t place = static_cast<std::size_t>(o) * memory.columns + column;
            memory.previous[place] = memory.closure[place];
            memory.closure[place] = value;
            if (!isfinite(given)) tell(true, o, column);
          }
        });
    for (int i = threadIdx.x; i < tile_size / tile_width; i += THREADS) {
      const int place = i * tile_width;
      bool all = true;
      for (int k = 0; k < tile_width; ++k)
        all = all && active[(place + k) % group] && !refused[(place + k) % group];
      if (all)
        Tile<tile_width>::load(state + place).store(kept + place);
      else
        for (int k = 0; k < tile_width; ++k)
          if (active[(place + k) % group] && !refused[(place + k) % group])
            kept[place + k] = state[place + k];
    }
    for (int g = threadIdx.x; g < group; g += THREADS)
      if (active[g] && !refused[g]) ++memory.steps[first + g];
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
    if (threadIdx.x == 0) exchange(records.steps[row], memory.steps[column]);
  }
}

struct StepVariant {
  void (*kernel)(DeviceStep);
  bool (*suits)(const PackedSizes&);
  std::size_t (*bytes)(const PackedSizes&);
  int group, threads;
  bool shared_weights;
};

template <class Net, int GROUP, bool SHARED_WEIGHTS>
constexpr StepVariant variant() {
  constexpr int threads = GROUP == 1 ? 256 : 512;
  return {step_kernel<Net, GROUP, SHARED_WEIGHTS, threads>,
          Net::suits,
          [](const PackedSizes& sizes) {
            return Layout(Net(sizes), GROUP, SHARED_WEIGHTS).shared.used * sizeof(float);
          },
          GROUP,
          threads,
          SHARED_WEIGHTS};
}
using Mamba = PackedLayout<mamba::StepLayer, AnyPackedSizes>;
using Gru = PackedLayout<gru::StepLayer, AnyPackedSizes>;
constexpr NetworkShape burgers_shape = find_paper_network("burgers", LayerKind::mamba)->shape;
using Burgers = PackedLayout<mamba::StepLayer,
                             FixedPackedSizes<burgers_shape.d_in, burgers_shape.d_out, burgers_shape.d_model,
                                              burgers_shape.n_blocks, burgers_shape.d_state>>;

/// From large groups to small ones; the first of several with equal groups is taken.
const StepVariant variants[] = {
    variant<Burgers, 12, true>(), variant<Mamba, 12, true>(), variant<Gru, 12, true>(),
    variant<Mamba, 4, true>(),    variant<Gru, 4, true>(),    variant<Burgers, 1, true>(),
    variant<Mamba, 1, true>(),    variant<Gru, 1, true>(),    variant<Mamba, 4, false>(),
    variant<Gru, 4, false>(),     variant<Mamba, 1, false>(), variant<Gru, 1, false>()};

constexpr int threads_of_columns = 128;

/// Brings it to the device, where CUDA would wait until it is first launched.
cudaError_t load_kernel(const void* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace

cudaError_t prepare_step(const PackedSizes& network, int columns, const SharedMemory& shared, int processors,
                         std::optional<DeviceStepLaunch>& launch) {
  const StepVariant* chosen = nullptr;
  for (const StepVariant& variant : variants) {
    if (!variant.suits(network) || variant.bytes(network) > shared.per_block) continue;
    if (chosen && chosen->shared_weights && !variant.shared_weights) break;
    chosen = &variant;
    if (columns > (variant.group - 1) * processors) break;  // leaves no multiprocessor without a tile
  }
  if (!chosen) return cudaSuccess;
  const std::size_t bytes = chosen->bytes(network);
  const int tiles = (columns + chosen->group - 1) / chosen->group;
  int blocks = 0;  // that share a multiprocessor
  cudaError_t status = cudaFuncSetAttribute(chosen->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes));
  if (status == cudaSuccess)
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, chosen->kernel, chosen->threads, bytes);
  for (const void* kernel :
       {reinterpret_cast<const void*>(closure_at_kernel), reinterpret_cast<const void*>(exchange_kernel)})
    if (status == cudaSuccess) status = load_kernel(kernel);
  launch = {static_cast<int>(chosen - variants), chosen->group,
            std::min(tiles, std::max(1, blocks) * processors), bytes};
  return status;
}

cudaError_t launch_step(const DeviceStep& step, const DeviceStepLaunch& launch, cudaStream_t stream) {
  const StepVariant& variant = variants[launch.variant];
  variant.kernel<<<launch.blocks, variant.threads, launch.bytes, stream>>>(step);
  return cudaGetLastError();
}

cudaError_t launch_closure_at(const ColumnMemory& memory, HeldClosure held, double fraction,
                              const DeviceField& out, cudaStream_t stream) {
  const int blocks = std::min((memory.columns + threads_of_columns - 1) / threads_of_columns, 4096);
  closure_at_kernel<<<blocks, threads_of_columns, 0, stream>>>(memory, held, fraction, out);
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
