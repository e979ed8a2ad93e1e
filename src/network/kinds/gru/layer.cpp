#include "network/kinds/gru/layer.hpp"

#include "network/kinds/gru/cpu/step.hpp"
#include "network/kinds/gru/graph.hpp"
#include "network/kinds/layer_of.hpp"

namespace mac::gru {

namespace {

class GruLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const std::size_t d = shape.d_model;
    return {{"gru.weight_ih_l0", {3 * d, d}, uniform_for(d)},
            {"gru.weight_hh_l0", {3 * d, d}, uniform_for(d)},
            {"gru.bias_ih_l0", {3 * d}, uniform_for(d)},
            {"gru.bias_hh_l0", {3 * d}, uniform_for(d)}};
  }
  std::optional<TensorAxis> states() const override { return std::nullopt; }
  std::size_t state_size(const NetworkShape& shape) const override { return shape.d_model; }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    return 6 * shape.d_model * shape.d_model;
  }
  std::string card_text(const NetworkShape&) const override { return ""; }
  std::vector<DescriptionRow> description(const NetworkShape&) const override { return {}; }
};

}  // namespace

const Layer& layer() {
  static const GruLayer layer;
  return layer;
}

}  // namespace mac::gru
