// Hosts whose fields live on the device: the steps of mac/mac_cuda.h beside those of mac/mac.h.
#include <gtest/gtest.h>
#include <mac/mac_cuda.h>

#include <cstring>
#include <limits>
#include <mac/cuda.hpp>

#include "cuda/arrays.hpp"
#include "runtime/closure_file.hpp"

namespace mac::test {
namespace {

using Numbers = std::vector<double>;

/// A model with states on the host and on the device.
class Opened {
 public:
  explicit Opened(const std::string& path, mac_precision precision = MAC_FLOAT32) {
    mac_error error{};
    EXPECT_EQ(mac_model_open(path.c_str(), precision, &model, &error), MAC_OK) << error.message;
    inputs = mac_model_inputs(model), outputs = mac_model_outputs(model);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    for (mac_state* state : hosts_) mac_state_free(state);
    for (mac_device_state* state : devices_) mac_device_state_free(state);
    mac_model_close(model);
  }
  mac_state* host(std::size_t columns) {
    mac_state* state = nullptr;
    EXPECT_EQ(mac_state_create(model, columns, &state, nullptr), MAC_OK);
    hosts_.push_back(state);
    return state;
  }
  mac_device_state* device(std::size_t columns) {
    mac_device_state* state = nullptr;
    mac_error error{};
    EXPECT_EQ(mac_device_state_create(model, columns, &state, &error), MAC_OK) << error.message;
    devices_.push_back(state);
    return state;
  }
  /// Inputs as the network has seen them in training, in size, that wander from step to step: (steps, columns, inputs)
  Numbers wandering(std::size_t steps, std::size_t columns) const {
    Numbers mean(inputs), scale(inputs);
    EXPECT_EQ(mac_model_normalisation(model, mean.data(), scale.data(), nullptr, nullptr, nullptr), MAC_OK);
    Numbers y = normals<double>(steps * columns * inputs, 3);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (i >= columns * inputs) y[i] = 0.95 * y[i - columns * inputs] + 0.3 * y[i];
    }
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = mean[i % inputs] + scale[i % inputs] * y[i];
    return y;
  }

  mac_model* model = nullptr;
  std::size_t inputs = 0, outputs = 0;

