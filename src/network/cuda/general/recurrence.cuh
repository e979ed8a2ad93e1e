// The kernels of recurrence.hpp, for a `Cell` that says how a unit's states follow from its gates, and the way back:
//
//   using Scalar = ..;
//   static constexpr RecurrenceCounts counts;
//   /// state becomes the next one; its first number is the hidden state.
//   static void forward(T (&state)[states], T (&kept)[kept], const T (&from_input)[gates],
//                       const T (&from_hidden)[gates]);
//   /// d_state, of the next state, becomes that of this one, but for what goes through W.
//   static void backward(T (&d_state)[states], T (&gradients)[gradients], const T (&kept)[kept], T before);
#pragma once

#include <cooperative_groups.h>

#include <type_traits>

#include "network/cuda/general/recurrence.hpp"
#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

/// Sizes of a launch. SEQUENCES go through a block (or cluster) at once.
template <class Cell, int SEQUENCES>
struct Resident {
  static constexpr int resident_weights = cuda::resident_weights<typename Cell::Scalar>;
  static constexpr int gates = Cell::counts.gates, sequences = SEQUENCES;
  static constexpr int items =
      (SEQUENCES + gates - 1) / gates;  // (sequence, unit)s of a thread, of which there are as
                                        // many as gates times units
  int d, blocks, units, parts, parts_back;

  __host__ __device__ Resident(int d, ResidentPlan plan)
      : d(d),
        blocks(plan.blocks),
        units(plan.units),
        parts((d + resident_weights - 1) / resident_weights),
        parts_back((gates * d + resident_weights - 1) / resident_weights) {}

  __host__ __device__ int rows() const { return gates * units; }
  __host__ __device__ int width() const { return parts * resident_weights; }  // of h in shared memory
  __host__ __device__ int width_back() const {
    return parts_back * resident_weights;
  }  // of the gates' gradients
  __host__ __device__ int threads() const {
    const int forward = rows() * parts, backward = units * parts_back;
    return ((forward > backward ? forward : backward) + 31) / 32 * 32;
  }
  __host__ __device__ int shared() const { return 2 * sequences * width() + parts * sequences * rows(); }
  __host__ __device__ int shared_back() const {
    return 2 * sequences * width_back() + parts_back * sequences * units;
  }
};

/// A block's share of the units and sequences.
template <class Sizes>
struct ResidentPlace {
  int rank, first_unit, first_sequence;

  __device__ ResidentPlace(const Sizes& sizes)
      : rank(static_cast<int>(blockIdx.x) % sizes.blocks),
        first_unit(rank * sizes.units),
        first_sequence(static_cast<int>(blockIdx.x) / sizes.blocks * Sizes::sequences) {}
};

/// A (sequence, unit) of a thread, as far as it exists.
struct ResidentItem {
  int sequence_in_block, unit_in_block, unit;
  std::size_t sequence;
  bool exists;

  template <class Sizes>
  __device__ ResidentItem(const Sizes& sizes, const ResidentPlace<Sizes>& place, int batch, int i) {
    const int number = static_cast<int>(threadIdx.x + i * blockDim.x);
    sequence_in_block = number / sizes.units;
    unit_in_block = number - sequence_in_block * sizes.units;
    unit = place.first_unit + unit_in_block;
    sequence = static_cast<std::size_t>(place.first_sequence + sequence_in_block);
    exists =
        sequence_in_block < Sizes::sequences && unit < sizes.d && sequence < static_cast<std::size_t>(batch);
  }
};

// Machine code for devices without clusters (before compute capability 9) has these kernels, too, but they are never
// launched there: plan_resident() asks for one block.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ inline void meet_blocks() { cooperative_groups::this_cluster().sync(); }
template <class T>
__device__ T* place_in(int block, T* place) {
  return cooperative_groups::this_cluster().map_shared_rank(place, block);
}
#else
__device__ inline void meet_blocks() { __trap(); }
template <class T>
__device__ T* place_in(int, T* place) {
  return place;
}
#endif

/// All blocks of a cluster see what each has written.
template <bool CLUSTER>
__device__ void meet_cluster() {
  if constexpr (CLUSTER)
    meet_blocks();
  else
    __syncthreads();
}

/// Writes to the same place in the shared memory of every block of the cluster.
template <bool CLUSTER, class T>
__device__ void write_to_cluster(T* place, T value, int blocks) {
  if constexpr (CLUSTER)
    for (int block = 0; block < blocks; ++block) *place_in(block, place) = value;
  else
    *place = value;
}

