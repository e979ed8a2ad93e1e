// The layer without memory by two products and SiLU between them (the equations are in reference.hpp).
#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/rows.hpp"
#include "network/kinds/mlp/layer.hpp"

namespace mac::mlp {

namespace {

using namespace cuda;

enum Tensor { up_weight, up_bias, down_weight, down_bias };  // in the order of Layer::tensors

class GeneralMlp final : public GeneralLayer {
 public:
  explicit GeneralMlp(const NetworkShape& shape)
      : d_(static_cast<int>(shape.d_model)), inner_(static_cast<int>(Sizes(shape).inner)) {}

  std::size_t tape_size(SequenceDims dims) const override { return 2 * of_inner(dims); }
  std::size_t scratch_size(SequenceDims dims) const override { return of_inner(dims); }

  void forward(const LayerPass& pass, float* out, const float* u, BlockStates<float>) override {
    const Matrix a = inner(pass, pass.tape), activated = inner(pass, pass.tape + of_inner(pass.dims));
    pass.products.forward(a, outer(pass, u), up(pass));
    bias_silu_forward(activated.data, a.data, pass.weights[up_bias], pass.rows(), inner_, pass.stream);
    pass.products.forward(outer(pass, out), activated, down(pass));
    add_bias(out, out, pass.weights[down_bias], pass.rows(), d_, pass.stream);
  }

  void backward(const LayerPass& pass, float* d_u, BlockTensors<float> d_weights, BlockStates<float>,
                const float* d_out, const float* u, BlockStates<const float>) override {
    const Matrix a = inner(pass, pass.tape), activated = inner(pass, pass.tape + of_inner(pass.dims));
    const Matrix d_a = inner(pass, pass.scratch);
    const auto of_bias = [&](Tensor tensor, const float* d, int channels) {
      sum_rows(d_weights[tensor], d, pass.rows(), channels, static_cast<std::size_t>(channels), pass.sums,
               pass.stream);
    };
    pass.products.to_weights(d_weights[down_weight], outer(pass, d_out), activated);
    of_bias(down_bias, d_out, d_);
    pass.products.to_inputs(d_a, outer(pass, d_out), down(pass));
    silu_backward(d_a.data, a.data, pass.rows() * static_cast<std::size_t>(inner_), pass.stream);
    pass.products.to_weights(d_weights[up_weight], d_a, outer(pass, u));
    of_bias(up_bias, d_a.data, inner_);
    pass.products.to_inputs(outer(pass, d_u), d_a, up(pass));
  }

 private:
  std::size_t of_inner(SequenceDims dims) const {
    return aligned(dims.batch * dims.time * static_cast<std::size_t>(inner_));
  }
  Matrix inner(const LayerPass& pass, float* data) const { return {data, pass.rows(), inner_}; }
  template <class T>
  MatrixView<T> outer(const LayerPass& pass, T* data) const {
    return {data, pass.rows(), d_};
  }
  ConstMatrix up(const LayerPass& pass) const {
    return {pass.weights[up_weight], static_cast<std::size_t>(inner_), d_};
  }
  ConstMatrix down(const LayerPass& pass) const {
    return {pass.weights[down_weight], static_cast<std::size_t>(d_), inner_};
  }

  int d_, inner_;
};

}  // namespace

std::unique_ptr<GeneralLayer> make_general_layer(const NetworkShape& shape) {
  return std::make_unique<GeneralMlp>(shape);
}

}  // namespace mac::mlp
