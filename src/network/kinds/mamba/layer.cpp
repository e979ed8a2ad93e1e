#include "network/kinds/mamba/layer.hpp"

#include <algorithm>
#include <cmath>

#include "network/kinds/layer_of.hpp"
#include "network/kinds/mamba/cpu/step.hpp"
#include "network/kinds/mamba/derivative.hpp"

namespace mac::mamba {

namespace {

/// The bias b of dt_proj for which Δ = softplus(b) = exp(U(ln 1e-3, ln 0.1)), at least 1e-4.
double step_bias(std::size_t, const Uniform& uniform) {
  const double step = std::max(std::exp(uniform(std::log(1e-3), std::log(0.1))), 1e-4);
  return step + std::log(-std::expm1(-step));  // inverse of softplus
}

/// A = -(1, 2, .., d_state) in every row.
InitialValue log_decay(std::size_t d_state) {
  return [d_state](std::size_t i, const Uniform&) { return std::log(static_cast<double>(i % d_state + 1)); };
}

class MambaLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const Sizes s(shape);
    const std::size_t projected = s.rank + 2 * s.d_state;
    return {{"mamba.in_proj.weight", {2 * s.d_inner, s.d_model}, uniform_for(s.d_model)},
            {"mamba.conv1d.weight", {s.d_inner, 1, s.d_conv}, uniform_for(s.d_conv)},
            {"mamba.conv1d.bias", {s.d_inner}, uniform_for(s.d_conv)},
            {"mamba.x_proj.weight", {projected, s.d_inner}, uniform_for(s.d_inner)},
            {"mamba.dt_proj.weight", {s.d_inner, s.rank}, uniform_for(s.rank)},
            {"mamba.dt_proj.bias", {s.d_inner}, step_bias},
            {"mamba.A_log", {s.d_inner, s.d_state}, log_decay(s.d_state)},
            {"mamba.D", {s.d_inner}, constant(1)},
            {"mamba.out_proj.weight", {s.d_model, s.d_inner}, uniform_for(s.d_inner)}};
  }
  std::optional<TensorAxis> states() const override { return TensorAxis{"mamba.A_log", 2, 1}; }
  std::size_t state_size(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return (s.d_conv - 1 + s.d_state) * s.d_inner;
  }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    const Sizes s(shape);
    const std::size_t in_and_out = 3 * s.d_inner * s.d_model, projected = s.rank + 2 * s.d_state;
    return in_and_out + s.d_inner * (s.d_conv + projected + s.rank);
  }
  std::string card_text(const NetworkShape& shape) const override {
    return fmt::format(", {} states a channel", shape.d_state);
  }
  std::vector<DescriptionRow> description(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return {{"state space", fmt::format("{} states, {} inner channels, convolution over {}", s.d_state,
                                        s.d_inner, std::size_t{s.d_conv})}};
  }
};

}  // namespace

const Layer& layer() {
  static const MambaLayer layer;
  return layer;
}

}  // namespace mac::mamba
