#include "network/selective/layer.hpp"

#include <algorithm>
#include <cmath>

namespace mac::selective {

namespace {

/// The bias b of dt_proj for which Δ = softplus(b) = exp(U(ln 1e-3, ln 0.1)), at least 1e-4.
double step_bias(std::size_t, const Uniform& uniform) {
  const double step = std::max(std::exp(uniform(std::log(1e-3), std::log(0.1))), 1e-4);
  return step + std::log(-std::expm1(-step));  // inverse of softplus
}

}  // namespace

std::vector<LayerTensor> tensors(const std::string& kind, const Sizes& s, std::vector<LayerTensor> rates) {
  const std::size_t projected = s.rank + 2 * s.d_state;
  std::vector<LayerTensor> all{{"in_proj.weight", {2 * s.d_inner, s.d_model}, uniform_for(s.d_model)},
                               {"conv1d.weight", {s.d_inner, 1, s.d_conv}, uniform_for(s.d_conv)},
                               {"conv1d.bias", {s.d_inner}, uniform_for(s.d_conv)},
                               {"x_proj.weight", {projected, s.d_inner}, uniform_for(s.d_inner)},
                               {"dt_proj.weight", {s.d_inner, s.rank}, uniform_for(s.rank)},
                               {"dt_proj.bias", {s.d_inner}, step_bias}};
  for (LayerTensor& tensor : rates) all.push_back(std::move(tensor));
  all.push_back({"D", {s.d_inner}, constant(1)});
  all.push_back({"out_proj.weight", {s.d_model, s.d_inner}, uniform_for(s.d_inner)});
  for (LayerTensor& tensor : all) tensor.name = kind + "." + tensor.name;
  return all;
}

}  // namespace mac::selective
