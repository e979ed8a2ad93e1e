// One step of the whole network for a group of trajectories, and its gradient. `Net` is a PackedLayout of a kind's
// StepLayer: a kind brings the step of its layer, the frame around the blocks stands here.
#pragma once

#include "network/cuda/packed_network.hpp"
#include "network/cuda/step_tile.cuh"

namespace mac::cuda {

/// Places in shared memory, in floats, of what a step works with; rows are `group` trajectories long.
struct StepRooms {
  int weights, state, h, u, work, x;

  template <class Net>
  __host__ __device__ StepRooms(SharedLayout& shared, const Net& net, int group, bool shared_weights,
                                int work_rows)
      : StepRooms(shared, net, group, shared_weights, work_rows, net.state()) {}
  template <class Net>
  __host__ __device__ StepRooms(SharedLayout& shared, const Net& net, int group, bool shared_weights,
                                int work_rows, int state_rows) {
    weights = shared.take(shared_weights ? net.size() : 0);
    state = shared.take(state_rows * group);
    h = shared.take(net.d_model * group), u = shared.take(net.d_model * group);
    work = shared.take(work_rows * group);
    x = shared.take(net.d_in * group);
  }
};

/// Rows that a step leaves on its tape.
template <class Net>
__host__ __device__ int tape_rows(const Net& net) {
  const int d = net.d_model;
  return round_up(2 * d + norm_rows(d) + net.blocks * (norm_rows(d) + Net::Layer::tape_rows(net)), 4);
}

/// The memory of all blocks, in shared memory.
struct ResidentStates {
  float* first;
  int size;  // of a block's

  /// Where a step finds the memory of block i; a barrier follows.
  __device__ float* begin(int i) const { return first + i * size; }
  /// It has been advanced.
  __device__ void end(int) const {}
};

/// x (normalised) -> finish(component, first trajectory, y); ends with a barrier.
template <int TILE, class Net, class Tape, class Finish, class States>
__device__ void step_forward(float* shared, const StepRooms& at, const float* w, const Net& net, int group,
                             Tape tape, Finish finish, States states) {
  using T = Tile<TILE>;
  const int d = net.d_model;
  if constexpr (Tape::records) {  // the tape ends with whole quads
    float* const end = tape.next + tape_rows(net) * group;
    for (float* rest = end - 4 * group + threadIdx.x; rest < end; rest += blockDim.x) *rest = 0;
  }
  float* const h = shared + at.h;
  float* const u = shared + at.u;
  /// to = SiLU(sum + bias), the argument to the tape
  const auto activate = [&](const float* bias, float* to, float* record) {
    return [=](int o, int g, const T& sum) {
      const T raw = sum.map([&](float value) { return value + bias[o]; });
      if constexpr (Tape::records) raw.store(record + o * group + g);
      raw.map([](float value) { return silu(value); }).store(to + o * group + g);
    };
  };
  dense<TILE, 1>(w + net.input(), shared + at.x, net.d_in, d, group,
                 activate(w + net.input() + net.d_in * d, h, tape.take(d)));
  __syncthreads();
  for (int i = 0; i < net.blocks; ++i) {
    const auto of = net.block(i);
    layer_norm(u, h, w + of.norm, d, group, tape);
    float* const state = states.begin(i);
    __syncthreads();
    Net::Layer::template forward<TILE>(shared + at.work, u, h, w, net, of.layer, state, group, tape);
    __syncthreads();
    states.end(i);
  }
  layer_norm(u, h, w + net.norm(), d, group, tape);
  __syncthreads();
  dense<TILE, 4>(w + net.hidden(), u, d, d, group, activate(w + net.hidden() + d * d, h, tape.take(d)));
  __syncthreads();
  dense<TILE, 4>(w + net.output(), h, d, net.d_out, group, [&](int o, int g, const T& sum) {
    const float bias = w[net.output() + d * net.d_out + o];
    finish(o, g, sum.map([&](float value) { return value + bias; }));
  });
  __syncthreads();
}

template <int TILE, class Net, class Tape, class Finish>
__device__ void step_forward(float* shared, const StepRooms& at, const float* w, const Net& net, int group,
                             Tape tape, Finish finish) {
  step_forward<TILE>(shared, at, w, net, group, tape, finish,
                     ResidentStates{shared + at.state, net.block_state() * group});
}

/// d_y (d_out, group) -> d_x, at.x; at.state is the gradient of the state after the step and becomes that of the state
/// before. Weights are packed for Reading::backward. Ends with a barrier.
template <int TILE, class Net>
__device__ void step_backward(float* shared, const StepRooms& at, const float* w, const Net& net,
                              const float* d_y, int group, float* tape) {
  using T = Tile<TILE>;
  const int d = net.d_model, block_rows = norm_rows(d) + Net::Layer::tape_rows(net);
  float* const d_h = shared + at.h;
  float* const d_u = shared + at.u;
  float* const work = shared + at.work;
  const float* const of_input = tape;
  float* const of_blocks = tape + d * group;
  const float* const of_norm = of_blocks + net.blocks * block_rows * group;
  const float* const of_hidden = of_norm + norm_rows(d) * group;
  /// to = sum · SiLU'(the recorded argument)
  const auto through_silu = [&](const float* record, float* to) {
    return [=](int o, int g, const T& sum) {
      T::map(sum, T::load(record + o * group + g), [](float a, float x) {
        return a * silu_slope(x, sigmoid(x));
      }).store(to + o * group + g);
    };
  };
  dense<TILE, 1>(w + net.output(), d_y, net.d_out, d, group, through_silu(of_hidden, d_u));
  __syncthreads();
  dense<TILE, 4>(w + net.hidden(), d_u, d, d, group,
                 [&](int o, int g, const T& sum) { sum.store(work + o * group + g); });
  __syncthreads();
  layer_norm_back(work, of_norm, w + net.norm(), d, group,
                  [&](int i, int g, float value) { d_h[i * group + g] = value; });
  __syncthreads();
  for (int i = net.blocks; i-- > 0;) {
    const auto of = net.block(i);
    StepTape rows{of_blocks + i * block_rows * group, group};
    const float* const normalised = rows.take(norm_rows(d));
    Net::Layer::template backward<TILE>(work, d_h, d_u, w, net, of.layer,
                                        shared + at.state + i * net.block_state() * group, group, rows);
    __syncthreads();
    layer_norm_back(d_u, normalised, w + of.norm, d, group,
                    [&](int k, int g, float value) { d_h[k * group + g] += value; });
    __syncthreads();
  }
  const auto to_u = through_silu(of_input, d_u);
  for (int item = threadIdx.x; item < d * (group / TILE); item += blockDim.x) {
    const int o = item % d, g = item / d * TILE;
    to_u(o, g, T::load(d_h + o * group + g));
  }
  __syncthreads();
  dense<TILE, 8>(w + net.input(), d_u, d, net.d_in, group,
                 [&](int o, int g, const T& sum) { sum.store(shared + at.x + o * group + g); });
  __syncthreads();
}

}  // namespace mac::cuda
