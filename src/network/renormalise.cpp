#include "network/renormalise.hpp"

namespace mac {

std::vector<double> parameters_for(const Model& model, const Normalisation& other) {
  const Normalisation& own = model.normalisation;
  const ParameterLayout layout(model.shape);
  std::vector<double> parameters = model.parameters;
  const auto tensor = [&](const char* name) { return parameters.data() + layout.at(name).offset; };

  const std::size_t d_in = model.shape.core().d_in, d_out = model.shape.d_out, d = model.shape.d_model;
  double *const W = tensor("input_proj.weight"), *const b = tensor("input_proj.bias");  // (d, d_in), (d)
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < model.input_size(); ++j) {
      double& w = W[i * d_in + j];
      b[i] += w * (other.input_mean[j] - own.input_mean[j]) / own.input_scale[j];
      w *= other.input_scale[j] / own.input_scale[j];
    }
  double *const V = tensor("output_proj.2.weight"), *const c = tensor("output_proj.2.bias");  // (d_out, d)
  for (std::size_t k = 0; k < d_out; ++k) {
    const double ratio = own.output_scale[k] / other.output_scale[k];
    for (std::size_t i = 0; i < d; ++i) V[k * d + i] *= ratio;
    c[k] = c[k] * ratio + (own.output_mean[k] - other.output_mean[k]) / other.output_scale[k];
  }
  return parameters;
}

}  // namespace mac
