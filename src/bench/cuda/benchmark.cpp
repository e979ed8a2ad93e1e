// How long a training iteration and a rollout step take on the device.
#include "bench/benchmark.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mac/cuda.hpp>
#include <mac/random.hpp>

#include "experiment/training_settings.hpp"
#include "network/cuda/device.hpp"
#include "network/cuda/device_network.hpp"
#include "rollout/cuda/free_rollout.hpp"
#include "systems/reduced_equations.hpp"
#include "training/descent.hpp"

namespace mac {

namespace cuda {

namespace {

std::vector<double> normals(std::size_t count, double scale) {
  RandomStream random(1, Purpose::noise, 0);
  std::vector<double> values(count);
  for (double& value : values) value = scale * random.normal();
  return values;
}

/// The median and best of `repeats` runs of body(), by the device's clock, after three for warm-up.
template <class Body>
Timing time(int repeats, const Stream& stream, const Body& body) {
  for (int i = 0; i < 3; ++i) body();
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "timing");
  check(cudaEventCreate(&end), "timing");
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    check(cudaEventRecord(begin, stream), "timing");
    body();
    check(cudaEventRecord(end, stream), "timing");
    check(cudaEventSynchronize(end), "timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "timing");
    seconds.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.front(), 0};
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for its memory");
  return free;
}

}  // namespace

}  // namespace cuda

DeviceTiming time_training_on_device(const System& system, const NetworkShape& shape,
                                     const TrainingWork& work) {
  using namespace cuda;
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  constexpr std::size_t trajectories = 8, steps = 10, repeats = 7;  // SOAP's bases follow every ten steps
  const std::size_t before = free_memory(), d = shape.d_in, c = shape.d_out;
  auto [plan, stage] = recipe(work.recipe);
  stage.batch = work.batch;
  stage.steps = (repeats + 1) * steps;
  stage.noise_from = 0, stage.noise_to = 1;  // if there is noise, in every step that is timed
  if (work.rollout_steps > 0) {
    stage.loss = LossKind::rollout;
    stage.rollout_steps = work.rollout_steps;
    stage.rollout_form = work.autoregressive ? RolloutForm::autoregressive : RolloutForm::sequence;
  }
  if (!descends_on_device(stage, system, InputMap(system)))
    throw UsageError("{} does not train with this loss on a CUDA device", system.name());
  const std::size_t times = work.length + work.rollout_steps;
  const TrainingData data(Target::instant, trajectories, normals(trajectories * times * d, 1),
                          normals(trajectories * times * c, 1), d, c);
  const Normalisation scale{std::vector<double>(d, 0.0), std::vector<double>(d, 1.0),
                            std::vector<double>(c, 0.0), std::vector<double>(c, 1.0)};
  const LossContext context{system, scale, plan.held, 1e-3, 1};
  std::vector<TrainingState<float>> states(work.models);
  std::vector<DescentModel> models;
  for (std::size_t seed = 0; seed < work.models; ++seed) {
    const std::vector<double> initial = initial_parameters(shape, seed);
    states[seed].parameters.assign(initial.begin(), initial.end());
    models.push_back({seed, &states[seed]});
  }
  const auto descent =
      make_device_descent({stage, 0, plan.averaging, data, context, plan.memory * 1e9}, shape, models);

  std::vector<StepReport> reports(work.models * steps);
  std::vector<double> seconds;
  descent->take(0, steps, reports);  // warm-up
  for (std::size_t i = 1; i <= repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    descent->take(i * steps, steps, reports);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    seconds.push_back(taken.count() / steps);
  }
  std::ranges::sort(seconds);
  DeviceTiming result{{seconds[repeats / 2], seconds.front(), 0}, 0, descent->kernels()};
  result.gigabytes = static_cast<double>(before - free_memory()) / (1 << 30);
  const double passes = static_cast<double>(std::max<std::size_t>(1, work.rollout_steps) * work.models);
  result.timing.gflops = 6e-9 * passes *
                         static_cast<double>(multiply_adds(shape) * work.batch * work.length) /
                         result.timing.median_seconds;
  return result;
}

