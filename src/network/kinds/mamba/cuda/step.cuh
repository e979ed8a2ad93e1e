// One step of a Mamba layer for a group of trajectories, and its gradient; the equations are in ../reference.hpp.
#pragma once

#include "network/cuda/step_tile.cuh"
#include "network/kinds/mamba/cuda/packed_layer.hpp"

namespace mac::mamba {

struct StepLayer : PackedLayer {
  /// Threads that a step keeps busy, for each tile of trajectories: in in_proj and among the states.
  template <class Net>
  static __host__ __device__ constexpr int lanes(const Net& net) {
    return 4 * inner(net);
  }
  /// Rows of working memory, of a step and of its gradient.
  template <class Net>
  static __host__ __device__ constexpr int work_rows(const Net& net) {
    return 2 * inner(net) + projected(net);
  }
  template <class Net>
  static __host__ __device__ constexpr int gradient_work_rows(const Net& net) {
    return 6 * inner(net) + projected(net);
  }
  /// Rows of the tape: see Recorded.
  template <class Net>
  static __host__ __device__ constexpr int tape_rows(const Net& net) {
    return (5 + net.d_state) * inner(net) + projected(net);
  }

  /// What a step leaves for its gradient.
  struct Recorded {
    float* convolved;  // before its SiLU
    float* z;
    float *delta, *delta_slope;
    float* p;          // C S + D v
    float* projected;  // dt, B, C
    float* before;     // S before the step, (d_state, d_inner)

    template <class Net, class Tape>
    __device__ Recorded(const Net& net, Tape& tape) {
      const int wide = inner(net);
      convolved = tape.take(wide), z = tape.take(wide);
      delta = tape.take(wide), delta_slope = tape.take(wide);
      p = tape.take(wide);
      projected = tape.take(PackedLayer::projected(net));
      before = tape.take(net.d_state * wide);
    }
  };

  /// h += layer(u).
  template <int TILE, class Net, class Tape>
  static __device__ void forward(float* work, const float* u, float* h, const float* w, const Net& net,
                                 const Tensors& of, float* state, int group, Tape& tape) {
    using T = cuda::Tile<TILE>;
    using namespace cuda;
    const int wide = inner(net), N = net.d_state, R = rank(net);
    float* const v = work;
    float* const gate = work + wide * group;
    float* const projections = gate + wide * group;
    const Recorded record(net, tape);
    // in_proj; the thread that has x_t goes on to the convolution.
    dense<TILE, 2>(w + of.in_proj, u, net.d_model, 2 * wide, group, [&](int o, int g, T sum) {
      if (o >= wide) {
        const int at = (o - wide) * group + g;
        if constexpr (Tape::records) sum.store(record.z + at);
        sum.map([](float z) { return silu(z); }).store(gate + at);
        return;
      }
      float* const window = state + o * group + g;
      const int row = wide * group;
      const T x0 = T::load(window), x1 = T::load(window + row), x2 = T::load(window + 2 * row);
      const float* const weight = w + of.conv_weight + o;
      T c = T::splat(w[of.conv_bias + o]);
      c.fma(weight[3 * wide], sum), c.fma(weight[2 * wide], x2), c.fma(weight[wide], x1),
          c.fma(weight[0], x0);
      if constexpr (Tape::records) c.store(record.convolved + o * group + g);
      c.map([](float value) { return silu(value); }).store(v + o * group + g);
      x1.store(window), x2.store(window + row), sum.store(window + 2 * row);
    });
    __syncthreads();
    dense<TILE, 4>(w + of.x_proj, v, wide, projected(net), group, [&](int o, int g, T sum) {
      sum.store(projections + o * group + g);
      if constexpr (Tape::records) sum.store(record.projected + o * group + g);
    });
    __syncthreads();
    // Four threads to a channel, each with every fourth state.
    const int count = 4 * wide * (group / TILE);
    for_each_item(count, [&](int item) {
      const int lane = item % 4, place = min(item, count - 1) / 4, c = place % wide, g = place / wide * TILE;
      const int at = c * group + g;
      T raw = T::splat(w[of.step_bias + c]);
      for (int r = 0; r < R; ++r)
        raw.fma(w[of.step_weight + r * wide + c], T::load(projections + r * group + g));
      const T delta = raw.map([](float value) { return softplus(value); });
      const T input = T::load(v + at);
      T p = T::splat(0);
      const int states = item < count ? N : 0;  // no thread reads what another one writes
      for (int n = lane; n < states; n += 4) {
        float* const s = state + (3 + n) * wide * group + at;
        const float A = w[of.A + n * wide + c];
        const T B = T::load(projections + (R + n) * group + g),
                C = T::load(projections + (R + N + n) * group + g);
        T now = T::load(s);
        if constexpr (Tape::records) now.store(record.before + n * wide * group + at);
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
          now.at[i] = fmaf(exp2_approx(delta.at[i] * A), now.at[i], delta.at[i] * B.at[i] * input.at[i]);
          p.at[i] = fmaf(C.at[i], now.at[i], p.at[i]);
        }
        now.store(s);
      }
      p.sum_over(4);
      if (lane != 0 || item >= count) return;
      p.fma(w[of.D + c], input);
      if constexpr (Tape::records) {
        delta.store(record.delta + at);
        raw.map([](float value) { return sigmoid(value); }).store(record.delta_slope + at);
        p.store(record.p + at);
      }
      T::map(p, T::load(gate + at), [](float a, float b) { return a * b; }).store(gate + at);
    });
    __syncthreads();
    dense<TILE, 4>(w + of.out_proj, gate, wide, net.d_model, group, [&](int o, int g, T sum) {
      T::map(sum, T::load(h + o * group + g), [](float a, float b) {
        return a + b;
      }).store(h + o * group + g);
    });
  }

