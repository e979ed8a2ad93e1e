// Initial parameters, as PyTorch and mamba-ssm draw them. Tensor i of the layout draws from its own stream
// (seed, weights, i), element by element.
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <mac/random.hpp>

#include "network/kinds/layer.hpp"

namespace mac {

std::vector<double> initial_parameters(const NetworkShape& shape, std::uint64_t seed) {
  if (shape.members > 1) throw Error("the members of an ensemble are initialised one by one");
  const ParameterLayout layout(shape);
  const std::vector<LayerTensor> tensors = network_tensors(shape);
  std::vector<double> parameters;
  parameters.reserve(layout.size());
  for (std::uint32_t index = 0; index < tensors.size(); ++index) {
    RandomStream random(seed, Purpose::weights, index);
    const Uniform uniform = [&](double low, double high) { return random.uniform(low, high); };
    for (std::size_t i = 0; i < layout.tensors()[index].size; ++i)
      parameters.push_back(tensors[index].initial(i, uniform));
  }
  return parameters;
}

}  // namespace mac