/// sums[s] += weights · in[s], in (sequence, width) in shared memory, from `first` on.
template <class T, int SEQUENCES>
__device__ void multiply(T (&sums)[SEQUENCES], const T (&weights)[resident_weights<T>], const T* in,
                         int width, int first) {
  constexpr int at_once = 16 / sizeof(T);
#pragma unroll
  for (int k = 0; k < resident_weights<T>; k += at_once)
#pragma unroll
    for (int s = 0; s < SEQUENCES; ++s) {
      if constexpr (at_once == 4) {
        const float4 four = *reinterpret_cast<const float4*>(in + s * width + first + k);
        sums[s] = fma(weights[k], four.x, sums[s]);
        sums[s] = fma(weights[k + 1], four.y, sums[s]);
        sums[s] = fma(weights[k + 2], four.z, sums[s]);
        sums[s] = fma(weights[k + 3], four.w, sums[s]);
      } else {
        const double2 two = *reinterpret_cast<const double2*>(in + s * width + first + k);
        sums[s] = fma(weights[k], two.x, sums[s]);
        sums[s] = fma(weights[k + 1], two.y, sums[s]);
      }
    }
}

template <class Cell, int SEQUENCES, bool CLUSTER>
__global__ void __launch_bounds__(resident_threads<typename Cell::Scalar>, 1)
    recurrence_forward_kernel(Recurrence<typename Cell::Scalar> p, ResidentPlan plan) {
  using T = typename Cell::Scalar;
  using Sizes = Resident<Cell, SEQUENCES>;
  constexpr int resident_weights = Sizes::resident_weights, gates = Sizes::gates,
                states = Cell::counts.states, n_kept = Cell::counts.kept, items = Sizes::items;
  const Sizes sizes(p.d, plan);
  const ResidentPlace<Sizes> place(sizes);
  const int d = p.d, width = sizes.width(), rows = sizes.rows(), thread = static_cast<int>(threadIdx.x);
  extern __shared__ float4 recurrence_shared[];
  T* const h = reinterpret_cast<T*>(recurrence_shared);  // (2, sequence, width): by the parity of the step
  T* const partial = h + 2 * SEQUENCES * width;          // (part, sequence, gate and unit)

  const int part = thread / rows, row = thread - part * rows,
            unit_of_row = place.first_unit + row % sizes.units;
  T weights[resident_weights];
#pragma unroll
  for (int k = 0; k < resident_weights; ++k) {
    const int column = part * resident_weights + k;
    weights[k] = part < sizes.parts && unit_of_row < d && column < d
                     ? p.weight[static_cast<std::size_t>(row / sizes.units * d + unit_of_row) * d + column]
                     : 0;
  }
  for (int i = thread; i < 2 * SEQUENCES * width; i += static_cast<int>(blockDim.x)) {
    const int s = i / width % SEQUENCES, unit = i % width;
    const std::size_t sequence = static_cast<std::size_t>(place.first_sequence + s);
    const bool given =
        i < SEQUENCES * width && unit < d && p.initial && sequence < static_cast<std::size_t>(p.batch);
    h[i] = given ? p.initial.of(sequence)[unit] : 0;
  }

  T state[items][states], bias[items][gates], input_bias[items][gates];
#pragma unroll
  for (int i = 0; i < items; ++i) {
    const ResidentItem item(sizes, place, p.batch, i);
    for (int j = 0; j < states; ++j)
      state[i][j] = item.exists && p.initial ? p.initial.of(item.sequence)[j * d + item.unit] : 0;
    for (int g = 0; g < gates; ++g) {
      bias[i][g] = item.exists ? p.bias[g * d + item.unit] : 0;
      input_bias[i][g] = item.exists ? p.input_bias[g * d + item.unit] : 0;
    }
  }
  meet_cluster<CLUSTER>();

  for (int t = 0; t < p.time; ++t) {
    T from_input[items][gates];  // asked for before the product, wanted after it
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (const ResidentItem item(sizes, place, p.batch, i); item.exists)
        for (int g = 0; g < gates; ++g)
          from_input[i][g] = p.from_input[((item.sequence * p.time + t) * gates + g) * d + item.unit];

    if (part < sizes.parts) {
      T sums[SEQUENCES] = {};
      multiply(sums, weights, h + t % 2 * SEQUENCES * width, width, part * resident_weights);
#pragma unroll
      for (int s = 0; s < SEQUENCES; ++s) partial[(part * SEQUENCES + s) * rows + row] = sums[s];
    }
    __syncthreads();

#pragma unroll
    for (int i = 0; i < items; ++i) {
      const ResidentItem item(sizes, place, p.batch, i);
      if (!item.exists) continue;
      T from_hidden[gates], kept[n_kept];
      for (int g = 0; g < gates; ++g) {
        from_hidden[g] = bias[i][g];
        for (int part = 0; part < sizes.parts; ++part)
          from_hidden[g] += partial[(part * SEQUENCES + item.sequence_in_block) * rows + g * sizes.units +
                                    item.unit_in_block];
        from_input[i][g] += input_bias[i][g];
      }
      const T before = state[i][0];
      Cell::forward(state[i], kept, from_input[i], from_hidden);
      write_to_cluster<CLUSTER>(h + ((t + 1) % 2 * SEQUENCES + item.sequence_in_block) * width + item.unit,
                                state[i][0], sizes.blocks);
      const std::size_t at = item.sequence * p.time + t;
      p.out[at * d + item.unit] = state[i][0];
      p.before[at * d + item.unit] = before;
      for (int j = 0; j < n_kept; ++j) p.kept[(at * n_kept + j) * d + item.unit] = kept[j];
      if (T* const after = p.final.after(item.sequence, t, p.time))
        for (int j = 0; j < states; ++j) after[j * d + item.unit] = state[i][j];
    }
    meet_cluster<CLUSTER>();
  }
}

