// A whole training iteration of the Burgers network (batch 96, 101 times) beside the engine's share of it:
// the difference is batches, augmentation, noise, loss and optimiser.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <mac/paper_networks.hpp>

#include "training/losses.hpp"
#include "training/normalise.hpp"
#include "training/optimiser.hpp"

namespace mac {
namespace {

constexpr const char* experiment_text = R"(
[system]
name = "burgers"
grid = 64
[data]
dt = 1e-3
stride = 10
[data.train]
trajectories = 100
horizon = 1
)";

struct Problem {
  Experiment experiment = Experiment::parse(experiment_text, "bench.toml");
  std::string path =
      std::filesystem::temp_directory_path() / ("mac-bench-" + std::to_string(getpid()) + ".h5");
  DataFile file = (generate(experiment, path, {1, true}), DataFile::open(path));
  DataSplit split = file.split("train");
  Normalisation normalisation = fit_scales(split, *experiment.system, InputMap(*experiment.system),
                                           Scaling::per_mode, Target::instant, split.times())
                                    .network;
  TrainingData data{split, Target::instant, split.times(), 1e9};
  ~Problem() { std::filesystem::remove(path); }
};

const Problem& problem() {
  static const Problem made;
  return made;
}

/// The engine, counting the time spent in it.
class TimedEngine final : public SequenceEngine<float> {
 public:
  TimedEngine(const NetworkShape& shape, int threads) : engine_(make_cpu_engine<float>(shape, threads)) {}
  const NetworkShape& shape() const override { return engine_->shape(); }
  std::unique_ptr<Tape> make_tape(SequenceDims largest) override { return engine_->make_tape(largest); }
  void forward(const float* parameters, SequenceDims dims, const float* x, float* y, const float* initial,
               float* final, Tape* tape) override {
    timed([&] { engine_->forward(parameters, dims, x, y, initial, final, tape); });
  }
  void backward(const float* parameters, SequenceDims dims, const float* x, const float* initial,
                const float* grad_y, Tape& tape, const Gradients<float>& gradients) override {
    timed([&] { engine_->backward(parameters, dims, x, initial, grad_y, tape, gradients); });
  }
  double seconds = 0;

 private:
  template <class Work>
  void timed(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::unique_ptr<SequenceEngine<float>> engine_;
};

void iteration(benchmark::State& state, LayerKind kind, double noise, OptimiserKind optimiser_kind) {
  const Problem& made = problem();
  const int threads = static_cast<int>(state.range(0));
  const NetworkShape shape = paper_network("burgers", kind);
  StagePlan stage;
  stage.augmentation = true;
  stage.noise = noise;
  stage.optimiser = optimiser_kind;
  stage.noise_from = 0, stage.noise_to = 1;
  TimedEngine engine(shape, threads);
  const LossContext context{*made.experiment.system, made.normalisation, {}, 0.01, threads};
  const auto loss = make_loss<float>(stage, context, engine);
  BatchStream batches(made.data, *made.experiment.system, stage, 1, 0, threads);
  const std::vector<double> initial = initial_parameters(shape, 1);
  std::vector<float> parameters(initial.begin(), initial.end()), gradient(initial.size());
  const auto optimiser = make_optimiser<float>(stage, shape, threads);
  std::size_t step = 0;
  double seconds = 0;
  loss->evaluate(parameters.data(), batches.at(step++), gradient.data());  // makes the tape
  engine.seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    std::ranges::fill(gradient, 0.f);
    loss->evaluate(parameters.data(), batches.at(step++), gradient.data());
    clip_gradient<float>(gradient, 1);
    optimiser->step(parameters, gradient, 1e-4, 0.9);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  state.counters["overhead_%"] = 100 * (seconds - engine.seconds) / engine.seconds;
}

#define MAC_ITERATION(name, ...)                  \
  BENCHMARK_CAPTURE(iteration, name, __VA_ARGS__) \
      ->Arg(1)                                    \
      ->Arg(2)                                    \
      ->Unit(benchmark::kMillisecond)             \
      ->UseRealTime()
MAC_ITERATION(mamba, LayerKind::mamba, 0.0, OptimiserKind::adamw);
MAC_ITERATION(mamba_with_noise, LayerKind::mamba, 5e-4, OptimiserKind::adamw);
MAC_ITERATION(mamba_with_soap, LayerKind::mamba, 0.0, OptimiserKind::soap);
MAC_ITERATION(gru, LayerKind::gru, 0.0, OptimiserKind::adamw);
MAC_ITERATION(gru_with_noise, LayerKind::gru, 5e-4, OptimiserKind::adamw);
MAC_ITERATION(gru_with_soap, LayerKind::gru, 0.0, OptimiserKind::soap);

}  // namespace
}  // namespace mac
