// What the CPU engine promises beyond agreeing with the reference: bits that don't depend on threads,
// batches, memory or mode, on every instruction set; and no allocation once it is set up.
#include <gtest/gtest.h>

#include <mac/paper_networks.hpp>

#include "network/count_allocations.hpp"
#include "network/cpu/engine.hpp"
#include "network/dispatch_targets.hpp"
#include "network/engine_table.hpp"

namespace mac::test {
namespace {

const NetworkShape burgers_mamba{LayerKind::mamba, 6, 6, 22, 2, 12};
const NetworkShape burgers_gru{LayerKind::gru, 6, 6, 28, 2, 0};

/// Burgers' network of every kind, with two blocks.
std::vector<NetworkShape> burgers_networks() {
  std::vector<NetworkShape> shapes;
  for (const LayerKind kind : layer_kinds) {
    shapes.push_back(paper_network("burgers", kind));
    shapes.back().n_blocks = 2;
  }
  return shapes;
}

template <class T>
struct Run {
  std::vector<T> y, final_state, d_parameters, d_x, d_initial_state;
  bool operator==(const Run&) const = default;
};

template <class T>
std::vector<T> cast(const std::vector<double>& values) {
  return std::vector<T>(values.begin(), values.end());
}

template <class T>
Run<T> run(const Problem& problem, int threads, cpu::EngineOptions options = {}) {
  const auto engine = cpu::make_engine<T>(problem.shape, threads, options);
  const auto tape = engine->make_tape(problem.dims);
  const auto w = cast<T>(problem.parameters), x = cast<T>(problem.x),
             initial = cast<T>(problem.initial_state), d_y = cast<T>(problem.d_y),
             d_final = cast<T>(problem.d_final_state);
  const std::size_t rows = problem.dims.batch * problem.dims.time;
  Run<T> r{std::vector<T>(rows * problem.shape.d_out), std::vector<T>(initial.size()),
           std::vector<T>(w.size()), std::vector<T>(x.size()), std::vector<T>(initial.size())};
  engine->forward(w.data(), problem.dims, x.data(), r.y.data(), initial.data(), r.final_state.data(),
                  tape.get());
  engine->backward(w.data(), problem.dims, x.data(), initial.data(), d_y.data(), *tape,
                   {r.d_parameters.data(), r.d_x.data(), r.d_initial_state.data(), d_final.data()});
  return r;
}

TEST(CpuEngine, GivesTheSameBytesForEveryThreadCount) {
  for (const NetworkShape& shape : burgers_networks()) {
    const Problem problem = random_problem(shape, {300, 21}, 11);  // more groups of lanes than slots
    const auto floats = run<float>(problem, 1);
    const auto doubles = run<double>(problem, 1);
    for (const int threads : {2, 7}) {
      EXPECT_TRUE(run<float>(problem, threads) == floats) << threads;
      EXPECT_TRUE(run<double>(problem, threads) == doubles) << threads;
    }
  }
}

TEST(CpuEngine, GivesTheSameBytesWhetherTheTapeKeepsRecordsOrMakesThemAgain) {
  for (const NetworkShape& shape : burgers_networks()) {
    // 700 time points are three segments of 16 chunks of 18; the last one is not full.
    const Problem problem = random_problem(shape, {18, 700}, 12);
    EXPECT_TRUE(run<float>(problem, 2, {0}) == run<float>(problem, 2));
  }
}

TEST(CpuEngine, StepsGiveTheBytesOfSequences) {
  for_each_dispatch_target([] {
    std::vector<NetworkShape> shapes = burgers_networks();
    for (const LayerKind kind : layer_kinds)
      shapes.insert(shapes.end(), {shape_of(kind, 5), shape_of(kind, 63, 1)});
    for (const NetworkShape& shape : shapes) {
      const Problem problem = random_problem(shape, {5, 40}, 13);
      const auto sequence = run<float>(problem, 1);
      const StepEngine<float> engine(shape, cast<float>(problem.parameters));
      std::vector<float> state = cast<float>(problem.initial_state);
      std::vector<float> x(5 * shape.d_in), y(5 * shape.d_out);
      for (std::size_t t = 0; t < 40; ++t) {
        for (std::size_t b = 0; b < 5; ++b)
          for (std::size_t c = 0; c < shape.d_in; ++c)
            x[b * shape.d_in + c] = static_cast<float>(problem.x[(b * 40 + t) * shape.d_in + c]);
        engine.step(5, x.data(), y.data(), state.data());
        for (std::size_t b = 0; b < 5; ++b)
          for (std::size_t c = 0; c < shape.d_out; ++c)
            ASSERT_EQ(y[b * shape.d_out + c], sequence.y[(b * 40 + t) * shape.d_out + c]) << t;
      }
      EXPECT_EQ(state, sequence.final_state);
    }
  });
}

TEST(CpuEngine, GivesASequenceTheSameBytesInAnyBatch) {
  const Problem whole = random_problem(burgers_mamba, {19, 23}, 14);
  const auto together = run<float>(whole, 1);
  const std::size_t x_size = 23 * burgers_mamba.d_in, state_size = burgers_mamba.state_size();
  const auto part = [](const std::vector<double>& all, std::size_t b, std::size_t size) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(b * size);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  for (const std::size_t b : {0, 7, 18}) {
    Problem one{burgers_mamba, whole.parameters, {1, 23}, {}, {}, {}, {}};
    one.x = part(whole.x, b, x_size), one.d_y = part(whole.d_y, b, x_size);  // d_in = d_out
    one.initial_state = part(whole.initial_state, b, state_size);
    one.d_final_state = part(whole.d_final_state, b, state_size);
    const auto alone = run<float>(one, 1);
    for (std::size_t i = 0; i < x_size; ++i) {
      ASSERT_EQ(alone.y[i], together.y[b * x_size + i]);
      ASSERT_EQ(alone.d_x[i], together.d_x[b * x_size + i]);
    }
  }
}

TEST(CpuEngine, AgreesWithTheReferenceOnEveryInstructionSet) {
  std::vector<NetworkShape> shapes = burgers_networks();
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::oscillator})
    for (const std::size_t states : {1, 3}) shapes.push_back({kind, 2, 3, 17, 1, states});
  for (const NetworkShape& shape : shapes) {
    const Problem problem = random_problem(shape, {7, 25}, 15);
    const Result expected = engine_table().front().forward_backward(problem);
    for_each_dispatch_target([&] {
      const auto floats = run<float>(problem, 1);
      const auto doubles = run<double>(problem, 1);
      // The engine table's tolerances.
      EXPECT_LT(relative_error({floats.y.begin(), floats.y.end()}, expected.y), 2e-6);
      EXPECT_LT(relative_error(doubles.y, expected.y), 1e-12);
      EXPECT_LT(relative_error({floats.d_x.begin(), floats.d_x.end()}, expected.d_x), 1e-5);
      EXPECT_LT(relative_error(doubles.d_x, expected.d_x), 1e-10);
      EXPECT_LT(relative_error(doubles.d_initial_state, expected.d_initial_state), 1e-10);
      EXPECT_LT(
          worst_tensor(shape, {floats.d_parameters.begin(), floats.d_parameters.end()}, expected.d_parameters)
              .error,
          1e-5);
      EXPECT_LT(worst_tensor(shape, doubles.d_parameters, expected.d_parameters).error, 1e-10);
    });
  }
}

