// Training on the device against the CPU's, and several models at once against each alone.
#include <optional>

#include "cuda/arrays.hpp"
#include "network/cuda/device_network.hpp"
#include "training/adamw.hpp"
#include "training/cuda/device_soap.hpp"
#include "training/cuda/kernels.hpp"
#include "training/soap.hpp"

namespace mac::test {
namespace {

using cuda::DeviceArray;

TEST_F(CudaTraining, MakesTheBatchThatTheCpuMakes) {
  constexpr std::size_t time = 300, d = 6, modes = 3, rows = 500;
  const auto resolved = normals<double>(rows * d, 0), closure = normals<double>(rows * d, 1);
  const std::vector<double> mean{0.1, 0, 0, 0, 0, -0.2}, scale{1, 2, 4, 1, 2, 4};
  const cuda::Sample sample{40 * d, 41 * d, 12345678901234ull, 77, 1.1, 1, 0};
  const double noise = 0.01;
  const auto device_resolved = on_device(resolved), device_closure = on_device(closure);
  const auto numbers = on_device(Normaliser(mean, scale).numbers());
  const NormaliserView normaliser = Normaliser::view_of(numbers.data(), d);
  const auto samples = on_device(std::vector<cuda::Sample>{sample});
  DeviceArray<float> x(time * d), target(time * d);
  cuda::launch_make_batch(
      {device_resolved.data(), device_closure.data(), normaliser, normaliser, d, d, modes}, samples.data(), 1,
      time, noise, x.data(), target.data(), nullptr);

  RandomStream random(sample.seed, Purpose::noise, sample.stream);
  std::vector<float> expected_x, expected_target;
  for (std::size_t t = 0; t < time; ++t) {
    const auto transformed = [&](const double* row) {
      std::vector<double> out(d);
      for (std::size_t k = 0; k < modes; ++k) {
        const double cosine = std::cos(static_cast<double>(k + 1) * sample.angle),
                     sine = std::sin(static_cast<double>(k + 1) * sample.angle);
        out[k] = -(row[k] * cosine - row[modes + k] * sine);
        out[modes + k] = row[k] * sine + row[modes + k] * cosine;
      }
      return out;
    };
    const auto in = transformed(resolved.data() + (40 + t) * d),
               out = transformed(closure.data() + (41 + t) * d);
    for (std::size_t i = 0; i < d; ++i) {
      expected_x.push_back(static_cast<float>((in[i] - mean[i]) / scale[i] + noise * random.normal()));
      expected_target.push_back(static_cast<float>((out[i] - mean[i]) / scale[i]));
    }
  }
  // The double precision functions of the two may differ in their last bits, which a float hardly sees.
  EXPECT_LT(largest_difference(from_device(x, time * d), expected_x), 1e-6);
  EXPECT_LT(largest_difference(from_device(target, time * d), expected_target), 1e-6);
}

TEST_F(CudaTraining, ShiftsCyclicallyAsTheCpuDoes) {
  const std::vector<double> rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto data = on_device(rows),
             numbers = on_device(Normaliser(std::vector<double>(5), std::vector<double>(5, 1.0)).numbers());
  const NormaliserView identity = Normaliser::view_of(numbers.data(), 5);
  const auto samples = on_device(std::vector<cuda::Sample>{{0, 0, 1, 1, 0, 0, 2}});
  DeviceArray<float> x(10), target(10);
  cuda::launch_make_batch({data.data(), data.data(), identity, identity, 5, 5, 0}, samples.data(), 1, 2, 0,
                          x.data(), target.data(), nullptr);
  EXPECT_EQ(from_device(x, 10), (std::vector<float>{2, 3, 4, 0, 1, 7, 8, 9, 5, 6}));
  EXPECT_EQ(from_device(target, 10), from_device(x, 10));
}

TEST_F(CudaTraining, StepsAsAdamWOnTheCpu) {
  constexpr std::size_t count = 1000;
  auto parameters = normals<float>(count, 2);
  AdamW<float> adamw(count, 1e-2);
  const auto device_parameters = on_device(parameters), m = on_device(std::vector<float>(count)),
             v = on_device(std::vector<float>(count));
  DeviceArray<double> norm(1);
  for (std::size_t step = 1; step <= 20; ++step) {
    auto gradient = normals<float>(count, static_cast<std::uint32_t>(10 + step));
    const auto device_gradient = on_device(gradient);
    const double lr = 1e-2, beta1 = 0.85 + 0.005 * static_cast<double>(step), clip = 5;
    clip_gradient<float>(gradient, clip);
    adamw.step(parameters, gradient, lr, beta1);
    cuda::launch_gradient_norm(device_gradient.data(), 1, count, norm.data(), nullptr);
    cuda::launch_adamw({AdamStep<float>(step, lr, 1e-2, beta1, adamw_beta2), clip},
                       {device_parameters.data(), m.data(), v.data(), nullptr}, device_gradient.data(),
                       norm.data(), 1, count, nullptr);
  }
  // Twenty steps of 0.01, each a float's rounding off.
  EXPECT_LT(largest_difference(from_device(device_parameters, count), parameters), 2e-6);
}

/// A training on the device: `models` networks, each on its own batch.
struct Training {
  NetworkShape shape;
  SequenceDims dims;
  std::size_t models;
  cuda::DeviceNetwork network{shape, models};
  cuda::DeviceTape tape;
  DeviceArray<float> parameters, x, target, y, d_y, gradient, m, v;
  DeviceArray<double> weights = on_device(std::vector<double>(shape.d_out, 1.0)), sums, losses, norms;
  std::optional<cuda::DeviceSoap> soap;  // none: AdamW

