// One step of a GRU layer for a group of trajectories, and its gradient; the equations are in ../reference.hpp.
#pragma once

#include "network/cuda/step_tile.cuh"
#include "network/kinds/gru/cuda/packed_layer.hpp"

namespace mac::gru {

struct StepLayer : PackedLayer {
  /// Threads that a step keeps busy, for each tile of trajectories: with the gates' sums.
  template <class Net>
  static __host__ __device__ constexpr int lanes(const Net& net) {
    return 6 * net.d_model;
  }
  /// Rows of working memory, of a step and of its gradient, and of the tape.
  template <class Net>
  static __host__ __device__ constexpr int work_rows(const Net& net) {
    return 6 * net.d_model;
  }
  template <class Net>
  static __host__ __device__ constexpr int gradient_work_rows(const Net& net) {
    return 6 * net.d_model;
  }
  template <class Net>
  static __host__ __device__ constexpr int tape_rows(const Net& net) {
    return 5 * net.d_model;
  }

  /// What a step leaves for its gradient: the gates, the hidden state's part of n, and the state before.
  struct Recorded {
    float *r, *z, *n, *hidden, *before;

    template <class Net, class Tape>
    __device__ Recorded(const Net& net, Tape& tape) {
      const int d = net.d_model;
      r = tape.take(d), z = tape.take(d), n = tape.take(d), hidden = tape.take(d), before = tape.take(d);
    }
  };

  /// h += layer(u).
  template <int TILE, class Net, class Tape>
  static __device__ void forward(float* work, const float* u, float* h, const float* w, const Net& net,
                                 const Tensors& of, float* state, int group, Tape& tape) {
    using T = cuda::Tile<TILE>;
    using namespace cuda;
    const int d = net.d_model;
    float* const of_input = work;
    float* const of_hidden = work + 3 * d * group;
    const Recorded record(net, tape);
    const auto gates = [&](int weight, int bias, const float* in, float* out) {
      dense<TILE, 2>(w + weight, in, d, 3 * d, group, [&](int o, int g, const T& sum) {
        sum.map([&](float value) { return value + w[bias + o]; }).store(out + o * group + g);
      });
    };
    gates(of.input, of.input_bias, u, of_input);
    gates(of.hidden, of.hidden_bias, state, of_hidden);
    __syncthreads();
    const int count = d * (group / TILE);
    for (int item = threadIdx.x; item < count; item += blockDim.x) {
      const int o = item % d, g = item / d * TILE, at = o * group + g;
      const auto gate = [&](const float* gates, int k) { return T::load(gates + k * d * group + at); };
      const auto add_sigmoid = [](float a, float b) { return sigmoid(a + b); };
      const T r = T::map(gate(of_input, 0), gate(of_hidden, 0), add_sigmoid),
              z = T::map(gate(of_input, 1), gate(of_hidden, 1), add_sigmoid), in = gate(of_input, 2),
              hidden = gate(of_hidden, 2), before = T::load(state + at);
      const T n = T::make([&](int i) { return tanhf(fmaf(r.at[i], hidden.at[i], in.at[i])); });
      const T now = T::make([&](int i) { return fmaf(z.at[i], before.at[i] - n.at[i], n.at[i]); });
      if constexpr (Tape::records) {
        r.store(record.r + at), z.store(record.z + at), n.store(record.n + at);
        hidden.store(record.hidden + at), before.store(record.before + at);
      }
      now.store(state + at);
      T::map(T::load(h + at), now, [](float a, float b) { return a + b; }).store(h + at);
    }
  }

  /// From d_h, the gradient of the layer's output, that of u; d_state is the gradient of the state after the step and
  /// becomes that of the state before. Weights are packed for Reading::backward.
  template <int TILE, class Net>
  static __device__ void backward(float* work, const float* d_h, float* d_u, const float* w, const Net& net,
                                  const Tensors& of, float* d_state, int group, cuda::StepTape& tape) {
    using T = cuda::Tile<TILE>;
    using namespace cuda;
    const int d = net.d_model, row = d * group;
    const Recorded record(net, tape);
    float* const d_input = work;  // of the gates' sums: r, z, n
    float* const d_hidden = work + 3 * row;
    const int count = d * (group / TILE);
    for (int item = threadIdx.x; item < count; item += blockDim.x) {
      const int o = item % d, g = item / d * TILE, at = o * group + g;
      const T r = T::load(record.r + at), z = T::load(record.z + at), n = T::load(record.n + at),
              hidden = T::load(record.hidden + at), before = T::load(record.before + at);
      const T d_now =
          T::map(T::load(d_h + at), T::load(d_state + at), [](float a, float b) { return a + b; });
      const T d_n =
          T::make([&](int i) { return d_now.at[i] * (1 - z.at[i]) * fmaf(-n.at[i], n.at[i], 1.0f); });
      const T d_r = T::make([&](int i) { return d_n.at[i] * hidden.at[i] * r.at[i] * (1 - r.at[i]); });
      const T d_z =
          T::make([&](int i) { return d_now.at[i] * (before.at[i] - n.at[i]) * z.at[i] * (1 - z.at[i]); });
      d_r.store(d_input + at), d_z.store(d_input + row + at), d_n.store(d_input + 2 * row + at);
      d_r.store(d_hidden + at), d_z.store(d_hidden + row + at);
      T::map(d_n, r, [](float a, float b) { return a * b; }).store(d_hidden + 2 * row + at);
      T::map(d_now, z, [](float a, float b) { return a * b; }).store(d_state + at);
    }
    __syncthreads();
    dense<TILE, 8>(w + of.input, d_input, 3 * d, d, group,
                   [&](int o, int g, T sum) { sum.store(d_u + o * group + g); });
    dense<TILE, 8>(w + of.hidden, d_hidden, 3 * d, d, group, [&](int o, int g, T sum) {
      float* const to = d_state + o * group + g;
      T::map(T::load(to), sum, [](float a, float b) { return a + b; }).store(to);
    });
  }
};

}  // namespace mac::gru
