// The layer without memory by two products and SiLU between them (the equations are in reference.hpp).
#include "network/cuda/general/layer.hpp"
#include "network/cuda/general/rows.hpp"
#include "network/kinds/mlp/layer.hpp"

namespace mac::mlp {

namespace {

using namespace cuda;

enum Tensor { up_weight, up_bias, down_weight, down_bias };  // in the order of Layer::tensors

template <class T>
class GeneralMlp final : public GeneralLayer<T> {
 public:
  explicit GeneralMlp(const NetworkShape& shape)
      : d_(static_cast<int>(shape.d_model)), inner_(static_cast<int>(Sizes(shape).inner)) {}

  std::size_t tape_size(SequenceDims dims) const override { return 2 * of_inner(dims); }
  std::size_t scratch_size(SequenceDims dims) const override { return of_inner(dims); }

  void forward(const LayerPass<T>& pass, T* out, const T* u, BlockStates<T>) override {
    const Matrix<T> a = inner(pass, pass.tape), activated = inner(pass, pass.tape + of_inner(pass.dims));
    pass.products.forward(a, outer(pass, u), up(pass));
    bias_silu_forward(activated.data, a.data, pass.weights[up_bias], pass.rows(), inner_, pass.stream);
    pass.products.forward(outer(pass, out), activated, down(pass));
    add_bias(out, out, pass.weights[down_bias], pass.rows(), d_, pass.stream);
  }

  void backward(const LayerPass<T>& pass, T* d_u, BlockTensors<T> d_weights, BlockStates<T>, const T* d_out,
                const T* u, BlockStates<const T>) override {
    const Matrix<T> a = inner(pass, pass.tape), activated = inner(pass, pass.tape + of_inner(pass.dims));
    const Matrix<T> d_a = inner(pass, pass.scratch);
    const auto of_bias = [&](Tensor tensor, const T* d, int channels) {
      pass.sums.add_rows(d_weights[tensor], d, pass.rows(), channels, static_cast<std::size_t>(channels),
                         pass.stream);
    };
    pass.products.to_weights(pass.sums, d_weights[down_weight], outer(pass, d_out), activated);
    of_bias(down_bias, d_out, d_);
    pass.products.to_inputs(d_a, outer(pass, d_out), down(pass));
    silu_backward(d_a.data, a.data, pass.rows() * static_cast<std::size_t>(inner_), pass.stream);
    pass.products.to_weights(pass.sums, d_weights[up_weight], d_a, outer(pass, u));
    of_bias(up_bias, d_a.data, inner_);
    pass.products.to_inputs(outer(pass, d_u), d_a, up(pass));
  }

 private:
  std::size_t of_inner(SequenceDims dims) const {
    return aligned(dims.batch * dims.time * static_cast<std::size_t>(inner_));
  }
  Matrix<T> inner(const LayerPass<T>& pass, T* data) const { return {data, pass.rows(), inner_}; }
  template <class U>
  MatrixView<U> outer(const LayerPass<T>& pass, U* data) const {
    return {data, pass.rows(), d_};
  }
  ConstMatrix<T> up(const LayerPass<T>& pass) const {
    return {pass.weights[up_weight], static_cast<std::size_t>(inner_), d_};
  }
  ConstMatrix<T> down(const LayerPass<T>& pass) const {
    return {pass.weights[down_weight], static_cast<std::size_t>(d_), inner_};
  }

  int d_, inner_;
};

}  // namespace

template <class T>
std::unique_ptr<GeneralLayer<T>> make_general_layer(const NetworkShape& shape) {
  return std::make_unique<GeneralMlp<T>>(shape);
}

template std::unique_ptr<GeneralLayer<float>> make_general_layer(const NetworkShape& shape);
template std::unique_ptr<GeneralLayer<double>> make_general_layer(const NetworkShape& shape);

}  // namespace mac::mlp
