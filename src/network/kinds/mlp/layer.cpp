#include "network/kinds/mlp/layer.hpp"

#include "network/kinds/layer_of.hpp"
#include "network/kinds/mlp/cpu/step.hpp"
#include "network/kinds/mlp/graph.hpp"

namespace mac::mlp {

namespace {

class MlpLayer final : public LayerOf<Sizes, Packed> {
 public:
  std::vector<LayerTensor> tensors(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return {{"mlp.0.weight", {s.inner, s.d}, uniform_for(s.d)},
            {"mlp.0.bias", {s.inner}, uniform_for(s.d)},
            {"mlp.2.weight", {s.d, s.inner}, uniform_for(s.inner)},
            {"mlp.2.bias", {s.d}, uniform_for(s.inner)}};
  }
  std::optional<TensorAxis> states() const override { return std::nullopt; }
  std::size_t state_size(const NetworkShape&) const override { return 0; }
  std::size_t multiply_adds(const NetworkShape& shape) const override {
    const Sizes s(shape);
    return 2 * s.inner * s.d;
  }
  std::string card_text(const NetworkShape&) const override { return ", no memory"; }
  std::vector<DescriptionRow> description(const NetworkShape& shape) const override {
    return {{"hidden channels", fmt::format("{}", Sizes(shape).inner)}};
  }
};

}  // namespace

const Layer& layer() {
  static const MlpLayer layer;
  return layer;
}

}  // namespace mac::mlp