 private:
  std::vector<mac_state*> hosts_;
  std::vector<mac_device_state*> devices_;
};

Numbers part(const Numbers& all, std::size_t n, std::size_t size) {
  return {all.begin() + static_cast<std::ptrdiff_t>(n * size),
          all.begin() + static_cast<std::ptrdiff_t>((n + 1) * size)};
}

Numbers host_step(mac_state* state, const Numbers& y, std::size_t outputs) {
  Numbers closure(mac_state_columns(state) * outputs);
  mac_error error{};
  EXPECT_EQ(mac_step(state, y.data(), closure.data(), &error), MAC_OK) << error.message;
  return closure;
}
Numbers device_step(mac_device_state* state, const Numbers& y, std::size_t outputs) {
  const auto at = on_device(y);
  const cuda::DeviceArray<double> closure(mac_device_state_columns(state) * outputs);
  mac_error error{};
  EXPECT_EQ(mac_step_device(state, at.data(), closure.data(), nullptr, &error), MAC_OK) << error.message;
  return from_device(closure, mac_device_state_columns(state) * outputs);
}
std::vector<char> saved(const mac_state* state) {
  std::vector<char> bytes(mac_state_bytes(state));
  EXPECT_EQ(mac_state_save(state, bytes.data(), bytes.size(), nullptr), MAC_OK);
  return bytes;
}
std::vector<char> saved(const mac_device_state* state, const std::vector<std::size_t>& columns = {}) {
  const std::size_t count = columns.empty() ? mac_device_state_columns(state) : columns.size();
  std::vector<char> bytes(mac_device_state_bytes(state, count));
  mac_error error{};
  EXPECT_EQ(mac_device_state_save(state, columns.empty() ? nullptr : columns.data(), count, bytes.data(),
                                  bytes.size(), nullptr, &error),
            MAC_OK)
      << error.message;
  return bytes;
}
/// Difference relative to the scale of each output.
double in_scales(const Opened& opened, const Numbers& a, const Numbers& b) {
  Numbers scale(opened.outputs);
  mac_model_normalisation(opened.model, nullptr, nullptr, nullptr, scale.data(), nullptr);
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = larger(largest, std::abs(a[i] - b[i]) / scale[i % opened.outputs]);
  return largest;
}

const std::string zoo = MAC_SOURCE_FOLDER "/zoo/";

class CudaHost : public testing::Test {
 protected:
  void SetUp() override {
    mac_error error{};
    if (mac_cuda_available(&error) != MAC_OK) GTEST_SKIP() << error.message;
  }
  std::string closure(LayerKind kind) {
    return write_closure(folder_, burgers_closure(kind), std::string(to_string(kind)) + ".safetensors");
  }
  ScratchFolder folder_;
};

TEST_F(CudaHost, TakesTheStepsOfTheCpuForTheModelsOfTheZoo) {
  for (const std::string system : {"burgers", "kdv", "lorenz96", "power_grid"})
    for (const std::string kind : {"mac", "gru", "mac-framed"})
      for (const std::size_t columns : {1, 7, 1000}) {
        const std::string path = zoo + system + "-" + kind + ".safetensors";
        if (kind == "mac-framed" && system != "burgers" && system != "kdv") continue;  // have Fourier modes
        Opened opened(path), exact(path, MAC_FLOAT64);
        mac_state *const host = opened.host(columns), *const reference = exact.host(columns);
        mac_device_state* const device = opened.device(columns);
        constexpr std::size_t steps = 200;
        const Numbers y = opened.wandering(steps, columns);
        double of_host = 0, of_device = 0;
        for (std::size_t n = 0; n < steps; ++n) {
          const Numbers at = part(y, n, columns * opened.inputs);
          const Numbers expected = host_step(reference, at, opened.outputs);
          of_host = larger(of_host, in_scales(opened, host_step(host, at, opened.outputs), expected));
          of_device = larger(of_device, in_scales(opened, device_step(device, at, opened.outputs), expected));
        }
        // Both round to 6e-8 in every sum, in orders of their own; what that comes to in a network, the CPU's distance from
        // its own float64 says. The device's exponentials are off by two units in the last place instead of a half.
        EXPECT_LT(of_device, 8 * of_host) << system << " " << kind << " " << columns << " columns";
        std::printf("%-10s %s %4zu columns: %.1e, the CPU %.1e\n", system.c_str(), kind.c_str(), columns,
                    of_device, of_host);
        mac_error error{};
        EXPECT_EQ(mac_device_state_check(device, nullptr, &error), MAC_OK) << error.message;
      }
}

TEST_F(CudaHost, ARunMovesBetweenCpuAndDevice) {
  for (const Model& model : {burgers_closure(LayerKind::mamba), burgers_closure(LayerKind::gru),
                             framed_burgers_closure(LayerKind::mamba)}) {
    constexpr std::size_t columns = 31;
    Opened opened(write_closure(folder_, model));
    mac_state* const host = opened.host(columns);
    mac_device_state* const device = opened.device(columns);
    const Numbers y = opened.wandering(30, columns);
    const std::size_t size = columns * opened.inputs;
    mac_error error{};
    for (std::size_t n = 0; n < 10; ++n) device_step(device, part(y, n, size), opened.outputs);
    const auto there = saved(device);
    ASSERT_EQ(there.size(), mac_state_bytes(host));
    ASSERT_EQ(mac_state_restore(host, there.data(), there.size(), &error), MAC_OK) << error.message;
    EXPECT_EQ(mac_state_steps(host), 10u);
    EXPECT_EQ(saved(host), there);  // the same bytes
    for (std::size_t n = 10; n < 20; ++n)
      EXPECT_LT(in_scales(opened, device_step(device, part(y, n, size), opened.outputs),
                          host_step(host, part(y, n, size), opened.outputs)),
                5e-5);
    const auto back = saved(host);
    mac_device_state* const other = opened.device(columns);
    ASSERT_EQ(
        mac_device_state_restore(other, back.data(), back.size(), nullptr, nullptr, columns, nullptr, &error),
        MAC_OK)
        << error.message;
    EXPECT_EQ(saved(other), back);
    for (std::size_t n = 20; n < 30; ++n)
      EXPECT_LT(in_scales(opened, device_step(other, part(y, n, size), opened.outputs),
                          host_step(host, part(y, n, size), opened.outputs)),
                5e-5);
    Numbers at_host(columns * opened.outputs);
    const cuda::DeviceArray<double> at_device(at_host.size());
    for (const mac_hold hold : {MAC_HOLD_ZERO, MAC_HOLD_LINEAR}) {
      mac_closure_at(host, hold, 0.5, at_host.data(), nullptr);
      EXPECT_EQ(mac_closure_at_device(other, hold, 0.5, at_device.data(), nullptr, &error), MAC_OK);
      EXPECT_LT(in_scales(opened, from_device(at_device, at_host.size()), at_host), 1e-4);
    }
  }
}

TEST_F(CudaHost, ColumnsComeAndGo) {
  constexpr std::size_t columns = 31;
  Opened opened(write_closure(folder_, framed_burgers_closure(LayerKind::mamba)));
  mac_device_state* const state = opened.device(columns);
  const Numbers y = opened.wandering(3, columns);
  for (std::size_t n = 0; n < 3; ++n) device_step(state, part(y, n, columns * opened.inputs), opened.outputs);
  const std::vector<std::size_t> some = {30, 2, 11}, places = {0, 6, 4}, first = {0, 1, 2};
  const auto bytes = saved(state, some);
  mac_device_state* const other = opened.device(7);
  EXPECT_EQ(mac_device_state_restore(other, bytes.data(), bytes.size(), nullptr, places.data(), 3, nullptr,
                                     nullptr),
            MAC_OK);
  EXPECT_EQ(saved(other, places), bytes);
  EXPECT_EQ(mac_device_state_copy_columns(state, some.data(), other, first.data(), 3, nullptr, nullptr),
            MAC_OK);
  EXPECT_EQ(saved(other, first), bytes);
  EXPECT_EQ(mac_device_state_reset_columns(other, first.data(), 2, nullptr, nullptr), MAC_OK);
  EXPECT_EQ(saved(other, {0, 1, 3}), saved(opened.device(3)));
  EXPECT_EQ(saved(other, {2}), saved(state, {11}));
  EXPECT_EQ(mac_device_state_reset(other, nullptr, nullptr), MAC_OK);
  EXPECT_EQ(saved(other), saved(opened.device(7)));
}

TEST_F(CudaHost, AColumnTakesTheSameBytesAloneAndAmongOthers) {
  for (const std::string name : {"burgers-mac", "burgers-mac-framed", "kdv-mac", "lorenz96-mac",
                                 "power_grid-mac", "burgers-gru", "lorenz96-gru"}) {
    Opened opened(zoo + name + ".safetensors");
    constexpr std::size_t many = 20000, chosen = 4321;
    const Numbers y = opened.wandering(3, many);
    mac_device_state* const all = opened.device(many);
    std::vector<mac_device_state*> others;  // whose kernels differ
    for (const std::size_t columns : {1, 500, 1400, 2000}) others.push_back(opened.device(columns));
    for (std::size_t n = 0; n < 3; ++n) {
      const Numbers at = part(y, n, many * opened.inputs);
      device_step(all, at, opened.outputs);
      for (mac_device_state* const state : others) {
        Numbers some(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(mac_device_state_columns(state) *
                                                                          opened.inputs));
        std::copy_n(at.data() + chosen * opened.inputs, opened.inputs, some.data());
        device_step(state, some, opened.outputs);
      }
    }
    for (mac_device_state* const state : others)
      EXPECT_EQ(saved(state, {0}), saved(all, {chosen}))
          << name << " among " << mac_device_state_columns(state);
  }
}

TEST_F(CudaHost, FieldsAreSteppedWhereTheyLie) {
  constexpr std::size_t nx = 5, ny = 3, nz = 2, columns = nx * ny * nz, halo = 1;
  constexpr std::size_t wide = nx + 2 * halo, high = ny + 2 * halo, points = wide * high * nz;
  Opened opened(closure(LayerKind::gru));
  const std::size_t d = opened.inputs, c = opened.outputs;
  const Numbers y = opened.wandering(2, columns);
  mac_error error{};
  mac_device_state* const rows = opened.device(columns);
  Numbers expected;
  for (std::size_t n = 0; n < 2; ++n) expected = device_step(rows, part(y, n, columns * d), c);

  // y[variable][column]
  mac_device_state* const arrays = opened.device(columns);
  Numbers turned(columns * d), closure(columns * c);
  for (std::size_t n = 0; n < 2; ++n) {
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i) turned[i * columns + j] = y[(n * columns + j) * d + i];
    const auto at = on_device(turned);
    const cuda::DeviceArray<double> out(columns * c);
    ASSERT_EQ(mac_step_device_strided(arrays, at.data(), columns, 1, out.data(), columns, 1, nullptr, &error),
              MAC_OK)
        << error.message;
    closure = from_device(out, columns * c);
  }
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < c; ++i) EXPECT_EQ(closure[i * columns + j], expected[j * c + i]);
  EXPECT_EQ(saved(arrays), saved(rows));

  // a field (nx, ny, nz, variable) with halos, in float
  mac_device_state* const field = opened.device(columns);
  mac_device_state* const floats = opened.device(columns);
  const std::size_t extents[3] = {nx, ny, nz};
  const std::ptrdiff_t strides[3] = {1, wide, wide * high};
  std::vector<float> of_field(points * c, -99), of_rows(columns * c);
  for (std::size_t n = 0; n < 2; ++n) {
    std::vector<float> inside(points * d, NAN), plain(columns * d);
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < d; ++i) {
        const std::size_t at = j % nx + halo + wide * (j / nx % ny + halo) + wide * high * (j / nx / ny);
        inside[i * points + at] = plain[j * d + i] = static_cast<float>(y[(n * columns + j) * d + i]);
      }
    const auto at = on_device(inside), at_plain = on_device(plain);
    const auto out = on_device(std::vector<float>(points * c, -99)), out_plain = on_device(of_rows);
    constexpr std::size_t corner = halo + wide * halo;
    ASSERT_EQ(mac_step_device_field_float(field, extents, at.data() + corner, points, strides,
                                          out.data() + corner, points, strides, nullptr, &error),
              MAC_OK)
        << error.message;
    ASSERT_EQ(mac_step_device_float(floats, at_plain.data(), out_plain.data(), nullptr, &error), MAC_OK);
    of_field = from_device(out, points * c), of_rows = from_device(out_plain, columns * c);
  }
  std::size_t untouched = 0;
  for (const float value : of_field) untouched += value == -99;
  EXPECT_EQ(untouched, (points - columns) * c);
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < c; ++i) {
      const std::size_t at = j % nx + halo + wide * (j / nx % ny + halo) + wide * high * (j / nx / ny);
      EXPECT_EQ(of_field[i * points + at], of_rows[j * c + i]);
      EXPECT_NEAR(of_rows[j * c + i], expected[j * c + i], 1e-5);  // inputs were rounded to float
    }
}

