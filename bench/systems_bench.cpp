// Time per solver step of each system, closure integral included, beside the Fourier transforms alone: a step
// of Burgers or KdV has four evaluations, each one transform there and one back.
#include <benchmark/benchmark.h>

#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/system.hpp>
#include <string>

#include "systems/real_fft.hpp"

namespace mac {
namespace {

void step(benchmark::State& state, const std::string& table, double dt) {
  const auto system = make_system(ConfigTable::parse(table, "bench"));
  const auto solver = system->make_solver(dt);
  RandomStream random(1, Purpose::train_data, 0);
  start_trajectory(*system, *system->initial_condition(nullptr), 0, random, *solver);
  for (auto _ : state) {
    solver->step();
    benchmark::DoNotOptimize(solver->state().data());
  }
}

void transforms(benchmark::State& state) {
  RealFft fft(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    for (int stage = 0; stage < 4; ++stage) {
      fft.to_grid();
      fft.to_modes();
    }
    benchmark::ClobberMemory();
  }
}
BENCHMARK(transforms)->Name("systems/transforms_of_a_step")->Arg(128)->Arg(256)->Arg(1024);

void burgers(benchmark::State& state) {
  step(state, "name = 'burgers'\ngrid = " + std::to_string(state.range(0)), 1e-4);
}
BENCHMARK(burgers)->Name("systems/burgers_step")->Arg(128)->Arg(256)->Arg(1024);

void kdv(benchmark::State& state) {
  step(state, "name = 'kdv'\ngrid = " + std::to_string(state.range(0)), 1e-4);
}
BENCHMARK(kdv)->Name("systems/kdv_step")->Arg(128)->Arg(256)->Arg(1024);

void lorenz96(benchmark::State& state) { step(state, "name = 'lorenz96'", 0.005); }
BENCHMARK(lorenz96)->Name("systems/lorenz96_step");

void power_grid(benchmark::State& state) { step(state, "name = 'power_grid'", 5e-5); }
BENCHMARK(power_grid)->Name("systems/power_grid_step");

}  // namespace
}  // namespace mac
