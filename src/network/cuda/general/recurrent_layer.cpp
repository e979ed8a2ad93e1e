#include "network/cuda/general/recurrent_layer.hpp"

#include "network/cuda/general/rows.hpp"
#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

namespace {

enum Tensor { input_weight, hidden_weight, input_bias, hidden_bias };  // in the order of Layer::tensors

class RecurrentLayer final : public GeneralLayer {
 public:
  RecurrentLayer(int d, const RecurrenceKernels& kernels)
      : d_(d), kernels_(kernels), counts_(kernels.counts) {}

  std::size_t tape_size(SequenceDims dims) const override {
    return numbers(dims, 1) + numbers(dims, counts_.kept);
  }
  std::size_t scratch_size(SequenceDims dims) const override {
    return numbers(dims, counts_.gradients) + numbers({dims.batch, 1}, counts_.gates) +
           numbers({dims.batch, 1}, counts_.states);
  }

  void forward(const LayerPass& pass, float* out, const float* u, BlockStates<float> final_state) override {
    const Matrix from_input = rows(pass, pass.scratch, counts_.gates);
    pass.products.forward(from_input, rows(pass, u, 1), weight(pass, input_weight));
    run_forward(pass, {static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                       pass.weights[hidden_weight], pass.weights[hidden_bias], from_input.data,
                       pass.weights[input_bias], pass.initial, final_state, out, before(pass), kept(pass)});
  }

  void backward(const LayerPass& pass, float* d_u, BlockTensors<float> d_weights,
                BlockStates<float> d_initial, const float* d_out, const float* u,
                BlockStates<const float> d_final) override {
    const Matrix d_gates = rows(pass, pass.scratch, counts_.gradients);
    run_backward(pass, {static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                        pass.weights[hidden_weight], before(pass), kept(pass), d_out, d_final, d_initial,
                        d_gates.data});
    Products& products = pass.products;
    const Matrix of_input = d_gates.part(0, counts_.gates * d_);
    products.to_inputs(rows(pass, d_u, 1), of_input, weight(pass, input_weight));
    products.to_weights(d_weights[input_weight], of_input, rows(pass, u, 1));
    sum(pass, d_weights[input_bias], of_input);
    // The recurrent share of the last gate may have a gradient of its own: the last columns.
    const int others = (counts_.gates - 1) * d_, last = (counts_.gradients - 1) * d_;
    const Matrix hidden = rows(pass, before(pass), 1);
    for (const auto& [part, first] :
         {std::pair(d_gates.part(0, others), 0), std::pair(d_gates.part(last, d_), others)}) {
      products.to_weights(
          d_weights[hidden_weight] + static_cast<std::size_t>(first) * static_cast<std::size_t>(d_), part,
          hidden);
      sum(pass, d_weights[hidden_bias] + first, part);
    }
  }

 private:
  bool resident() const { return plan_resident(counts_.gates, d_, has_clusters()).blocks > 0; }

  void run_forward(const LayerPass& pass, const Recurrence& problem) {
    if (resident()) return kernels_.forward(problem, pass.stream);
    const RecurrenceStep step = this->step(pass);
    copy_states(pass, step.state, pass.initial);
    for (int t = 0; t < problem.time; ++t) {
      pass.products.forward(of_step(pass, step.product, counts_.gates), hidden_of(pass, step),
                            weight(pass, hidden_weight));
      kernels_.step_forward(problem, t, step, pass.stream);
    }
  }
  void run_backward(const LayerPass& pass, const RecurrenceBackward& problem) {
    if (resident()) return kernels_.backward(problem, pass.stream);
    const RecurrenceStep step = this->step(pass);
    copy_states(pass, step.state, problem.d_final);
    for (int t = problem.time - 1; t >= 0; --t) {
      kernels_.step_backward(problem, t, step, pass.stream);
      pass.products.to_inputs(hidden_of(pass, step), of_step(pass, step.product, counts_.gates),
                              weight(pass, hidden_weight), true);
    }
    if (problem.d_initial)
      copy_rows(problem.d_initial.data, problem.d_initial.stride, step.state, of_unit(states()), pass);
  }

  RecurrenceStep step(const LayerPass& pass) const {
    float* const product = pass.scratch + numbers(pass.dims, counts_.gradients);
    return {product, product + numbers({pass.dims.batch, 1}, counts_.gates)};
  }
  Matrix of_step(const LayerPass& pass, float* data, int numbers_of_unit) const {
    return {data, pass.dims.batch, numbers_of_unit * d_};
  }
  Matrix hidden_of(const LayerPass& pass, const RecurrenceStep& step) const {
    return of_step(pass, step.state, states()).part(0, d_);
  }
  /// Between a block's states in the network's interface and (sequence, states·d).
  void copy_rows(float* to, std::size_t to_stride, const float* from, std::size_t from_stride,
                 const LayerPass& pass) const {
    const std::size_t width = of_unit(states()) * sizeof(float);
    check(cudaMemcpy2DAsync(to, to_stride * sizeof(float), from, from_stride * sizeof(float), width,
                            pass.dims.batch, cudaMemcpyDeviceToDevice, pass.stream),
          "copying states");
  }
  void copy_states(const LayerPass& pass, float* to, BlockStates<const float> from) const {
    const std::size_t size = of_unit(states());
    if (from) return copy_rows(to, size, from.data, from.stride, pass);
    check(cudaMemsetAsync(to, 0, pass.dims.batch * size * sizeof(float), pass.stream), "clearing states");
  }

  int states() const { return counts_.states; }
  std::size_t of_unit(int count) const { return static_cast<std::size_t>(count * d_); }
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

std::unique_ptr<GeneralLayer> make_recurrent_layer(const NetworkShape& shape,
                                                   const RecurrenceKernels& kernels) {
  return std::make_unique<RecurrentLayer>(static_cast<int>(shape.d_model), kernels);
}

}  // namespace mac::cuda