TEST(CpuEngine, AgreesWithTheReferenceOverLongSequencesAndLargeBatches) {
  struct Case {
    NetworkShape shape;
    SequenceDims dims;
  };
  std::vector<Case> cases;
  for (const LayerKind kind : layer_kinds) {
    cases.push_back({shape_of(kind, 5), {2, 10001}});
    cases.push_back({shape_of(kind, 17, 1), {96, 19}});
  }
  for (const Case& c : cases) {
    const Problem problem = random_problem(c.shape, c.dims, 16);
    const Result expected = engine_table().front().forward_backward(problem);
    const auto doubles = run<double>(problem, 2);
    const auto floats = run<float>(problem, 2);
    // The engine table's tolerances, times five for untrained networks as in sequence_test.cpp.
    EXPECT_LT(relative_error(doubles.y, expected.y), 5e-12);
    EXPECT_LT(relative_error({floats.y.begin(), floats.y.end()}, expected.y), 1e-5);
    EXPECT_LT(worst_tensor(c.shape, doubles.d_parameters, expected.d_parameters).error, 5e-10);
    EXPECT_LT(
        worst_tensor(c.shape, {floats.d_parameters.begin(), floats.d_parameters.end()}, expected.d_parameters)
            .error,
        5e-5);
  }
}

TEST(CpuEngine, DoesNotAllocateAfterSetUp) {
  for (const NetworkShape& shape : burgers_networks()) {
    const SequenceDims dims{40, 30};
    const auto engine = make_cpu_engine<float>(shape, 1);
    const auto tape = engine->make_tape(dims);
    const auto w = cast<float>(initial_parameters(shape, 1));
    const StepEngine<float> steps(shape, w);
    std::vector<float> x(40 * 30 * 6, 0.5f), y(x.size()), gradient(w.size()), state(40 * shape.state_size());
    steps.step(40, x.data(), y.data(), state.data());  // gives this thread its scratch space
    const long before = allocation_count();
    engine->forward(w.data(), dims, x.data(), y.data(), nullptr, nullptr, tape.get());
    engine->backward(w.data(), dims, x.data(), nullptr, y.data(), *tape,
                     {gradient.data(), nullptr, nullptr, nullptr});
    steps.step(40, x.data(), y.data(), state.data());
    EXPECT_EQ(allocation_count(), before);
  }
}

TEST(CpuEngine, RefusesATapeThatIsTooSmall) {
  const auto engine = make_cpu_engine<float>(burgers_gru, 1);
  const auto tape = engine->make_tape({4, 10});
  const auto w = cast<float>(initial_parameters(burgers_gru, 1));
  std::vector<float> x(4 * 11 * 6), y(x.size());
  EXPECT_THROW(engine->forward(w.data(), {4, 11}, x.data(), y.data(), nullptr, nullptr, tape.get()),
               std::exception);
}

}  // namespace
}  // namespace mac::test
