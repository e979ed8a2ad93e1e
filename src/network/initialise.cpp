// Initial parameters, as PyTorch and mamba-ssm draw them:
//   Linear, Conv1d  weight and bias uniform in ±1/sqrt(fan_in)
//   LayerNorm       weight 1, bias 0
//   Mamba           dt_proj.weight uniform in ±1/sqrt(dt_rank); softplus(dt_proj.bias) log-uniform in
//                   [1e-3, 0.1); A = -(1, 2, .., d_state) in every row; D = 1
//   GRU             everything uniform in ±1/sqrt(d_model)
// Tensor i of the layout draws from its own stream (seed, weights, i), element by element.
#include <algorithm>
#include <cmath>
#include <mac/network.hpp>
#include <mac/random.hpp>

namespace mac {

namespace {

void fill_constant(std::span<double> values, double value) { std::ranges::fill(values, value); }

void fill_uniform(std::span<double> values, std::size_t fan_in, RandomStream& random) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  for (double& value : values) value = random.uniform(-bound, bound);
}

/// The step Δ that dt_proj gives for a zero input: softplus(bias) = exp(U(ln 1e-3, ln 0.1)), at least 1e-4.
void fill_step_bias(std::span<double> values, RandomStream& random) {
  for (double& value : values) {
    const double step = std::max(std::exp(random.uniform(std::log(1e-3), std::log(0.1))), 1e-4);
    value = step + std::log(-std::expm1(-step));  // inverse of softplus
  }
}

void fill_log_decay(std::span<double> values, std::size_t d_state) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::log(static_cast<double>(i % d_state + 1));
}

void initialise(const TensorSpec& tensor, std::span<double> values, const NetworkShape& shape,
                RandomStream& random) {
  const std::string& name = tensor.name;
  if (name.ends_with("norm.weight") || name.ends_with("mamba.D")) return fill_constant(values, 1);
  if (name.ends_with("norm.bias")) return fill_constant(values, 0);
  if (name.ends_with("mamba.A_log")) return fill_log_decay(values, shape.d_state);
  if (name.ends_with("mamba.dt_proj.bias")) return fill_step_bias(values, random);
  if (name.ends_with("mamba.conv1d.weight") || name.ends_with("mamba.conv1d.bias"))
    return fill_uniform(values, NetworkShape::d_conv, random);
  if (name == "input_proj.bias") return fill_uniform(values, shape.d_in, random);
  if (tensor.shape.size() == 1) return fill_uniform(values, shape.d_model, random);  // the other biases
  fill_uniform(values, tensor.shape[1], random);
}

}  // namespace

std::vector<double> initial_parameters(const NetworkShape& shape, std::uint64_t seed) {
  const ParameterLayout layout(shape);
  std::vector<double> parameters(layout.size());
  std::uint32_t index = 0;
  for (const TensorSpec& tensor : layout.tensors()) {
    RandomStream random(seed, Purpose::weights, index++);
    initialise(tensor, std::span(parameters).subspan(tensor.offset, tensor.size), shape, random);
  }
  return parameters;
}

}  // namespace mac
