// The networks of the paper: one step, and one training iteration (forward and backward).
// Counters: GFLOP/s of the linear layers' multiply-adds.
#include <benchmark/benchmark.h>

#include <mac/paper_networks.hpp>

#include "bench/benchmark.hpp"

namespace mac {
namespace {

std::vector<float> parameters_of(const NetworkShape& shape) {
  const std::vector<double> values = initial_parameters(shape, 1);
  return {values.begin(), values.end()};
}

void count_flops(benchmark::State& state, double multiply_adds) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * multiply_adds, benchmark::Counter::kIsIterationInvariantRate);
}

void step(benchmark::State& state, const NetworkShape& shape) {
  const auto batch = static_cast<std::size_t>(state.range(0));
  const StepEngine<float> engine(shape, parameters_of(shape));
  const std::vector<float> x(batch * shape.d_in, 0.3f);
  std::vector<float> y(batch * shape.d_out), memory(batch * shape.state_size());
  for (auto _ : state) engine.step(batch, x.data(), y.data(), memory.data());
  count_flops(state, static_cast<double>(multiply_adds(shape) * batch));
}

void training_iteration(benchmark::State& state, const NetworkShape& shape) {
  const SequenceDims dims{96, static_cast<std::size_t>(state.range(0))};
  const auto engine = make_cpu_engine<float>(shape, static_cast<int>(state.range(1)));
  const auto tape = engine->make_tape(dims);
  const std::vector<float> parameters = parameters_of(shape);
  const std::size_t rows = dims.batch * dims.time;
  const std::vector<float> x(rows * shape.d_in, 0.3f), grad_y(rows * shape.d_out, 0.1f);
  std::vector<float> y(rows * shape.d_out), gradient(parameters.size());
  for (auto _ : state) {
    engine->forward(parameters.data(), dims, x.data(), y.data(), nullptr, nullptr, tape.get());
    engine->backward(parameters.data(), dims, x.data(), nullptr, grad_y.data(), *tape,
                     {gradient.data(), nullptr, nullptr, nullptr});
  }
  count_flops(state, 3 * static_cast<double>(multiply_adds(shape) * rows));
}

const bool registered = [] {
  for (const PaperNetwork& network : paper_networks) {
    const std::string name = std::string(network.system) + "_" + std::string(to_string(network.shape.kind));
    benchmark::RegisterBenchmark(("step/" + name).c_str(), step, network.shape)
        ->Arg(1)
        ->Arg(50)
        ->Unit(benchmark::kMicrosecond);
    auto* training =
        benchmark::RegisterBenchmark(("train/" + name).c_str(), training_iteration, network.shape);
    training->ArgNames({"T", "threads"})->Unit(benchmark::kMillisecond)->UseRealTime();
    for (const int length : {101, 1001, 10001})
      for (const int threads : {1, 2})
        if (length == 101 || network.system == "burgers") training->Args({length, threads});
  }
  return true;
}();

}  // namespace
}  // namespace mac
