// How long a training iteration and a rollout step take on the device.
#include "network/benchmark.hpp"

#include <algorithm>
#include <cmath>
#include <mac/cuda.hpp>
#include <mac/random.hpp>

#include "rollout/cuda/free_rollout.hpp"
#include "training/cuda/device_loss.hpp"

namespace mac {

namespace cuda {

namespace {

constexpr double noise = 5e-4;

template <class T>
DeviceArray<T> on_device(const std::vector<T>& values) {
  DeviceArray<T> array;
  array.upload(values.data(), values.size(), nullptr);
  check(cudaStreamSynchronize(nullptr), "copying to it");
  return array;
}

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

DeviceTiming time_training_on_device(const System& system, const NetworkShape& shape, SequenceDims dims,
                                     std::size_t models, std::size_t rollout_steps, bool autoregressive) {
  using namespace cuda;
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  const std::size_t before = free_memory(), trajectories = 8, d = shape.d_in, c = shape.d_out;
  StagePlan stage;
  stage.batch = dims.batch;
  stage.loss = rollout_steps > 0 ? LossKind::rollout : LossKind::closure;
  stage.rollout_steps = rollout_steps;
  stage.rollout_form = autoregressive ? RolloutForm::autoregressive : RolloutForm::sequence;
  const std::size_t states = dims.time + rollout_steps;
  const Normalisation scale{std::vector<double>(d, 0.0), std::vector<double>(d, 1.0),
                            std::vector<double>(c, 0.0), std::vector<double>(c, 1.0)};
  const LossContext context{system, scale, {}, 1e-3, 1};

  const auto resolved = on_device(normals(trajectories * states * d, 1)),
             closure = on_device(normals(trajectories * states * c, 1));
  const Normalisers normalisers(scale);
  const auto input = on_device(normalisers.input.numbers()), output = on_device(normalisers.output.numbers());
  std::vector<Sample> drawn;
  for (std::size_t i = 0; i < models * dims.batch; ++i) {
    const std::size_t row = i % trajectories * states;
    drawn.push_back({row * d, row * c, 1, static_cast<std::uint32_t>(i), 0.1, 0, 0});
  }
  const auto samples = on_device(drawn);
  std::vector<float> parameters;
  for (std::size_t seed = 0; seed < models; ++seed)
    for (const double value : initial_parameters(shape, seed))
      parameters.push_back(static_cast<float>(value));
  const auto weights = on_device(parameters), first_moment = on_device(std::vector<float>(parameters.size())),
             second_moment = on_device(std::vector<float>(parameters.size()));
  const DeviceArray<float> gradient(parameters.size());
  const DeviceArray<double> losses(models), norms(models);
  const int modes = static_cast<int>(system.fourier_modes()), count = static_cast<int>(models);
  const BatchSource source{resolved.data(),
                           closure.data(),
                           Normaliser::view_of(input.data(), d),
                           Normaliser::view_of(output.data(), c),
                           static_cast<int>(d),
                           static_cast<int>(c),
                           modes};
  const auto loss =
      make_device_loss(stage, context, {states, rollout_steps > 0 ? 0 : dims.time}, shape, models);
  const Stream stream;
  const std::size_t size = parameter_count(shape);
  std::size_t step = 0;
  DeviceTiming result;
  result.timing = time(15, stream, [&] {
    loss->evaluate(weights.data(), source, samples.data(), noise, gradient.data(), losses.data(), stream);
    launch_gradient_norm(gradient.data(), count, size, norms.data(), stream);
    launch_adamw(adamw_step(++step, 1e-3, 0.9, 1e-4, INFINITY),
                 {weights.data(), first_moment.data(), second_moment.data(), nullptr}, gradient.data(),
                 norms.data(), count, size, stream);
  });
  result.gigabytes = static_cast<double>(before - free_memory()) / (1 << 30);
  const double passes = static_cast<double>(std::max<std::size_t>(1, rollout_steps) * models);
  result.timing.gflops = 6e-9 * passes * static_cast<double>(multiply_adds(shape) * dims.batch * dims.time) /
                         result.timing.median_seconds;
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
  RolloutRun run{.network = packed_network(shape),
                 .equations = device_equations(*equations),
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
                 .y = y.data(),
                 .closure = zeros.data(),
                 .previous = previous.data(),
                 .recurrent = recurrent.data(),
                 .blow_up = blow_up.data(),
                 .truth = nullptr,
                 .resolved = resolved.data(),
                 .predicted = predicted.data()};
  set_drives(system.closure_targets(), run.drives);
  const auto launch = choose_launch(run.network, run.count, shared_memory(), multiprocessors());
  if (!launch) throw Error("the network is too large for rollouts on the CUDA device");
  const Stream stream;
  DeviceTiming result;
  result.timing = time(9, stream, [&] {
    y.upload(start.data(), start.size(), stream);
    launch_rollout(run, *launch, stream);
    check_launch("starting a rollout");
  });
  result.timing.median_seconds /= steps, result.timing.best_seconds /= steps;
  result.gigabytes = static_cast<double>(before - free_memory()) / (1 << 30);
  result.timing.gflops =
      2e-9 * static_cast<double>(multiply_adds(shape) * batch) / result.timing.median_seconds;
  return result;
}

}  // namespace mac
