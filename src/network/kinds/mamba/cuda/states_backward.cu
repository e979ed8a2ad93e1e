// The gradient of the states before a sequence, and nothing else, for one layer. With d = dL/dp,
//
//   g_t = d_t C_t + exp(Δ_{t+1} A) g_{t+1},   g_{T+1} = 0,   d_initial = exp(Δ_1 A) g_1,
//
// which needs no states and no v: a third of the backward pass's work. A block takes a sequence, a warp of it
// a slab of 16 channels.
#include "network/cuda/tensor_cores.cuh"
#include "network/kinds/mamba/cuda/scan.cuh"

namespace mac::cuda {

namespace {

constexpr TimeColumns<8> columns;  // a chunk
constexpr int most_slabs = 11;     // of networks for which the backward pass has a kernel

/// Places in shared memory, in floats.
struct Layout {
  int out_proj;                       // transposed, in tiles
  int z, projected, d_h, delta, d_p;  // rows
  int total;

  __host__ __device__ explicit Layout(const MambaSizes& s) {
    SharedLayout shared;
    const auto rows = [&](int count) { return shared.take(count * columns.stride); };
    out_proj = shared.take(tile_floats(s.d_inner, s.d_model));
    z = rows(s.d_inner), projected = rows(s.projected());
    d_h = rows(s.d_model), delta = rows(s.d_inner), d_p = rows(s.d_inner);
    total = shared.used;
  }
};

template <int S>
__global__ void __launch_bounds__(32 * most_slabs) mamba_states_backward_kernel(const MambaBackward p) {
  extern __shared__ float4 shared_quads[];
  float* const shared = reinterpret_cast<float*>(shared_quads);
  const MambaSizes& s = p.sizes;
  const Layout at(s);
  const auto quad = [&](int rows, int r, int q) -> float4& {
    return quad_at(shared + rows + r * columns.stride + 4 * q);
  };
  const int sequence = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x / 32);
  const int steps = p.steps(sequence % p.batch), quads = (steps + 3) / 4;
  const float* const w = p.parameters + sequence / p.batch * p.parameter_count + p.first_block;
  const ScanThread thread(warp, lane_of_warp(), s.d_inner);
  const SlabThread own(warp, s.d_inner);
  const float step_bias = w[p.offsets.step_bias + own.channel];
  const float* const step_weight = w + p.offsets.step_weight + own.channel * s.rank;
  float A[2][S], g[2][S] = {};
  load_decay(A, w + p.offsets.A_log, s, thread);
  load_tiles(shared + at.out_proj, s.d_inner, s.d_model,
             [&](int channel, int o) { return w[p.offsets.out_proj + o * s.d_inner + channel]; });

  for (int first = (quads - 1) / columns.quads * columns.quads; first >= 0; first -= columns.quads) {
    const size_t place = static_cast<size_t>(sequence) * p.quads + first;
    const TileView tape{p.tape + place * s.tape_rows() * 4, s.tape_rows(), quads - first};
    load_rows(shared + at.z, tape.skip_rows(s.d_inner), s.d_inner, columns);
    load_rows(shared + at.projected, tape.skip_rows(2 * s.d_inner), s.projected(), columns);
    load_rows(shared + at.d_h, TileView{p.d_h + place * s.d_model * 4, s.d_model, quads - first}, s.d_model,
              columns);
    wait_for_copies();
    __syncthreads();
    multiply_tiles<TileC, 1, columns.quads / 2>(
        shared + at.out_proj, warp, 1, s.d_inner, s.d_model, shared + at.d_h, 0, columns,
        [&](int channel, int column, int c, float2 sums) {
          *reinterpret_cast<float2*>(shared + at.d_p + channel * columns.stride + column + c) = sums;
        });
    __syncwarp();
    own.for_each_quad(columns.quads, [&](int q) {
      float4 step = splat(step_bias);
      for (int r = 0; r < s.rank; ++r) step = fma4(step_weight[r], quad(at.projected, r, q), step);
      quad(at.delta, own.channel, q) = keep_first(map4(step, softplus), steps - 4 * (first + q));
      quad(at.d_p, own.channel, q) = quad(at.d_p, own.channel, q) * map4(quad(at.z, own.channel, q), silu);
    });
    __syncwarp();
#pragma unroll 1
    for (int q = min(columns.quads, quads - first) - 1; q >= 0; --q) {
      float delta[2][4], d[2][4];
#pragma unroll
      for (int l = 0; l < 2; ++l)
        unpack(delta[l], quad(at.delta, thread.own(l), q)), unpack(d[l], quad(at.d_p, thread.own(l), q));
#pragma unroll
      for (int i = 0; i < S; ++i) {
        float C[4];
        unpack(C, quad(at.projected, s.rank + 4 * S + thread.group * S + i, q));
#pragma unroll
        for (int j = 3; j >= 0; --j)
#pragma unroll
          for (int l = 0; l < 2; ++l)
            g[l][i] = fmaf(d[l][j], C[j], g[l][i]) * exp2_approx(delta[l][j] * A[l][i]);
      }
    }
    __syncthreads();
  }
  if (!thread.exists) return;
  float* const to = StateOfLayer::of(p.d_initial_state, sequence, 0, 1, s).states;
  for_each_state<S>(s, thread,
                    [&](int l, int i, int channel, int n) { to[n * s.d_inner + channel] = g[l][i]; });
}

}  // namespace

void launch_mamba_states_backward(const MambaBackward& p, cudaStream_t stream) {
  const auto kernel =
      p.sizes.states_per_thread == 3 ? mamba_states_backward_kernel<3> : mamba_states_backward_kernel<4>;
  const int bytes = Layout(p.sizes).total * static_cast<int>(sizeof(float));
  allow_shared_memory(kernel, static_cast<std::size_t>(bytes));
  kernel<<<static_cast<unsigned>(p.models * p.batch), static_cast<unsigned>(32 * p.sizes.slabs()), bytes,
           stream>>>(p);
}

}  // namespace mac::cuda