template <class Cell, int SEQUENCES, bool CLUSTER>
__global__ void __launch_bounds__(resident_threads<typename Cell::Scalar>, 1)
    recurrence_backward_kernel(RecurrenceBackward<typename Cell::Scalar> p, ResidentPlan plan) {
  using T = typename Cell::Scalar;
  using Sizes = Resident<Cell, SEQUENCES>;
  constexpr int resident_weights = Sizes::resident_weights, gates = Sizes::gates,
                states = Cell::counts.states, n_kept = Cell::counts.kept, items = Sizes::items,
                n_gradients = Cell::counts.gradients;
  const Sizes sizes(p.d, plan);
  const ResidentPlace<Sizes> place(sizes);
  const int d = p.d, width = sizes.width_back(), units = sizes.units, thread = static_cast<int>(threadIdx.x);
  extern __shared__ float4 recurrence_shared[];
  T* const of_gates = reinterpret_cast<T*>(recurrence_shared);  // (2, sequence, width): by the step's parity
  T* const partial = of_gates + 2 * SEQUENCES * width;          // (part, sequence, unit)

  const int part = thread / units, unit_of_column = place.first_unit + thread - part * units;
  T weights[resident_weights];
#pragma unroll
  for (int k = 0; k < resident_weights; ++k) {
    const int row = part * resident_weights + k;
    weights[k] = unit_of_column < d && row < gates * d
                     ? p.weight[static_cast<std::size_t>(row) * d + unit_of_column]
                     : 0;
  }
  for (int i = thread; i < 2 * SEQUENCES * width; i += static_cast<int>(blockDim.x)) of_gates[i] = 0;

  T d_state[items][states] = {};
  meet_cluster<CLUSTER>();

  T kept[items][n_kept], before[items], d_out[items];  // asked for a step ahead
  const auto load = [&](int t) {
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (const ResidentItem item(sizes, place, p.batch, i); item.exists) {
        const std::size_t at = item.sequence * p.time + t;
        for (int j = 0; j < n_kept; ++j) kept[i][j] = p.kept[(at * n_kept + j) * d + item.unit];
        before[i] = p.before[at * d + item.unit];
        d_out[i] = p.d_out[at * d + item.unit];
      }
  };
  load(p.time - 1);

  for (int t = p.time - 1; t >= 0; --t) {
    T* const here = of_gates + t % 2 * SEQUENCES * width;
#pragma unroll
    for (int i = 0; i < items; ++i) {
      const ResidentItem item(sizes, place, p.batch, i);
      if (!item.exists) continue;
      if (const T* const d_after = p.d_final.after(item.sequence, t, p.time))
        for (int j = 0; j < states; ++j) d_state[i][j] += d_after[j * d + item.unit];
      d_state[i][0] += d_out[i];
      T gradients[n_gradients];
      Cell::backward(d_state[i], gradients, kept[i], before[i]);
      for (int g = 0; g < gates; ++g)
        write_to_cluster<CLUSTER>(here + item.sequence_in_block * width + g * d + item.unit,
                                  gradients[g + 1 < gates ? g : n_gradients - 1], sizes.blocks);
      const std::size_t at = item.sequence * p.time + t;
      for (int j = 0; j < n_gradients; ++j) p.d_gates[(at * n_gradients + j) * d + item.unit] = gradients[j];
    }
    meet_cluster<CLUSTER>();

    if (t > 0) load(t - 1);
    if (part < sizes.parts_back) {
      T sums[SEQUENCES] = {};
      multiply(sums, weights, here, width, part * resident_weights);
#pragma unroll
      for (int s = 0; s < SEQUENCES; ++s)
        partial[(part * SEQUENCES + s) * units + thread - part * units] = sums[s];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i)
      if (const ResidentItem item(sizes, place, p.batch, i); item.exists)
        for (int part = 0; part < sizes.parts_back; ++part)
          d_state[i][0] += partial[(part * SEQUENCES + item.sequence_in_block) * units + item.unit_in_block];
  }

  // No block may be gone while another still writes to it: the last writes were before the last meeting.
  if (!p.d_initial) return;
#pragma unroll
  for (int i = 0; i < items; ++i)
    if (const ResidentItem item(sizes, place, p.batch, i); item.exists)
      for (int j = 0; j < states; ++j) p.d_initial.of(item.sequence)[j * d + item.unit] = d_state[i][j];
}

