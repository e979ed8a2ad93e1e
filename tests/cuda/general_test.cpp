// The general path: the same bytes however often and with whom a model runs. That its numbers are right is tested with the
// engines (cuda_general in tests/network/engine_table.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/arrays.hpp"
#include "network/cuda/device_network.hpp"
#include "network/cuda/general/general_network.hpp"
#include "network/cuda_engine.hpp"

namespace mac::test {
namespace {

using namespace cuda;

struct Pass {
  std::vector<float> y, final_state, d_parameters, d_x, d_initial;

  bool operator==(const Pass&) const = default;
};

template <class T>
std::vector<T> run_of(const std::vector<T>& values, std::size_t model, std::size_t models) {
  const std::size_t size = values.size() / models;
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(model * size);
  return std::vector<T>(first, first + static_cast<std::ptrdiff_t>(size));
}

struct Inputs {
  NetworkShape shape;
  SequenceDims dims;
  std::size_t models;
  std::vector<float> parameters, x, initial, d_y, d_final;

  Inputs(const NetworkShape& shape, SequenceDims dims, std::size_t models)
      : shape(shape),
        dims(dims),
        models(models),
        parameters(normals<float>(models * parameter_count(shape), 1, 0.2)),
        x(normals<float>(models * dims.batch * dims.time * shape.d_in, 2)),
        initial(normals<float>(models * dims.batch * shape.state_size(), 3, 0.5)),
        d_y(normals<float>(models * dims.batch * dims.time * shape.d_out, 4)),
        d_final(normals<float>(models * dims.batch * shape.state_size(), 5, 0.5)) {}

  Inputs of_model(std::size_t model) const {
    Inputs one = *this;
    one.models = 1;
    for (auto array : {&Inputs::parameters, &Inputs::x, &Inputs::initial, &Inputs::d_y, &Inputs::d_final})
      one.*array = run_of(this->*array, model, models);
    return one;
  }
};

/// With `add`, gradients go on top of ones.
Pass run(const Inputs& in, bool add = false) {
  const Stream stream;
  DeviceNetwork network(in.shape, in.models, Kernels::general);
  DeviceTape tape;
  const auto parameters = on_device(in.parameters), x = on_device(in.x), initial = on_device(in.initial),
             d_y = on_device(in.d_y), d_final = on_device(in.d_final),
             d_parameters = on_device(std::vector<float>(in.parameters.size(), 1));
  const DeviceArray<float> y(in.d_y.size()), final_state(in.initial.size()), d_x(in.x.size()),
      d_initial(in.initial.size());
  network.forward(parameters.data(), in.dims, x.data(), y.data(), initial.data(), final_state.data(), &tape,
                  stream);
  network.backward(parameters.data(), in.dims, x.data(), initial.data(), d_y.data(), tape,
                   {d_parameters.data(), d_x.data(), d_initial.data(), d_final.data()}, add, stream);
  stream.wait();
  return {from_device(y, in.d_y.size()), from_device(final_state, in.initial.size()),
          from_device(d_parameters, in.parameters.size()), from_device(d_x, in.x.size()),
          from_device(d_initial, in.initial.size())};
}

const NetworkShape shapes[] = {{LayerKind::mamba, 3, 2, 33, 2, 20}, {LayerKind::mamba, 5, 1, 128, 2, 16},
                               {LayerKind::gru, 3, 2, 130, 2, 0},   {LayerKind::lstm, 3, 2, 67, 2, 0},
                               {LayerKind::mlp, 3, 2, 75, 2, 0},    {LayerKind::oscillator, 3, 2, 33, 2, 10}};

class CudaGeneral : public CudaTraining {};

TEST_F(CudaGeneral, GivesTheSameBytesTwice) {
  for (const NetworkShape& shape : shapes) {
    const Inputs in(shape, {5, 300}, 1);
    EXPECT_EQ(run(in), run(in)) << to_string(shape.kind) << " " << shape.d_model;
  }
}

TEST_F(CudaGeneral, GivesSeveralModelsTheBytesOfEachAlone) {
  for (const NetworkShape& shape : shapes)
    for (const SequenceDims dims : {SequenceDims{5, 61}, SequenceDims{1, 1}}) {
      const std::size_t models = 3;
      const Inputs in(shape, dims, models);
      const Pass together = run(in);
      for (std::size_t m = 0; m < models; ++m) {
        const Pass alone = run(in.of_model(m));
        for (auto array : {&Pass::y, &Pass::final_state, &Pass::d_parameters, &Pass::d_x, &Pass::d_initial})
          EXPECT_EQ(run_of(together.*array, m, models), alone.*array)
              << to_string(shape.kind) << " model " << m;
      }
    }
}

TEST_F(CudaGeneral, AddsToGradientsOnlyWhereAsked) {
  for (const NetworkShape& shape : shapes) {
    const Inputs in(shape, {2, 9}, 2);
    const Pass overwritten = run(in, false), added = run(in, true);
    for (std::size_t i = 0; i < added.d_parameters.size(); ++i)
      ASSERT_EQ(added.d_parameters[i], 1 + overwritten.d_parameters[i]) << to_string(shape.kind) << " " << i;
  }
}

/// A pass over sequences with the states after every step, all in double; states (time, sequence, state).
struct EveryState {
  std::vector<double> y, states, d_parameters;
};
struct EveryStateInputs {
  NetworkShape shape;
  SequenceDims dims;
  std::size_t states = dims.batch * shape.state_size();  // after a step
  std::vector<double> parameters = normals<double>(parameter_count(shape), 1, 0.2),
                      x = normals<double>(dims.batch * dims.time * shape.d_in, 2),
                      d_y = normals<double>(dims.batch * dims.time * shape.d_out, 4),
                      d_states = normals<double>(dims.time * states, 5, 0.5);

