// Training iterations on the CUDA device: batch, forward, loss, backward, AdamW. Times are the device's own.
//   build/bench/mac_bench --benchmark_filter=cuda
#include <benchmark/benchmark.h>

#include <cmath>
#include <mac/cuda.hpp>
#include <mac/random.hpp>

#include "network/cuda/device_network.hpp"
#include "training/cuda/kernels.hpp"

namespace mac {
namespace {

using cuda::DeviceArray;

/// `models` networks on batches drawn from a few random trajectories.
class Training {
 public:
  Training(const NetworkShape& shape, SequenceDims dims, std::size_t models)
      : shape_(shape), dims_(dims), models_(models), network_(shape, models) {
    constexpr std::size_t trajectories = 8;
    RandomStream random(1, Purpose::noise, 0);
    const auto normals = [&](DeviceArray<double>& to, std::size_t count) {
      std::vector<double> values(count);
      for (double& value : values) value = random.normal();
      upload(to, values);
    };
    normals(resolved_, trajectories * dims.time * shape.d_in);
    normals(closure_, trajectories * dims.time * shape.d_out);
    upload(zeros_, std::vector<double>(std::max(shape.d_in, shape.d_out), 0.0));
    upload(ones_, std::vector<double>(std::max(shape.d_in, shape.d_out), 1.0));
    std::vector<cuda::Sample> samples;
    for (std::size_t i = 0; i < models * dims.batch; ++i) {
      const std::size_t row = i % trajectories * dims.time;
      samples.push_back({row * shape.d_in, row * shape.d_out, 1, static_cast<std::uint32_t>(i), 0.1, 0, 0});
    }
    upload(samples_, samples);
    std::vector<float> parameters;
    for (std::size_t seed = 0; seed < models; ++seed)
      for (const double value : initial_parameters(shape, seed))
        parameters.push_back(static_cast<float>(value));
    upload(parameters_, parameters);
    upload(first_moment_, std::vector<float>(parameters.size()));
    upload(second_moment_, std::vector<float>(parameters.size()));
    gradient_.reserve(parameters.size());
    const std::size_t rows = models * dims.batch * dims.time;
    x_.reserve(rows * shape.d_in);
    for (DeviceArray<float>* array : {&target_, &y_, &d_y_}) array->reserve(rows * shape.d_out);
    sums_.reserve(models * dims.batch), losses_.reserve(models), norms_.reserve(models);
    stream_.wait();
  }

  void iterate() {
    const int models = static_cast<int>(models_), batch = static_cast<int>(dims_.batch),
              time = static_cast<int>(dims_.time);
    const int modes = shape_.d_in == shape_.d_out ? static_cast<int>(shape_.d_in / 2) : 0;
    cuda::launch_make_batch(
        {resolved_.data(), closure_.data(), zeros_.data(), ones_.data(), zeros_.data(), ones_.data(),
         ones_.data(), static_cast<int>(shape_.d_in), static_cast<int>(shape_.d_out), modes},
        samples_.data(), models * batch, time, 5e-4, x_.data(), target_.data(), stream_);
    network_.forward(parameters_.data(), dims_, x_.data(), y_.data(), nullptr, nullptr, &tape_, stream_);
    cuda::launch_closure_loss(y_.data(), target_.data(), ones_.data(), models, batch, time,
                              static_cast<int>(shape_.d_out), d_y_.data(), sums_.data(), losses_.data(),
                              stream_);
    network_.backward(parameters_.data(), dims_, x_.data(), nullptr, d_y_.data(), tape_,
                      {gradient_.data(), nullptr, nullptr, nullptr}, false, stream_);
    cuda::launch_gradient_norm(gradient_.data(), models, network_.parameter_count(), norms_.data(), stream_);
    cuda::launch_adamw(cuda::adamw_step(++steps_, 1e-3, 0.9, 1e-4, INFINITY),
                       {parameters_.data(), first_moment_.data(), second_moment_.data(), nullptr},
                       gradient_.data(), norms_.data(), models, network_.parameter_count(), stream_);
  }

  const cuda::Stream& stream() const { return stream_; }

 private:
  template <class T>
  void upload(DeviceArray<T>& to, const std::vector<T>& from) {
    to.upload(from.data(), from.size(), stream_);
    stream_.wait();
  }