TEST_F(CudaHost, AGraphReplaysTheNextStep) {
  for (const LayerKind kind : {LayerKind::mamba, LayerKind::gru}) {
    constexpr std::size_t columns = 100, steps = 10;
    Opened opened(closure(kind));
    const std::size_t d = opened.inputs, c = opened.outputs;
    const Numbers y = opened.wandering(1, columns);
    mac_device_state *const direct = opened.device(columns), *const replayed = opened.device(columns);
    const auto at = on_device(y);
    const cuda::DeviceArray<double> out(columns * c), middle(columns * c);
    const cuda::Stream stream;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    mac_error error{};
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    const auto both = [&](mac_device_state* state) {
      EXPECT_EQ(mac_step_device(state, at.data(), out.data(), stream, &error), MAC_OK) << error.message;
      EXPECT_EQ(mac_closure_at_device(state, MAC_HOLD_LINEAR, 0.5, middle.data(), stream, &error), MAC_OK)
          << error.message;
    };
    both(replayed);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), cudaSuccess);
    EXPECT_EQ(saved(replayed), saved(direct));  // to capture is not to step
    for (std::size_t n = 0; n < steps; ++n) ASSERT_EQ(cudaGraphLaunch(run, stream), cudaSuccess);
    stream.wait();
    const Numbers of_graph = from_device(middle, columns * c);
    for (std::size_t n = 0; n < steps; ++n) both(direct);
    stream.wait();
    EXPECT_EQ(from_device(middle, columns * c), of_graph);
    EXPECT_EQ(saved(replayed), saved(direct));
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    (void)d;
  }
}