  /// (sequence, time, numbers) at a time.
  std::vector<double> at(const std::vector<double>& rows, std::size_t numbers, std::size_t t) const {
    std::vector<double> column;
    for (std::size_t b = 0; b < dims.batch; ++b)
      for (std::size_t i = 0; i < numbers; ++i) column.push_back(rows[(b * dims.time + t) * numbers + i]);
    return column;
  }
};

EveryState in_one_pass(const EveryStateInputs& in) {
  const Stream stream;
  GeneralNetwork<double> network(in.shape, 1);
  DeviceTape tape;
  const auto parameters = on_device(in.parameters), x = on_device(in.x), d_y = on_device(in.d_y),
             d_states = on_device(in.d_states);
  const DeviceArray<double> y(in.d_y.size()), states(in.d_states.size()), d_parameters(in.parameters.size());
  network.forward_every(parameters.data(), in.dims, x.data(), y.data(), states.data(), tape, stream);
  network.backward_every(parameters.data(), in.dims, states.data(), d_y.data(), d_states.data(), tape,
                         d_parameters.data(), false, stream);
  stream.wait();
  return {from_device(y, in.d_y.size()), from_device(states, in.d_states.size()),
          from_device(d_parameters, in.parameters.size())};
}

EveryState step_by_step(const EveryStateInputs& in) {
  const auto engine = make_reference_engine<double>(in.shape);
  const SequenceDims one{in.dims.batch, 1};
  EveryState result{std::vector<double>(in.d_y.size()), {}, std::vector<double>(in.parameters.size())};
  std::vector<std::unique_ptr<Tape>> tapes;
  std::vector<std::vector<double>> before{std::vector<double>(in.states)};
  for (std::size_t t = 0; t < in.dims.time; ++t) {
    const std::vector<double> x = in.at(in.x, in.shape.d_in, t);
    std::vector<double> y(in.dims.batch * in.shape.d_out), after(in.states);
    tapes.push_back(engine->make_tape(one));
    engine->forward(in.parameters.data(), one, x.data(), y.data(), before.back().data(), after.data(),
                    tapes.back().get());
    for (std::size_t b = 0; b < in.dims.batch; ++b)
      for (std::size_t i = 0; i < in.shape.d_out; ++i)
        result.y[(b * in.dims.time + t) * in.shape.d_out + i] = y[b * in.shape.d_out + i];
    result.states.insert(result.states.end(), after.begin(), after.end());
    before.push_back(after);
  }
  std::vector<double> d_after(in.states), d_before(in.states);
  for (std::size_t t = in.dims.time; t-- > 0;) {
    const std::vector<double> x = in.at(in.x, in.shape.d_in, t), d_y = in.at(in.d_y, in.shape.d_out, t);
    for (std::size_t i = 0; i < in.states; ++i) d_after[i] += in.d_states[t * in.states + i];
    engine->backward(in.parameters.data(), one, x.data(), before[t].data(), d_y.data(), *tapes[t],
                     {result.d_parameters.data(), nullptr, d_before.data(), d_after.data()});
    std::swap(d_before, d_after);
  }
  return result;
}

TEST_F(CudaGeneral, LeavesTheStatesAfterEveryStepAndTakesTheirGradients) {
  // Wide enough for more than a block of channels; more sequences than blocks; more states than lanes.
  for (const auto& [shape, dims] :
       {std::pair(NetworkShape{LayerKind::mamba, 3, 2, 33, 2, 20}, SequenceDims{5, 9}),
        std::pair(NetworkShape{LayerKind::mamba, 3, 2, 33, 2, 20}, SequenceDims{7, 1}),
        std::pair(NetworkShape{LayerKind::mamba, 3, 2, 70, 1, 5}, SequenceDims{3, 2}),
        std::pair(NetworkShape{LayerKind::mamba, 3, 2, 4, 1, 3}, SequenceDims{1100, 4}),
        std::pair(NetworkShape{LayerKind::mamba, 3, 2, 9, 1, 100}, SequenceDims{2, 3}),
        std::pair(NetworkShape{LayerKind::oscillator, 3, 2, 33, 2, 10}, SequenceDims{5, 9}),
        std::pair(NetworkShape{LayerKind::oscillator, 3, 2, 4, 1, 3}, SequenceDims{1100, 4}),
        std::pair(NetworkShape{LayerKind::gru, 3, 2, 33, 2, 0}, SequenceDims{5, 9}),
        std::pair(NetworkShape{LayerKind::gru, 3, 2, 400, 1, 0}, SequenceDims{2, 4}),
        std::pair(NetworkShape{LayerKind::lstm, 3, 2, 33, 2, 0}, SequenceDims{5, 9}),
        std::pair(NetworkShape{LayerKind::lstm, 3, 2, 310, 1, 0}, SequenceDims{2, 4}),
        std::pair(NetworkShape{LayerKind::mlp, 3, 2, 12, 2, 0}, SequenceDims{3, 4})}) {
    const EveryStateInputs in{shape, dims};
    const EveryState device = in_one_pass(in), reference = step_by_step(in);
    const std::string name = std::string(to_string(shape.kind)) + " " + std::to_string(shape.d_model);
    // Rounding of float64 in sums of some hundred numbers.
    EXPECT_LT(largest_difference(device.y, reference.y), 1e-11) << name;
    EXPECT_LT(largest_difference(device.states, reference.states), 1e-11) << name;
    double largest = 1;
    for (const double value : reference.d_parameters) largest = std::max(largest, std::abs(value));
    EXPECT_LT(largest_difference(device.d_parameters, reference.d_parameters), 1e-11 * largest) << name;
  }
}

/// A step from given states, and back from gradients of the states after it.
template <class T>
struct Step {
  std::vector<T> y, states, d_parameters, d_x, d_initial;

