// The general path: the same bytes however often and with whom a model runs. That its numbers are right is tested with the
// engines (cuda_general in tests/network/engine_table.cpp).
#include <gtest/gtest.h>

#include "cuda/arrays.hpp"
#include "network/cuda/device_network.hpp"

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

TEST_F(CudaGeneral, IsTakenBeyondTheFusedKernels) {
  EXPECT_STREQ(DeviceNetwork({LayerKind::mamba, 3, 2, 33, 2, 20}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::gru, 3, 2, 128, 2, 0}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::mlp, 3, 2, 8, 2, 0}, 1).kernels(), "general");
  EXPECT_STREQ(DeviceNetwork({LayerKind::gru, 3, 2, 5, 2, 0}, 1).kernels(), "fused");
}

}  // namespace
}  // namespace mac::test
