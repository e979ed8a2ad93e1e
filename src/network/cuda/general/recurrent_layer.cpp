#include "network/cuda/general/recurrent_layer.hpp"

#include "network/cuda/general/rows.hpp"

namespace mac::cuda {

namespace {

enum Tensor { input_weight, hidden_weight, input_bias, hidden_bias };  // in the order of Layer::tensors

class RecurrentLayer final : public GeneralLayer {
 public:
  RecurrentLayer(int d, const RecurrenceKernels& kernels) : d_(d), kernels_(kernels), counts_(kernels.counts) {}

  std::size_t tape_size(SequenceDims dims) const override { return numbers(dims, 1) + numbers(dims, counts_.kept); }
  std::size_t scratch_size(SequenceDims dims) const override { return numbers(dims, counts_.gradients); }

  void forward(const LayerPass& pass, float* out, const float* u, BlockStates<float> final_state) override {
    const Matrix from_input = rows(pass, pass.scratch, counts_.gates);
    pass.products.forward(from_input, rows(pass, u, 1), weight(pass, input_weight));
    kernels_.forward({static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                      pass.weights[hidden_weight], pass.weights[hidden_bias], from_input.data,
                      pass.weights[input_bias], pass.initial, final_state, out, before(pass), kept(pass)},
                     pass.stream);
  }

  void backward(const LayerPass& pass, float* d_u, BlockTensors<float> d_weights, BlockStates<float> d_initial,
                const float* d_out, const float* u, BlockStates<const float> d_final) override {
    const Matrix d_gates = rows(pass, pass.scratch, counts_.gradients);
    kernels_.backward({static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                       pass.weights[hidden_weight], before(pass), kept(pass), d_out, d_final, d_initial, d_gates.data},
                      pass.stream);
    Products& products = pass.products;
    const Matrix of_input = d_gates.part(0, counts_.gates * d_);
    products.to_inputs(rows(pass, d_u, 1), of_input, weight(pass, input_weight));
    products.to_weights(d_weights[input_weight], of_input, rows(pass, u, 1));
    sum(pass, d_weights[input_bias], of_input);
    // The recurrent share of the last gate may have a gradient of its own: the last columns.
    const int others = (counts_.gates - 1) * d_, last = (counts_.gradients - 1) * d_;
    const Matrix hidden = rows(pass, before(pass), 1);
    for (const auto& [part, first] : {std::pair(d_gates.part(0, others), 0), std::pair(d_gates.part(last, d_), others)}) {
      products.to_weights(d_weights[hidden_weight] + static_cast<std::size_t>(first) * static_cast<std::size_t>(d_), part,
                          hidden);
      sum(pass, d_weights[hidden_bias] + first, part);
    }
  }

 private:
  std::size_t numbers(SequenceDims dims, int of_unit) const {
    return aligned(dims.batch * dims.time * static_cast<std::size_t>(of_unit * d_));
  }
  float* before(const LayerPass& pass) const { return pass.tape; }
  float* kept(const LayerPass& pass) const { return pass.tape + numbers(pass.dims, 1); }
  template <class T>
  MatrixView<T> rows(const LayerPass& pass, T* data, int of_unit) const {
    return {data, pass.rows(), of_unit * d_};
  }
  ConstMatrix weight(const LayerPass& pass, Tensor tensor) const {
    return {pass.weights[tensor], static_cast<std::size_t>(counts_.gates * d_), d_};
  }
  void sum(const LayerPass& pass, float* to, Matrix gradients) const {
    sum_rows(to, gradients.data, pass.rows(), gradients.columns, gradients.stride, pass.sums, pass.stream);
  }

  int d_;
  RecurrenceKernels kernels_;
  RecurrenceCounts counts_;
};

}  // namespace

std::unique_ptr<GeneralLayer> make_recurrent_layer(const NetworkShape& shape, const RecurrenceKernels& kernels) {
  const int d = static_cast<int>(shape.d_model);
  if (plan_resident(kernels.counts.gates, d).blocks == 0)
    throw Error("a network of kind {} with d_model {} does not fit a CUDA device (at most {}): use --device cpu",
                to_string(shape.kind), d, largest_resident(kernels.counts.gates));
  return std::make_unique<RecurrentLayer>(d, kernels);
}

}  // namespace mac::cuda