  /// From d_h, the gradient of the layer's output, that of u; d_state is the gradient of the state after the step and
  /// becomes that of the state before. Weights are packed for Reading::backward.
  template <int TILE, class Net>
  static __device__ void backward(float* work, const float* d_h, float* d_u, const float* w, const Net& net,
                                  const Tensors& of, float* d_state, int group, cuda::StepTape& tape) {
    using T = cuda::Tile<TILE>;
    using namespace cuda;
    const int wide = inner(net), N = net.d_state, R = rank(net), row = wide * group;
    const Recorded record(net, tape);
    float* const d_x = work;  // d_x and d_z: the gradient of in_proj's output
    float* const d_z = d_x + row;
    float* const d_p = d_z + row;
    float* const d_v = d_p + row;
    float* const d_delta = d_v + row;  // before the softplus
    float* const v = d_delta + row;
    float* const d_projected = v + row;
    float* const d_states = d_state + 3 * row;

    dense<TILE, 4>(w + of.out_proj, d_h, net.d_model, wide, group, [&](int c, int g, T sum) {
      const int at = c * group + g;
      const T z = T::load(record.z + at), p = T::load(record.p + at);
      T::map(sum, z, [](float d, float x) { return d * silu(x); }).store(d_p + at);
      T::make([&](int i) {
        return sum.at[i] * p.at[i] * silu_slope(z.at[i], sigmoid(z.at[i]));
      }).store(d_z + at);
      T::load(record.convolved + at).map([](float x) { return silu(x); }).store(v + at);
    });
    __syncthreads();
    // B_n and C_n act on all channels. S after the step is computed anew.
    sums<TILE, 8>(
        wide, 2 * N, group,
        [&](int c, int o, int g, T& sum) {
          const int n = o % N, at = c * group + g;
          const float A = w[of.A + n * wide + c];
          const T delta = T::load(record.delta + at), input = T::load(v + at), d_out = T::load(d_p + at),
                  B = T::load(record.projected + (R + n) * group + g),
                  C = T::load(record.projected + (R + N + n) * group + g);
          if (o < N) {
            const T later = T::load(d_states + n * row + at);
#pragma unroll
            for (int i = 0; i < TILE; ++i)
              sum.at[i] = fmaf(fmaf(d_out.at[i], C.at[i], later.at[i]), delta.at[i] * input.at[i], sum.at[i]);
          } else {
            const T before = T::load(record.before + n * row + at);
#pragma unroll
            for (int i = 0; i < TILE; ++i) {
              const float after =
                  fmaf(exp2_approx(delta.at[i] * A), before.at[i], delta.at[i] * B.at[i] * input.at[i]);
              sum.at[i] = fmaf(d_out.at[i], after, sum.at[i]);
            }
          }
        },
        [&](int o, int g, T sum) { sum.store(d_projected + (R + o) * group + g); });
    __syncthreads();
    const int count = 4 * wide * (group / TILE);
    for_each_item(count, [&](int item) {
      const int lane = item % 4, place = min(item, count - 1) / 4, c = place % wide, g = place / wide * TILE;
      const int at = c * group + g;
      const T delta = T::load(record.delta + at), input = T::load(v + at), d_out = T::load(d_p + at);
      T of_delta = T::splat(0), of_input = T::splat(0);
      const int states = item < count ? N : 0;
      for (int n = lane; n < states; n += 4) {
        const float A = w[of.A + n * wide + c];
        const T B = T::load(record.projected + (R + n) * group + g),
                C = T::load(record.projected + (R + N + n) * group + g),
                before = T::load(record.before + n * row + at);
        T d_s = T::load(d_states + n * row + at);
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
          const float d_after = fmaf(d_out.at[i], C.at[i], d_s.at[i]), kept = exp2_approx(delta.at[i] * A);
          of_delta.at[i] =
              fmaf(d_after, fmaf(before.at[i] * kept, A * ln_2, B.at[i] * input.at[i]), of_delta.at[i]);
          of_input.at[i] = fmaf(d_after * delta.at[i], B.at[i], of_input.at[i]);
          d_s.at[i] = d_after * kept;
        }
        d_s.store(d_states + n * row + at);
      }
      of_delta.sum_over(4), of_input.sum_over(4);
      if (lane != 0 || item >= count) return;
      of_input.fma(w[of.D + c], d_out);
      of_input.store(d_v + at);
      T::map(of_delta, T::load(record.delta_slope + at), [](float a, float b) {
        return a * b;
      }).store(d_delta + at);
    });
    __syncthreads();
    dense<TILE, 16>(w + of.step_weight, d_delta, wide, R, group,
                    [&](int o, int g, T sum) { sum.store(d_projected + o * group + g); });
    __syncthreads();
    // The convolution: x_t is in this step's sum and, as part of the state, in those of the next three.
    dense<TILE, 4>(w + of.x_proj, d_projected, projected(net), wide, group, [&](int c, int g, T sum) {
      const int at = c * group + g;
      const T convolved = T::load(record.convolved + at), direct = T::load(d_v + at);
      const T d_c = T::make([&](int i) {
        return (sum.at[i] + direct.at[i]) * silu_slope(convolved.at[i], sigmoid(convolved.at[i]));
      });
      const float* const weight = w + of.conv_weight + c;
      float* const window = d_state + at;
      T d_x0 = T::splat(0), d_x1 = T::load(window), d_x2 = T::load(window + row),
        d_now = T::load(window + 2 * row);
      d_x0.fma(weight[0], d_c), d_x1.fma(weight[wide], d_c), d_x2.fma(weight[2 * wide], d_c),
          d_now.fma(weight[3 * wide], d_c);
      d_x0.store(window), d_x1.store(window + row), d_x2.store(window + 2 * row), d_now.store(d_x + at);
    });
    __syncthreads();
    dense<TILE, 8>(w + of.in_proj, d_x, 2 * wide, net.d_model, group,
                   [&](int o, int g, T sum) { sum.store(d_u + o * group + g); });
  }
};

}  // namespace mac::mamba