TEST_F(CudaHost, ColumnsBehindTheMaskRest) {
  for (const std::size_t columns : {7, 5000}) {
    Opened opened(closure(LayerKind::mamba));
    const std::size_t d = opened.inputs, c = opened.outputs;
    mac_device_state *const masked = opened.device(columns), *const all = opened.device(columns);
    std::vector<unsigned char> mask(columns);
    for (std::size_t j = 0; j < columns; ++j) mask[j] = j % 3 != 1 && j < columns - 40;
    const auto on_device_mask = on_device(mask);
    mac_error error{};
    ASSERT_EQ(mac_device_state_set_mask(masked, on_device_mask.data(), &error), MAC_OK) << error.message;
    Numbers y = opened.wandering(1, columns);
    device_step(all, y, c);
    for (std::size_t j = 0; j < columns; ++j)
      if (!mask[j]) y[j * d] = NAN;  // nobody looks there
    const auto at = on_device(y), out = on_device(Numbers(columns * c, -99));
    ASSERT_EQ(mac_step_device(masked, at.data(), out.data(), nullptr, &error), MAC_OK) << error.message;
    EXPECT_EQ(mac_device_state_check(masked, nullptr, &error), MAC_OK) << error.message;
    const Numbers closure = from_device(out, columns * c);
    mac_device_state* const rest = opened.device(columns);
    for (const std::size_t j : {std::size_t{0}, std::size_t{1}, std::size_t{4}, columns - 1}) {
      EXPECT_EQ(closure[j * c] == -99, !mask[j]) << j;
      EXPECT_EQ(saved(masked, {j}), saved(mask[j] ? all : rest, {j})) << j;
    }
    EXPECT_EQ(mac_device_state_set_mask(masked, nullptr, nullptr), MAC_OK);
    const auto sound = on_device(opened.wandering(1, columns));
    ASSERT_EQ(mac_step_device(masked, sound.data(), out.data(), nullptr, &error), MAC_OK);
    EXPECT_NE(from_device(out, columns * c)[c], -99);
  }
}

