#include "network/kinds/oscillator/layer.hpp"

#include <cmath>
#include <numbers>

#include "network/kinds/layer_of.hpp"
#include "network/kinds/oscillator/cpu/step.hpp"
#include "network/kinds/oscillator/derivative.hpp"

namespace mac::oscillator {

namespace {

/// a = (1, 3, 5, ..) in every row: half as many rates over the range of Mamba's.
InitialValue log_decay(std::size_t pairs) {
  return
      [pairs](std::size_t i, const Uniform&) { return std::log(static_cast<double>(2 * (i % pairs) + 1)); };
}

/// ω = (1, 2, 3, ..)·π/10: slow against the decay.
InitialValue log_turning(std::size_t pairs) {
  return [pairs](std::size_t i, const Uniform&) {
    return std::log(std::numbers::pi / 10 * static_cast<double>(i % pairs + 1));
  };
}

class OscillatorLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const Sizes s(shape);
    const std::vector<std::size_t> rates{s.d_inner, s.pairs};
    return selective::tensors(
        "oscillator", s, {{"A_log", rates, log_decay(s.pairs)}, {"omega_log", rates, log_turning(s.pairs)}});
  }
  std::optional<TensorAxis> states() const override { return TensorAxis{"oscillator.A_log", 2, 1}; }
  std::size_t state_size(const NetworkShape& shape) const override {
    return selective::state_size(Sizes(shape));
  }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    return selective::multiply_adds(Sizes(shape));
  }
  std::string card_text(const NetworkShape& shape) const override {
    return fmt::format(", {} oscillators a channel", shape.d_state);
  }
  std::vector<DescriptionRow> description(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return {{"state space", fmt::format("{} oscillators, {} inner channels, convolution over {}", s.pairs,
                                        s.d_inner, std::size_t{s.d_conv})}};
  }
};

}  // namespace

const Layer& layer() {
  static const OscillatorLayer layer;
  return layer;
}

}  // namespace mac::oscillator