  Training(const NetworkShape& s, SequenceDims d, OptimiserKind optimiser,
           const std::vector<std::size_t>& seeds)
      : shape(s), dims(d), models(seeds.size()) {
    if (optimiser == OptimiserKind::soap) soap.emplace(shape, models);
    for (std::size_t i = 0; soap && i < models; ++i) soap->put(i, {});
    const std::size_t rows = dims.batch * dims.time, count = network.parameter_count();
    std::vector<float> all_parameters, all_x, all_target;
    const auto append = [](std::vector<float>& to, const auto& from) {
      for (const auto value : from) to.push_back(static_cast<float>(value));
    };
    for (const std::size_t seed : seeds) {
      append(all_parameters, initial_parameters(shape, seed));
      append(all_x, normals<float>(rows * shape.d_in, static_cast<std::uint32_t>(100 + seed)));
      append(all_target, normals<float>(rows * shape.d_out, static_cast<std::uint32_t>(200 + seed), 0.3));
    }
    parameters = on_device(all_parameters), x = on_device(all_x), target = on_device(all_target);
    m = on_device(std::vector<float>(models * count)), v = on_device(std::vector<float>(models * count));
    y.reserve(all_target.size()), d_y.reserve(all_target.size()), gradient.reserve(models * count);
    sums.reserve(models * dims.batch * cuda::loss_parts), losses.reserve(models), norms.reserve(models);
  }

  void step(std::size_t n) {
    const int count = static_cast<int>(models);
    network.forward(parameters.data(), dims, x.data(), y.data(), nullptr, nullptr, &tape, nullptr);
    cuda::launch_closure_loss(
        {count, static_cast<int>(dims.batch), static_cast<int>(dims.time), static_cast<int>(shape.d_out),
         y.data(), target.data(), d_y.data(), sums.data(), losses.data()},
        weights.data(), nullptr);
    network.backward(parameters.data(), dims, x.data(), nullptr, d_y.data(), tape,
                     {gradient.data(), nullptr, nullptr, nullptr}, false, nullptr);
    cuda::launch_gradient_norm(gradient.data(), count, network.parameter_count(), norms.data(), nullptr);
    if (soap)
      soap->step({parameters.data(), gradient.data(), m.data(), v.data(), nullptr},
                 {AdamStep<float>(n, 1e-3, 1e-4, 0.9, soap_beta2)}, soap_follows(n), norms.data(), nullptr);
    else
      cuda::launch_adamw({AdamStep<float>(n, 1e-3, 1e-4, 0.9, adamw_beta2)},
                         {parameters.data(), m.data(), v.data(), nullptr}, gradient.data(), norms.data(),
                         count, network.parameter_count(), nullptr);
  }
};

TEST_F(CudaTraining, OfSeveralModelsGivesTheBytesOfEachAlone) {
  for (const NetworkShape& shape :
       {NetworkShape{LayerKind::mamba, 3, 2, 22, 2, 12}, NetworkShape{LayerKind::mamba, 3, 2, 9, 2, 5},
        NetworkShape{LayerKind::gru, 3, 2, 9, 2, 0}})
    for (const SequenceDims dims :  // few, several a block, and in segments
         {SequenceDims{4, 150}, SequenceDims{403, 9}, SequenceDims{2, 1249}})
      for (const OptimiserKind optimiser : {OptimiserKind::adamw, OptimiserKind::soap}) {
        Training together(shape, dims, optimiser, {1, 2, 3});
        for (std::size_t n = 1; n <= 11; ++n) together.step(n);
        const auto all = from_device(together.parameters, 3 * together.network.parameter_count());
        for (const std::size_t seed : {1, 2, 3}) {
          Training alone(shape, dims, optimiser, {seed});
          for (std::size_t n = 1; n <= 11; ++n) alone.step(n);
          const std::size_t count = alone.network.parameter_count();
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>((seed - 1) * count);
          EXPECT_EQ(from_device(alone.parameters, count),
                    std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count)))
              << to_string(shape.kind) << " batch " << dims.batch << " seed " << seed;
        }
      }
}