  Step(SequenceEngine<T>& engine, const EveryStateInputs& in)
      : y(in.d_y.size()),
        states(in.states),
        d_parameters(in.parameters.size()),
        d_x(in.x.size()),
        d_initial(in.states) {
    const auto rounded = [](const std::vector<double>& values) {
      return std::vector<T>(values.begin(), values.end());
    };
    const std::vector<T> parameters = rounded(in.parameters), x = rounded(in.x), d_y = rounded(in.d_y),
                         d_states = rounded(in.d_states), initial = normals<T>(in.states, 3, 0.5);
    const auto tape = engine.make_tape(in.dims);
    engine.forward(parameters.data(), in.dims, x.data(), y.data(), initial.data(), states.data(), tape.get());
    engine.backward(parameters.data(), in.dims, x.data(), initial.data(), d_y.data(), *tape,
                    {d_parameters.data(), d_x.data(), d_initial.data(), d_states.data()});
  }
};

/// Differences to float64, over the largest number where that is over one.
template <class T>
void expect_step(const EveryStateInputs& in, double bound) {
  const Step<T> device(*make_cuda_engine<T>(in.shape, Kernels::general), in);
  const Step<double> reference(*make_reference_engine<double>(in.shape), in);
  const auto expect = [&](const std::vector<T>& values, const std::vector<double>& right, const char* what) {
    double largest = 1;
    for (const double value : right) largest = std::max(largest, std::abs(value));
    EXPECT_LT(largest_difference(std::vector<double>(values.begin(), values.end()), right), bound * largest)
        << fmt::format("{} of {} {} {}, {} bytes", what, to_string(in.shape.kind), in.shape.d_model,
                       in.shape.d_state, sizeof(T));
  };
  expect(device.y, reference.y, "outputs");
  expect(device.states, reference.states, "states");
  expect(device.d_parameters, reference.d_parameters, "gradients of parameters");
  expect(device.d_x, reference.d_x, "gradients of inputs");
  expect(device.d_initial, reference.d_initial, "gradients of states");
}

TEST_F(CudaGeneral, TakesSingleStepsOfManySequencesAndTheWayBack) {
  // Numbers of states that divide by eight, by four and by neither; two blocks of channels; more of them than a warp of
  // channels each has room for, in double and in both.
  for (const NetworkShape& shape :
       {NetworkShape{LayerKind::mamba, 3, 2, 5, 2, 16}, NetworkShape{LayerKind::mamba, 3, 2, 70, 1, 12},
        NetworkShape{LayerKind::mamba, 3, 2, 6, 1, 5}, NetworkShape{LayerKind::mamba, 3, 2, 4, 1, 40},
        NetworkShape{LayerKind::mamba, 3, 2, 4, 1, 100}, NetworkShape{LayerKind::oscillator, 3, 2, 5, 2, 8},
        NetworkShape{LayerKind::oscillator, 3, 2, 5, 1, 6},
        NetworkShape{LayerKind::oscillator, 3, 2, 5, 1, 3}}) {
    const EveryStateInputs in{shape, {2300, 1}};  // more than two for a block
    expect_step<double>(in, 1e-11);               // rounding in sums of some hundred numbers
    expect_step<float>(in, 2e-5);                 // likewise, and through two blocks
  }
}

TEST_F(CudaGeneral, IsTakenBeyondTheFusedKernels) {
  EXPECT_STREQ(DeviceNetwork({LayerKind::mamba, 3, 2, 33, 2, 20}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::gru, 3, 2, 128, 2, 0}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::mlp, 3, 2, 8, 2, 0}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::gru, 3, 2, 5, 2, 0}, 1).kernels(), "fused");
}

