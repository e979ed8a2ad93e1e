#include "rollout/cuda/packed_network.hpp"

#include "network/cuda/device_blocks.hpp"
#include "network/kinds/gru/layer.hpp"
#include "network/kinds/mamba/decay_rate.hpp"
#include "network/kinds/mamba/layer.hpp"

namespace mac::cuda {

namespace {

/// Appends tensors to the packed array.
class Packer {
 public:
  explicit Packer(std::vector<float>& to) : to_(to) {}
  void copy(const float* from, std::size_t count) { to_.insert(to_.end(), from, from + count); }
  /// from (rows, columns) as (columns, rows).
  template <class Convert>
  void transposed(const float* from, std::size_t rows, std::size_t columns, Convert convert) {
    for (std::size_t k = 0; k < columns; ++k)
      for (std::size_t r = 0; r < rows; ++r) to_.push_back(convert(from[r * columns + k]));
  }
  void transposed(const float* from, std::size_t rows, std::size_t columns) {
    transposed(from, rows, columns, [](float value) { return value; });
  }
  void linear(const LinearParameters<const float>& from, std::size_t outputs, std::size_t inputs) {
    transposed(from.weight, outputs, inputs);
    copy(from.bias, outputs);
  }
  void norm(const NormParameters<const float>& from, std::size_t count) {
    copy(from.weight, count);
    copy(from.bias, count);
  }

 private:
  std::vector<float>& to_;
};

}  // namespace

PackedNetwork packed_network(const NetworkShape& shape) {
  if (shape.kind != LayerKind::mamba && shape.kind != LayerKind::gru) refuse_device(shape.kind);
  const auto size = [](std::size_t value) { return static_cast<int>(value); };
  const mamba::Sizes s(shape);
  return PackedNetwork({shape.kind, size(shape.d_in), size(shape.d_out), size(shape.d_model),
                        size(shape.n_blocks), size(s.d_inner), size(s.d_state), size(s.rank)});
}

std::vector<float> pack_parameters(const NetworkShape& shape, const std::vector<float>& parameters) {
  const ParameterLayout layout(shape);
  const auto view = view_parameters<const float>(shape, layout, parameters.data());
  const std::size_t d = shape.d_model;
  std::vector<float> packed;
  Packer pack(packed);
  pack.linear(view.input_proj, d, shape.d_in);
  for (const auto& block : view.blocks) {
    pack.norm(block.norm, d);
    if (packed_network(shape).mamba()) {
      const mamba::Sizes sizes(shape);
      const std::size_t inner = sizes.d_inner, states = sizes.d_state;
      const auto w = mamba::view(sizes, block.layer);
      pack.transposed(w.in_proj, 2 * inner, d);
      pack.transposed(w.conv_weight, inner, sizes.d_conv);
      pack.copy(w.conv_bias, inner);
      pack.transposed(w.x_proj, sizes.rank + 2 * states, inner);
      pack.linear(w.step, inner, sizes.rank);
      pack.transposed(w.A_log, inner, states, mamba::decay_rate<float>);
      pack.copy(w.D, inner);
      pack.transposed(w.out_proj, d, inner);
    } else {
      const auto w = gru::view(gru::Sizes(shape), block.layer);
      pack.linear(w.input, 3 * d, d);
      pack.linear(w.hidden, 3 * d, d);
    }
  }
  pack.norm(view.norm, d);
  pack.linear(view.hidden_proj, d, d);
  pack.linear(view.output_proj, shape.d_out, d);
  return packed;
}

}  // namespace mac::cuda