  NetworkShape shape_;
  SequenceDims dims_;
  std::size_t models_, steps_ = 0;
  cuda::Stream stream_;
  cuda::DeviceNetwork network_;
  cuda::DeviceTape tape_;
  DeviceArray<double> resolved_, closure_, zeros_, ones_, sums_, losses_, norms_;
  DeviceArray<cuda::Sample> samples_;
  DeviceArray<float> parameters_, gradient_, first_moment_, second_moment_, x_, target_, y_, d_y_;
};

struct Case {
  NetworkShape shape;
  std::size_t batch, models;
};

void training_iteration(benchmark::State& state, const Case& at) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) {
    state.SkipWithError(reason.c_str());
    return;
  }
  std::size_t free_before = 0, free_after = 0, total = 0;
  cudaMemGetInfo(&free_before, &total);
  Training training(at.shape, {at.batch, static_cast<std::size_t>(state.range(0))}, at.models);
  for (int i = 0; i < 3; ++i) training.iterate();
  training.stream().wait();
  cudaMemGetInfo(&free_after, &total);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  for (auto _ : state) {
    cudaEventRecord(begin, training.stream());
    training.iterate();
    cudaEventRecord(end, training.stream());
    cuda::check(cudaEventSynchronize(end), "timing");
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    state.SetIterationTime(1e-3 * static_cast<double>(milliseconds));
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  state.counters["GiB"] = static_cast<double>(free_before - free_after) / (1 << 30);
}

void times(benchmark::internal::Benchmark* b) {
  for (const int time : {5001, 10001, 15001, 20001, 25001}) b->Arg(time);
  b->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(15);
}
void one_time(benchmark::internal::Benchmark* b, int time) {
  b->Arg(time)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(15);
}

const NetworkShape burgers{LayerKind::mamba, 6, 6, 22, 4, 12}, burgers_gru{LayerKind::gru, 6, 6, 28, 4, 0};
const NetworkShape kdv{LayerKind::mamba, 6, 6, 24, 2, 12}, kdv_gru{LayerKind::gru, 6, 6, 30, 2, 0};
const NetworkShape grid{LayerKind::mamba, 3, 2, 10, 3, 16}, grid_gru{LayerKind::gru, 3, 2, 16, 3, 0};
const NetworkShape lorenz{LayerKind::mamba, 8, 8, 63, 3, 16}, lorenz_gru{LayerKind::gru, 8, 8, 62, 4, 0};

BENCHMARK_CAPTURE(training_iteration, cuda_burgers_mamba, Case{burgers, 96, 1})->Apply(times);
BENCHMARK_CAPTURE(training_iteration, cuda_burgers_gru, Case{burgers_gru, 96, 1})->Apply(times);
const auto at_10001 = [](benchmark::internal::Benchmark* b) { one_time(b, 10001); };
BENCHMARK_CAPTURE(training_iteration, cuda_burgers_mamba_five_models, Case{burgers, 96, 5})->Apply(at_10001);
BENCHMARK_CAPTURE(training_iteration, cuda_burgers_gru_five_models, Case{burgers_gru, 96, 5})
    ->Apply(at_10001);
BENCHMARK_CAPTURE(training_iteration, cuda_kdv_mamba, Case{kdv, 96, 1})->Apply(at_10001);
BENCHMARK_CAPTURE(training_iteration, cuda_kdv_gru, Case{kdv_gru, 96, 1})->Apply(at_10001);
BENCHMARK_CAPTURE(training_iteration, cuda_power_grid_mamba, Case{grid, 96, 1})->Apply(at_10001);
BENCHMARK_CAPTURE(training_iteration, cuda_power_grid_gru, Case{grid_gru, 96, 1})->Apply(at_10001);
const auto at_54 = [](benchmark::internal::Benchmark* b) { one_time(b, 54); };
BENCHMARK_CAPTURE(training_iteration, cuda_lorenz96_mamba, Case{lorenz, 512, 1})->Apply(at_54);
BENCHMARK_CAPTURE(training_iteration, cuda_lorenz96_gru, Case{lorenz_gru, 512, 1})->Apply(at_54);

}  // namespace
}  // namespace mac
