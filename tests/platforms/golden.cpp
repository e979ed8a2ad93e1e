// golden FILE...: steps of the networks in golden files (scripts/make-golden) through the C interface, in both
// precisions, against the outputs that PyTorch gave. For machines and compilers that do not run the whole test suite.
#include <mac/mac.h>

#include <cmath>
#include <cstdio>
#include <mac/safetensors.hpp>
#include <string>
#include <vector>

namespace {

/// The relative difference of all outputs, or -1 where the network cannot be opened.
double difference(const mac::Safetensors& golden, mac_precision precision) {
  const std::string prefix = "weights.";
  mac::SafetensorsWriter writer;
  for (const mac::TensorInfo& tensor : golden.tensors())
    if (tensor.name.starts_with(prefix)) {
      const std::vector<double> values = golden.numbers(tensor.name);
      writer.add(tensor.name.substr(prefix.size()), tensor.shape, std::span<const double>(values));
    }
  const std::string bytes = writer.bytes();
  mac_error error{};
  mac_model* model = nullptr;
  mac_state* state = nullptr;
  if (mac_model_open_memory(bytes.data(), bytes.size(), golden.file().c_str(), precision, &model, &error) !=
      MAC_OK) {
    std::printf("%s\n", error.message);
    return -1;
  }
  const std::vector<double> x = golden.numbers("x"), out = golden.numbers("out");  // (batch, time, ·)
  const std::size_t inputs = mac_model_inputs(model), outputs = mac_model_outputs(model);
  std::size_t batch = 0;
  for (const mac::TensorInfo& tensor : golden.tensors())
    if (tensor.name == "x") batch = tensor.shape[0];
  const std::size_t times = x.size() / (batch * inputs);
  std::vector<double> closure(out.size());
  bool fine = mac_state_create(model, batch, &state, &error) == MAC_OK;
  for (std::size_t t = 0; fine && t < times; ++t)
    fine = mac_step_strided(state, x.data() + t * inputs, 1, static_cast<std::ptrdiff_t>(times * inputs),
                            closure.data() + t * outputs, 1, static_cast<std::ptrdiff_t>(times * outputs),
                            &error) == MAC_OK;
  double squares = 0, size = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    squares += (closure[i] - out[i]) * (closure[i] - out[i]);
    size += out[i] * out[i];
  }
  mac_state_free(state);
  mac_model_close(model);
  if (!fine) std::printf("%s\n", error.message);
  return fine ? std::sqrt(squares / size) : -1;
}

}  // namespace

int main(int argc, char** argv) {
  bool passed = argc > 1;
  for (int i = 1; i < argc; ++i) {
    const mac::Safetensors golden = mac::Safetensors::read(argv[i]);
    // What a float network rounds, and a double one, as in the engines' own golden tests.
    const double single = difference(golden, MAC_FLOAT32), twice = difference(golden, MAC_FLOAT64);
    const bool good = single >= 0 && single < 2e-6 && twice >= 0 && twice < 1e-12;
    std::printf("%-45s float32 %.1e  float64 %.1e  %s\n", argv[i], single, twice, good ? "" : "FAILED");
    passed = passed && good;
  }
  return passed ? 0 : 1;
}