DeviceTiming time_double_passes_on_device(const NetworkShape& shape, SequenceDims dims) {
  using namespace cuda;
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  const std::size_t before = free_memory(), rows = dims.batch * dims.time;
  BasicDeviceNetwork<double> network(shape, 1);
  DeviceTape tape;
  const auto parameters = on_device(initial_parameters(shape, 1)),
             x = on_device(normals(rows * shape.d_in, 1)), d_y = on_device(normals(rows * shape.d_out, 1));
  const DeviceArray<double> y(rows * shape.d_out), gradient(parameters.size());
  const Stream stream;
  DeviceTiming result;
  result.timing = time(9, stream, [&] {
    network.forward(parameters.data(), dims, x.data(), y.data(), nullptr, nullptr, &tape, stream);
    network.backward(parameters.data(), dims, x.data(), nullptr, d_y.data(), tape,
                     {.parameters = gradient.data()}, false, stream);
  });
  result.gigabytes = static_cast<double>(before - free_memory()) / (1 << 30);
  result.kernels = network.kernels();
  result.timing.gflops =
      6e-9 * static_cast<double>(multiply_adds(shape) * rows) / result.timing.median_seconds;
  return result;
}

DeviceTiming time_step_on_device(const System& system, const NetworkShape& shape, std::size_t batch) {
  using namespace cuda;
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  constexpr int steps = 500;
  const std::size_t before = free_memory(), d = shape.d_in, c = shape.d_out;
  const auto equations = system.reduced_equations();
  if (!equations) throw UsageError("{} has no equations for a CUDA device", system.name());
  std::vector<float> parameters;
  for (const double value : initial_parameters(shape, 1)) parameters.push_back(static_cast<float>(value));
  const auto weights = on_device(pack_parameters(shape, parameters));
  const auto start = normals(batch * d, 0.1);
  auto y = on_device(start);
  const auto zeros = on_device(std::vector<double>(batch * c, 0.0)),
             previous = on_device(std::vector<double>(batch * c, 0.0)),
             input = on_device(Normaliser(std::vector(d, 0.0), std::vector(d, 1.0)).numbers()),
             output = on_device(Normaliser(std::vector(c, 0.0), std::vector(c, 1e-3)).numbers());
  const auto recurrent = on_device(std::vector<float>(batch * shape.state_size()));
  const auto blow_up = on_device(std::vector<int>(batch, -1));
  const DeviceArray<double> resolved(batch * steps * d), predicted(batch * steps * c);
  RolloutRun run{.network = packed_sizes(shape),
                 .equations_of = nullptr,
                 .members = 1,
                 .d = static_cast<int>(d),
                 .count = static_cast<int>(batch),
                 .first = 0,
                 .end = steps,
                 .times = steps,
                 .offset = 0,
                 .history = 0,
                 .continued = false,
                 .dt = 1e-4,
                 .held = {},
                 .drives = {},
                 .bound = 1e12,
                 .weights = weights.data(),
                 .input = Normaliser::view_of(input.data(), d),
                 .output = Normaliser::view_of(output.data(), c),
                 .reads = nullptr,
                 .given = nullptr,
                 .given_size = 0,
                 .y = y.data(),
                 .closure = zeros.data(),
                 .previous = previous.data(),
                 .recurrent = recurrent.data(),
                 .blow_up = blow_up.data(),
                 .truth = nullptr,
                 .resolved = resolved.data(),
                 .predicted = predicted.data()};
  set_drives(system.closure_targets(), run.drives);
  const auto launch = choose_launch(run.network, run.d, run.count, shared_memory(), multiprocessors());
  if (!launch) throw Error("the network is too large for rollouts on the CUDA device");
  const Stream stream;
  DeviceTiming result;
  result.timing = time(9, stream, [&] {
    y.upload(start.data(), start.size(), stream);
    launch_rollout(*equations, run, *launch, stream);
    check_launch("starting a rollout");
  });
  result.timing.median_seconds /= steps, result.timing.best_seconds /= steps;
  result.gigabytes = static_cast<double>(before - free_memory()) / (1 << 30);
  result.timing.gflops =
      2e-9 * static_cast<double>(multiply_adds(shape) * batch) / result.timing.median_seconds;
  return result;
}

}  // namespace mac