TEST_F(CudaHost, AColumnWhoseInputIsNotFiniteRestsAndTheCheckNamesIt) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                   infinity = std::numeric_limits<double>::infinity();
  struct Case {
    bool framed;
    std::size_t steps_before;
    double bad;
  };
  for (const auto& [framed, steps_before, bad] :
       {Case{false, 0, nan}, Case{false, 2, infinity}, Case{false, 0, 1e300}, Case{true, 0, nan},
        Case{true, 2, nan}, Case{true, 2, infinity}}) {
    constexpr std::size_t columns = 9;
    Opened opened(framed ? write_closure(folder_, framed_burgers_closure(LayerKind::mamba))
                         : closure(LayerKind::mamba));
    const std::size_t d = opened.inputs, c = opened.outputs;
    mac_device_state *const state = opened.device(columns), *const sound = opened.device(columns);
    Numbers y = opened.wandering(1, columns);
    for (std::size_t n = 0; n < steps_before; ++n) device_step(state, y, c), device_step(sound, y, c);
    const auto before = saved(state, {4});
    device_step(sound, y, c);
    y[4 * d + 5] = bad;
    const Numbers closure = device_step(state, y, c);
    for (std::size_t j = 0; j < columns; ++j) EXPECT_EQ(std::isnan(closure[j * c]), j == 4);
    EXPECT_EQ(saved(state, {4}), before);
    EXPECT_EQ(saved(state, {3, 5}), saved(sound, {3, 5}));
    mac_error error{};
    EXPECT_EQ(mac_device_state_check(state, nullptr, &error), MAC_NOT_FINITE);
    EXPECT_STREQ(
        error.message,
        "the input is not finite, or too large for float32 once normalised, in column 4, component 5 (psi3): "
        "the column took no step");
    EXPECT_EQ(mac_device_state_check(state, nullptr, &error), MAC_OK);  // once told
  }
}