/// 200 steps of Training's on the CPU.
struct CpuTraining {
  std::vector<float> parameters;
  double loss = 0;

  CpuTraining(const NetworkShape& shape, SequenceDims dims, OptimiserKind kind, std::size_t seed) {
    const auto engine = make_cpu_engine<float>(shape, 1);
    const auto tape = engine->make_tape(dims);
    const auto initial = initial_parameters(shape, seed);
    parameters.assign(initial.begin(), initial.end());
    std::vector<float> gradient(parameters.size());
    const auto x =
        normals<float>(dims.batch * dims.time * shape.d_in, static_cast<std::uint32_t>(100 + seed));
    const auto target =
        normals<float>(dims.batch * dims.time * shape.d_out, static_cast<std::uint32_t>(200 + seed), 0.3);
    std::vector<float> y(target.size()), d_y(target.size());
    StagePlan stage;
    stage.optimiser = kind, stage.weight_decay = 1e-4;
    const auto optimiser = make_optimiser<float>(stage, shape, 1);
    for (std::size_t n = 1; n <= 200; ++n) {
      engine->forward(parameters.data(), dims, x.data(), y.data(), nullptr, nullptr, tape.get());
      loss = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double error = static_cast<double>(y[i]) - static_cast<double>(target[i]);
        loss += error * error / static_cast<double>(y.size());
        d_y[i] = static_cast<float>(2 * error / static_cast<double>(y.size()));
      }
      std::ranges::fill(gradient, 0.0f);
      engine->backward(parameters.data(), dims, x.data(), nullptr, d_y.data(), *tape, {gradient.data()});
      optimiser->step(parameters, gradient, 1e-3, 0.9);
    }
  }
};

TEST_F(CudaTraining, FollowsTheCpuFor200Steps) {
  struct Case {
    OptimiserKind optimiser;
    double loss, parameters;  // bounds of the relative and of the largest difference
  };
  // Rounding grows along the training: 1e-7 a step, amplified where Adam divides by a small second moment.
  // SOAP completes its bases in directions that no gradient has had yet from rounding alone, and later steps
  // go along them: weights differ by up to the way they have gone, 200 steps of 1e-3, losses by 0.4 % between
  // two ways of rounding on the CPU.
  for (const Case& bounds : {Case{OptimiserKind::adamw, 1e-3, 5e-3}, Case{OptimiserKind::soap, 2e-2, 0.2}})
    for (const NetworkShape& shape :
         {NetworkShape{LayerKind::mamba, 3, 2, 6, 2, 4}, NetworkShape{LayerKind::gru, 3, 2, 6, 2, 0}}) {
      const SequenceDims dims{4, 60};
      Training run(shape, dims, bounds.optimiser, {1});
      for (std::size_t n = 1; n <= 200; ++n) run.step(n);
      const CpuTraining cpu(shape, dims, bounds.optimiser, 1);
      EXPECT_NEAR(from_device(run.losses, 1)[0] / cpu.loss, 1, bounds.loss) << to_string(shape.kind);
      EXPECT_LT(largest_difference(from_device(run.parameters, cpu.parameters.size()), cpu.parameters),
                bounds.parameters)
          << to_string(shape.kind);
    }
}

}  // namespace
}  // namespace mac::test