template <class Problem>
using RecurrenceKernel = void (*)(Problem, ResidentPlan);

/// Groups that the device holds at once.
template <class Problem>
int resident_groups(RecurrenceKernel<Problem> kernel, const cudaLaunchConfig_t& config) {
  int resident = 0, processors = 0;
  cudaError_t status = cudaSuccess;
  if (config.numAttrs > 0) {
    status = cudaOccupancyMaxActiveClusters(&resident, kernel, &config);
  } else {
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, kernel, static_cast<int>(config.blockDim.x), config.dynamicSmemBytes);
    resident *= processors;
  }
  if (status != cudaSuccess) cudaGetLastError();  // ours now
  return resident;
}

/// A launch of groups of sequences; false, and nothing is done, where the device does not hold them at once and
/// `must_fit`.
template <class T, class Problem>
bool launch_resident(RecurrenceKernel<Problem> kernel, const Problem& problem, ResidentPlan plan,
                     int sequences, int threads, int shared_numbers, bool must_fit, cudaStream_t stream) {
  const int groups = (problem.batch + sequences - 1) / sequences;
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(shared_numbers);
  allow_shared_memory(kernel, bytes);
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(plan.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(groups * plan.blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &cluster, config.numAttrs = has_clusters() ? 1 : 0;
  if (must_fit && groups > resident_groups(kernel, config)) return false;
  cudaLaunchKernelEx(&config, kernel, problem, plan);
  return true;
}

/// f(sequences, clustered, must_fit) as compile-time constants until it returns true: one sequence at once where the
/// device holds all, else more.
template <class F>
void with_sequences(const ResidentPlan& plan, F f) {
  const auto any = [&](auto clustered) {
    f(std::integral_constant<int, 1>(), clustered, true) ||
        f(std::integral_constant<int, 3>(), clustered, true) ||
        f(std::integral_constant<int, 6>(), clustered, false);
  };
  plan.blocks > 1 ? any(std::true_type()) : any(std::false_type());
}

template <class Cell>
void recurrence_forward(const Recurrence<typename Cell::Scalar>& problem, cudaStream_t stream) {
  using T = typename Cell::Scalar;
  const ResidentPlan plan = plan_resident<T>(Cell::counts.gates, problem.d, has_clusters());
  with_sequences(plan, [&](auto sequences, auto clustered, bool must_fit) {
    const Resident<Cell, sequences> sizes(problem.d, plan);
    return launch_resident<T, Recurrence<T>>(recurrence_forward_kernel<Cell, sequences, clustered>, problem,
                                             plan, sequences, sizes.threads(), sizes.shared(), must_fit,
                                             stream);
  });
}

template <class Cell>
void recurrence_backward(const RecurrenceBackward<typename Cell::Scalar>& problem, cudaStream_t stream) {
  using T = typename Cell::Scalar;
  const ResidentPlan plan = plan_resident<T>(Cell::counts.gates, problem.d, has_clusters());
  with_sequences(plan, [&](auto sequences, auto clustered, bool must_fit) {
    const Resident<Cell, sequences> sizes(problem.d, plan);
    return launch_resident<T, RecurrenceBackward<T>>(recurrence_backward_kernel<Cell, sequences, clustered>,
                                                     problem, plan, sequences, sizes.threads(),
                                                     sizes.shared_back(), must_fit, stream);
  });
}

}  // namespace mac::cuda