TEST_F(CudaHost, WrongUseIsRefused) {
  constexpr std::size_t columns = 6;
  Opened opened(closure(LayerKind::mamba));
  mac_device_state* const state = opened.device(columns);
  Numbers host(columns * opened.inputs);
  const auto y = on_device(host);
  const cuda::DeviceArray<double> closure(columns * opened.outputs);
  mac_error error{};
  const auto refused = [&](mac_status status, mac_status expected, const std::string& sentence) {
    EXPECT_EQ(status, expected) << error.message;
    EXPECT_EQ(std::string(error.message), sentence);
  };
  refused(mac_step_device(state, host.data(), closure.data(), nullptr, &error), MAC_INVALID_ARGUMENT,
          "mac_step_device: y is a pointer to host memory: expected memory that the CUDA device reaches");
  refused(mac_step_device(state, y.data(), nullptr, nullptr, &error), MAC_INVALID_ARGUMENT,
          "mac_step_device: the argument closure is null");
  refused(mac_step_device(nullptr, y.data(), closure.data(), nullptr, &error), MAC_INVALID_ARGUMENT,
          "mac_step_device: the argument state is null");
  refused(mac_step_device_strided(state, y.data(), 1, 0, closure.data(), 1, 6, nullptr, &error),
          MAC_INVALID_ARGUMENT, "mac_step_device_strided: a stride of y is 0: its elements would be one");
  const std::size_t extents[3] = {2, 2, 1};
  const std::ptrdiff_t strides[3] = {6, 12, 24};
  refused(mac_step_device_field(state, extents, y.data(), 1, strides, closure.data(), 1, strides, nullptr,
                                &error),
          MAC_INVALID_ARGUMENT,
          "mac_step_device_field: a grid of 2 x 2 x 1 is not that of the state's 6 columns");
  refused(mac_closure_at_device(state, MAC_HOLD_STAGE, 0.5, closure.data(), nullptr, &error),
          MAC_INVALID_ARGUMENT,
          "mac_closure_at_device: hold is 2: expected MAC_HOLD_ZERO or MAC_HOLD_LINEAR");
  const unsigned char mask[columns] = {};
  refused(mac_device_state_set_mask(state, mask, &error), MAC_INVALID_ARGUMENT,
          "mac_device_state_set_mask: mask is a pointer to host memory: expected memory that the CUDA device "
          "reaches");
  auto bytes = saved(state);
  refused(mac_device_state_save(state, nullptr, columns, bytes.data(), bytes.size() - 1, nullptr, &error),
          MAC_INVALID_ARGUMENT,
          "mac_device_state_save: the buffer has " + std::to_string(bytes.size() - 1) +
              " bytes, the state needs " + std::to_string(bytes.size()));
  bytes[100] ^= 1;
  refused(
      mac_device_state_restore(state, bytes.data(), bytes.size(), nullptr, nullptr, columns, nullptr, &error),
      MAC_BAD_STATE, "the saved state is damaged: its checksum does not fit its contents");
  const std::size_t beyond = 6;
  refused(mac_device_state_reset_columns(state, &beyond, 1, nullptr, &error), MAC_INVALID_ARGUMENT,
          "column 6 is beyond the 6 of the state");
  mac_device_state* made = nullptr;
  refused(mac_device_state_create(opened.model, 0, &made, &error), MAC_INVALID_ARGUMENT,
          "a device state of 0 columns was asked for: expected 1 to 1073741824");
}

