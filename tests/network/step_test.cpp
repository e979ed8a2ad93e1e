// Step mode: one time step after another gives what the reference gives for whole sequences, whatever the
// batch, the thread count and the instruction set.
#include <gtest/gtest.h>

#include <mac/paper_networks.hpp>
#include <thread>

#include "network/dispatch_targets.hpp"
#include "network/engine_table.hpp"

namespace mac::test {
namespace {

struct Steps {
  std::vector<double> y;  // (batch, time, d_out)
  std::vector<double> final_state;
};

template <class T>
Steps run_steps(const Problem& problem, int threads = 1) {
  const auto [batch, time] = problem.dims;
  const NetworkShape& shape = problem.shape;
  const std::vector<T> parameters(problem.parameters.begin(), problem.parameters.end());
  std::vector<T> state(problem.initial_state.begin(), problem.initial_state.end());
  state.resize(batch * shape.state_size());
  const StepEngine<T> engine(shape, parameters);
  Steps steps{std::vector<double>(batch * time * shape.d_out), {}};
  std::vector<T> x(batch * shape.d_in), y(batch * shape.d_out);
  for (std::size_t t = 0; t < time; ++t) {
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t c = 0; c < shape.d_in; ++c)
        x[b * shape.d_in + c] = static_cast<T>(problem.x[(b * time + t) * shape.d_in + c]);
    engine.step(batch, x.data(), y.data(), state.data(), threads);
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t c = 0; c < shape.d_out; ++c)
        steps.y[(b * time + t) * shape.d_out + c] = y[b * shape.d_out + c];
  }
  steps.final_state.assign(state.begin(), state.end());
  return steps;
}

/// Sizes around and between the numbers of lanes.
std::vector<NetworkShape> odd_shapes() {
  std::vector<NetworkShape> shapes;
  for (const std::size_t d_model : {1, 5, 16, 17, 22, 63})
    for (const LayerKind kind : layer_kinds)
      shapes.push_back({kind, 3, 2, d_model, 2, !has_states(kind) ? 0u : d_model == 5 ? 1u : 7u});
  return shapes;
}

TEST(StepEngine, AgreesWithTheReferenceForOddSizes) {
  for_each_dispatch_target([] {
    for (const NetworkShape& shape : odd_shapes()) {
      SCOPED_TRACE(std::string(to_string(shape.kind)) + " " + std::to_string(shape.d_model));
      const Problem problem = random_problem(shape, {7, 5}, 3);
      const Result expected = engine_table().front().forward(problem);
      // Tolerances as in the engine table: 2e-6 is the bound asked of float, 1e-12 a few hundred roundings.
      const Steps doubles = run_steps<double>(problem), floats = run_steps<float>(problem);
      EXPECT_LT(relative_error(doubles.y, expected.y), 1e-12);
      EXPECT_LT(relative_error(doubles.final_state, expected.final_state), 1e-12);
      EXPECT_LT(relative_error(floats.y, expected.y), 2e-6);
      EXPECT_LT(relative_error(floats.final_state, expected.final_state), 2e-6);
    }
  });
}

TEST(StepEngine, GivesTheSameBytesForEveryBatchAndThreadCount) {
  for (const LayerKind kind : layer_kinds) {
    const NetworkShape shape = paper_network("burgers", kind);
    const Problem whole = random_problem(shape, {11, 3}, 5);
    const Steps together = run_steps<float>(whole);
    for (const int threads : {2, 7}) EXPECT_EQ(run_steps<float>(whole, threads).y, together.y);
    const std::size_t x_size = 3 * shape.d_in, y_size = 3 * shape.d_out, state_size = shape.state_size();
    for (std::size_t b = 0; b < whole.dims.batch; ++b) {
      Problem one = whole;
      one.dims.batch = 1;
      one.x.assign(whole.x.begin() + static_cast<std::ptrdiff_t>(b * x_size),
                   whole.x.begin() + static_cast<std::ptrdiff_t>((b + 1) * x_size));
      one.initial_state.assign(
          whole.initial_state.begin() + static_cast<std::ptrdiff_t>(b * state_size),
          whole.initial_state.begin() + static_cast<std::ptrdiff_t>((b + 1) * state_size));
      const Steps alone = run_steps<float>(one);
      for (std::size_t i = 0; i < y_size; ++i) EXPECT_EQ(alone.y[i], together.y[b * y_size + i]);
      for (std::size_t i = 0; i < state_size; ++i)
        EXPECT_EQ(alone.final_state[i], together.final_state[b * state_size + i]);
    }
  }
}

TEST(StepEngine, GivesTheSameBytesOnEveryInstructionSetWithFusedMultiplyAdd) {
  for (const LayerKind kind : layer_kinds) {
    const Problem problem = random_problem(paper_network("burgers", kind), {3, 4}, 6);
    const Steps best = run_steps<float>(problem);
    for_each_dispatch_target([&] {
      const bool fused = hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2 | HWY_NEON);
      if (fused) {
        EXPECT_EQ(run_steps<float>(problem).y, best.y);
        EXPECT_EQ(run_steps<float>(problem).final_state, best.final_state);
      }
    });
  }
}

TEST(StepEngine, ServesThreadsWithTheirOwnStatesAtTheSameTime) {
  const Problem problem = random_problem({LayerKind::mamba, 6, 6, 22, 4, 12}, {1, 1}, 8);
  const std::vector<float> parameters(problem.parameters.begin(), problem.parameters.end());
  const StepEngine<float> engine(problem.shape, parameters);
  const auto roll = [&](std::vector<float>& state) {
    std::vector<float> x(6, 0.5f), y(6);
    state.assign(engine.state_size(), 0.0f);
    for (int t = 0; t < 200; ++t) engine.step(1, x.data(), y.data(), state.data());
  };
  std::vector<float> states[4];
  std::vector<std::thread> threads;
  for (int i = 1; i < 4; ++i) threads.emplace_back(roll, std::ref(states[i]));
  roll(states[0]);
  for (std::thread& thread : threads) thread.join();
  for (int i = 1; i < 4; ++i) EXPECT_EQ(states[i], states[0]);
}

}  // namespace
}  // namespace mac::test
