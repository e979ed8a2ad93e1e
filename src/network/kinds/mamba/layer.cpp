#include "network/kinds/mamba/layer.hpp"

#include <cmath>

#include "network/kinds/layer_of.hpp"
#include "network/kinds/mamba/cpu/step.hpp"
#include "network/kinds/mamba/derivative.hpp"

namespace mac::mamba {

namespace {

/// A = -(1, 2, .., d_state) in every row.
InitialValue log_decay(std::size_t d_state) {
  return [d_state](std::size_t i, const Uniform&) { return std::log(static_cast<double>(i % d_state + 1)); };
}

class MambaLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return selective::tensors("mamba", s, {{"A_log", {s.d_inner, s.d_state}, log_decay(s.d_state)}});
  }
  std::optional<TensorAxis> states() const override { return TensorAxis{"mamba.A_log", 2, 1}; }
  std::size_t state_size(const NetworkShape& shape) const override {
    return selective::state_size(Sizes(shape));
  }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    return selective::multiply_adds(Sizes(shape));
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