/// What a model does not do is said with or without a device.
TEST(DeviceRuntime, ModelsThatStepOnTheCpuAloneAreRefused) {
  const ScratchFolder folder;
  const auto refusal_of_file = [&](const std::string& path, mac_precision precision) {
    Opened opened(path, precision);
    mac_device_state* state = nullptr;
    mac_error error{};
    EXPECT_EQ(mac_device_state_create(opened.model, 3, &state, &error), MAC_INVALID_ARGUMENT);
    EXPECT_EQ(state, nullptr);
    return std::string(error.message).substr(path.size());
  };
  const auto refusal = [&](const Model& model, mac_precision precision = MAC_FLOAT32) {
    return refusal_of_file(write_closure(folder, model), precision);
  };
  const std::string cpu = "; mac_state_create steps it on the CPU";
  EXPECT_EQ(refusal(burgers_closure(LayerKind::lstm)),
            ": is of kind lstm, which does not step on a CUDA device: expected mamba or gru" + cpu);
  EXPECT_EQ(refusal(burgers_closure(LayerKind::mlp)),
            ": is of kind mlp, which does not step on a CUDA device: expected mamba or gru" + cpu);
  EXPECT_EQ(refusal(burgers_closure(LayerKind::oscillator)),
            ": is of kind oscillator, which does not step on a CUDA device: expected mamba or gru" + cpu);
  EXPECT_EQ(refusal_of_file(zoo + "burgers-mac-ensemble.safetensors", MAC_FLOAT32),
            ": is an ensemble, which does not step on a CUDA device" + cpu);
  EXPECT_EQ(refusal(stochastic_burgers_closure(LayerKind::gru)),
            ": is a stochastic closure, which does not step on a CUDA device" + cpu);
  EXPECT_EQ(refusal(burgers_closure(LayerKind::gru), MAC_FLOAT64),
            ": is opened in float64, which does not step on a CUDA device: open it with MAC_FLOAT32");
}

TEST(DeviceRuntime, SaysSoWhereThereIsNoDevice) {
  if (cuda_unavailable().empty()) GTEST_SKIP() << "there is a device";
  const ScratchFolder folder;
  Opened opened(write_closure(folder, burgers_closure(LayerKind::gru)));
  mac_device_state* state = nullptr;
  mac_error error{};
  EXPECT_EQ(mac_cuda_available(&error), MAC_DEVICE_ERROR);
  EXPECT_EQ(error.message, cuda_unavailable());
  EXPECT_EQ(mac_device_state_create(opened.model, 3, &state, &error), MAC_DEVICE_ERROR);
  EXPECT_EQ(error.message, cuda_unavailable());
  EXPECT_STREQ(mac_status_name(MAC_DEVICE_ERROR), "device error");
  mac_device_state_free(nullptr);
  EXPECT_EQ(mac_device_state_columns(nullptr), 0u);
}

}  // namespace
}  // namespace mac::test
