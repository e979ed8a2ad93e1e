#include "network/kinds/lstm/layer.hpp"

#include "network/kinds/layer_of.hpp"
#include "network/kinds/lstm/cpu/step.hpp"
#include "network/kinds/lstm/graph.hpp"

namespace mac::lstm {

namespace {

class LstmLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const std::size_t d = shape.d_model;
    return {{"lstm.weight_ih_l0", {4 * d, d}, uniform_for(d)},
            {"lstm.weight_hh_l0", {4 * d, d}, uniform_for(d)},
            {"lstm.bias_ih_l0", {4 * d}, uniform_for(d)},
            {"lstm.bias_hh_l0", {4 * d}, uniform_for(d)}};
  }
  std::optional<TensorAxis> states() const override { return std::nullopt; }
  std::size_t state_size(const NetworkShape& shape) const override { return 2 * shape.d_model; }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    return 8 * shape.d_model * shape.d_model;
  }
  std::string card_text(const NetworkShape&) const override { return ""; }
  std::vector<DescriptionRow> description(const NetworkShape&) const override { return {}; }
};

}  // namespace

const Layer& layer() {
  static const LstmLayer layer;
  return layer;
}

}  // namespace mac::lstm