TEST_F(CudaGeneral, IsTakenForSingleStepsOfManyChains) {
  EXPECT_EQ(kernels_for_single_steps(3999), Kernels::fastest);
  EXPECT_EQ(kernels_for_single_steps(4000), may_take_general_path() ? Kernels::general : Kernels::fastest);
}

TEST_F(CudaGeneral, RefusesATapeOfAnotherPass) {
  const NetworkShape shape{LayerKind::mamba, 3, 2, 33, 1, 20};
  const EveryStateInputs in{shape, {5, 9}};
  const Stream stream;
  GeneralNetwork<double> network(shape, 1);
  DeviceTape tape;
  const auto parameters = on_device(in.parameters), x = on_device(in.x), d_y = on_device(in.d_y),
             d_states = on_device(in.d_states);
  const DeviceArray<double> y(in.d_y.size()), states(in.d_states.size()), d_parameters(in.parameters.size());
  network.forward_every(parameters.data(), in.dims, x.data(), y.data(), states.data(), tape, stream);
  EXPECT_THROW(network.backward_every(parameters.data(), {9, 5}, states.data(), d_y.data(), d_states.data(),
                                      tape, d_parameters.data(), false, stream),
               Error);
  stream.wait();
}

}  // namespace
}  // namespace mac::test
