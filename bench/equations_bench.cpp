// Right-hand sides from text beside the same in C++ and in a plug-in in C: a step of the full model, and the reduced
// rates and their gradient, per evaluation.
#include <benchmark/benchmark.h>

#include <mac/config.hpp>
#include <mac/own_system.hpp>
#include <string>

#include "systems/plugin.hpp"

namespace mac {
namespace {

/// Lorenz '96 as a user writes it with mac/own_system.hpp.
struct OwnLorenz96 {
  static constexpr std::size_t n = 8, j = 32;
  static constexpr double f = 10, h = 1, c = 10, b = 10;
  explicit OwnLorenz96(const ConfigTable&) {}
  std::vector<std::string> resolved_names() const {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < n; ++k) names.push_back("X" + std::to_string(k + 1));
    return names;
  }
  std::vector<std::size_t> closure_targets() const { return {0, 1, 2, 3, 4, 5, 6, 7}; }
  std::size_t full_size() const { return n * (1 + j); }
  template <class Scalar>
  void reduced_rhs(const Scalar* x, Scalar* dxdt) const {
    for (std::size_t k = 0; k < n; ++k)
      dxdt[k] = -x[(k + n - 1) % n] * (x[(k + n - 2) % n] - x[(k + 1) % n]) - x[k] + f;
  }
  void full_rhs(const double* z, double* rate) const {
    reduced_rhs(z, rate);
    const double* y = z + n;
    constexpr std::size_t m = n * j;
    for (std::size_t k = 0; k < n; ++k) {
      double sum = 0;
      for (std::size_t i = k * j; i < (k + 1) * j; ++i) {
        sum += y[i];
        rate[n + i] =
            -c * b * y[(i + 1) % m] * (y[(i + 2) % m] - y[(i + m - 1) % m]) - c * y[i] + h * c / b * z[k];
      }
      rate[k] -= h * c / b * sum;
    }
  }
  void sample(RandomStream& random, std::span<double> z) const {
    for (double& value : z) value = random.normal();
  }
};

std::unique_ptr<System> make(const std::string& kind) {
  if (kind == "own") return std::make_unique<OwnSystem<OwnLorenz96>>("own", ConfigTable::parse("", "bench"));
  if (kind == "lorenz96_plugin") load_plugin(MAC_BENCH_PLUGIN);
  if (kind.starts_with("text_"))
    return make_system(
        ConfigTable::read(std::string(MAC_EXPERIMENTS) + "/equations/" + kind.substr(5) + ".toml")
            .table("system"));
  return make_system(ConfigTable::parse("name = '" + kind + "'", "bench"));
}

/// Settled states, so that no number is out of the ordinary.
std::vector<double> settled(const System& system, double dt) {
  const auto solver = system.make_solver(dt);
  RandomStream random(1, Purpose::train_data, 0);
  start_trajectory(system, *system.initial_condition(nullptr), 0, random, *solver);
  return {solver->state().begin(), solver->state().end()};
}

void step(benchmark::State& state, const std::string& kind, double dt) {
  const auto system = make(kind);
  const auto solver = system->make_solver(dt);
  solver->start(settled(*system, dt));
  for (auto _ : state) {
    solver->step();
    benchmark::DoNotOptimize(solver->state().data());
  }
}

void full(benchmark::State& state, const std::string& kind, double dt) {
  const auto system = make(kind);
  const auto solver = system->make_solver(dt);
  const auto z = settled(*system, dt);
  std::vector<double> rate(z.size());
  for (auto _ : state) {
    solver->full_rhs(z, rate);
    benchmark::DoNotOptimize(rate.data());
  }
}

void reduced(benchmark::State& state, const std::string& kind, double dt) {
  const auto system = make(kind);
  const auto z = settled(*system, dt);
  std::vector<double> rate(system->resolved_size());
  for (auto _ : state) {
    system->reduced_rhs(z.data(), rate.data());
    benchmark::DoNotOptimize(rate.data());
  }
}

void gradient(benchmark::State& state, const std::string& kind, double dt) {
  const auto system = make(kind);
  const auto z = settled(*system, dt);
  std::vector<double> adjoint(system->resolved_size(), 1.0), result(system->resolved_size());
  for (auto _ : state) {
    system->reduced_rhs_vjp(z.data(), adjoint.data(), result.data());
    benchmark::DoNotOptimize(result.data());
  }
}

#define MAC_COMPARE(what)                                             \
  BENCHMARK_CAPTURE(what, lorenz96_built_in, "lorenz96", 0.005);      \
  BENCHMARK_CAPTURE(what, lorenz96_own_system, "own", 0.005);         \
  BENCHMARK_CAPTURE(what, lorenz96_plugin, "lorenz96_plugin", 0.005); \
  BENCHMARK_CAPTURE(what, lorenz96_text, "text_lorenz96", 0.005);     \
  BENCHMARK_CAPTURE(what, power_grid_built_in, "power_grid", 5e-5);   \
  BENCHMARK_CAPTURE(what, power_grid_text, "text_power_grid", 5e-5);
MAC_COMPARE(step)
MAC_COMPARE(full)
MAC_COMPARE(reduced)
MAC_COMPARE(gradient)

}  // namespace
}  // namespace mac
