// Time per rollout step of the memory models at a given step index: it grows with the length of the past.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <mac/baselines.hpp>

namespace mac {
namespace {

Experiment study(std::size_t steps) {
  return Experiment::parse(
      fmt::format("[system]\nname = 'burgers'\ngrid = 16\n[data]\ndt = 1e-3\n[data.ood]\n"
                  "horizon = {}\ninitial = {{ kind = 'fields', fields = ['sin'] }}\n",
                  static_cast<double>(steps) * 1e-3),
      "bench");
}

/// A real kernel of a short horizon, continued by zeros on the active series.
std::shared_ptr<const MemoryKernel> long_kernel(const System& system, std::size_t degree, std::size_t times) {
  MemoryKernelOptions options;
  options.degree = degree;
  options.horizon = 0.01;
  options.quiet = true;
  const MemoryKernel start = compute_memory_kernel(system, options);
  auto kernel = std::make_shared<MemoryKernel>(start);
  kernel->times = times;
  kernel->values.assign(kernel->functions() * kernel->variables * times, 0.0);
  for (std::size_t nu = 0; nu < kernel->functions(); ++nu)
    for (std::size_t j = 0; j < kernel->variables; ++j)
      std::copy_n(start.series(nu, j), start.times,
                  kernel->values.data() + (nu * kernel->variables + j) * times);
  return kernel;
}

void memory_step(benchmark::State& state, std::size_t degree) {
  const auto index = static_cast<std::size_t>(state.range(0)), more = std::size_t{200};
  const Experiment experiment = study(index + more);
  const std::string path = (std::filesystem::temp_directory_path() / "mac-memory-bench.h5").string();
  generate(experiment, path, {1, true});
  const DataFile data = DataFile::open(path);
  std::filesystem::remove(path);
  const auto model = make_memory_model(long_kernel(*experiment.system, degree, index + more + 2), "memory");
  const auto group = model->start(data.split("ood"), 0, 1);
  std::vector<double> y = {0, 0, 0, -0.5, 0, 0}, closure(6);
  std::size_t n = 0;
  const auto step = [&] {
    group->predict(n, y.data(), closure.data());
    group->advance(n, {*experiment.system, 1e-3, {}, 1, closure.data(), nullptr}, y.data());
    ++n;
  };
  while (n < index) step();
  for (auto _ : state) step();
}

BENCHMARK_CAPTURE(memory_step, linear, 1)
    ->Arg(1)
    ->Arg(1000)
    ->Arg(20000)
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(memory_step, cubic, 3)
    ->Arg(1)
    ->Arg(1000)
    ->Arg(20000)
    ->Iterations(200)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mac
