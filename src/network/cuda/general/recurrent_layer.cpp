#include "network/cuda/general/recurrent_layer.hpp"

#include "network/cuda/launch_plan.hpp"

namespace mac::cuda {

namespace {

enum Tensor { input_weight, hidden_weight, input_bias, hidden_bias };  // in the order of Layer::tensors

template <class T>
class RecurrentLayer final : public GeneralLayer<T> {
 public:
  RecurrentLayer(int d, const RecurrenceKernels<T>& kernels)
      : d_(d), kernels_(kernels), counts_(kernels.counts) {}

  std::size_t tape_size(SequenceDims dims) const override {
    return numbers(dims, 1) + numbers(dims, counts_.kept);
  }
  std::size_t scratch_size(SequenceDims dims) const override {
    return numbers(dims, counts_.gradients) + numbers({dims.batch, 1}, counts_.gates) +
           numbers({dims.batch, 1}, counts_.states);
  }

  void forward(const LayerPass<T>& pass, T* out, const T* u, BlockStates<T> final_state) override {
    const Matrix<T> from_input = rows(pass, pass.scratch, counts_.gates);
    pass.products.forward(from_input, rows(pass, u, 1), weight(pass, input_weight));
    run_forward(pass, {static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                       pass.weights[hidden_weight], pass.weights[hidden_bias], from_input.data,
                       pass.weights[input_bias], pass.initial, final_state, out, before(pass), kept(pass)});
  }

  void backward(const LayerPass<T>& pass, T* d_u, BlockTensors<T> d_weights, BlockStates<T> d_initial,
                const T* d_out, const T* u, BlockStates<const T> d_final) override {
    const Matrix<T> d_gates = rows(pass, pass.scratch, counts_.gradients);
    run_backward(pass, {static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), d_,
                        pass.weights[hidden_weight], before(pass), kept(pass), d_out, d_final, d_initial,
                        d_gates.data});
    Products<T>& products = pass.products;
    const Matrix<T> of_input = d_gates.part(0, counts_.gates * d_);
    products.to_inputs(rows(pass, d_u, 1), of_input, weight(pass, input_weight));
    products.to_weights(pass.sums, d_weights[input_weight], of_input, rows(pass, u, 1));
    sum(pass, d_weights[input_bias], of_input);
    // The recurrent share of the last gate may have a gradient of its own: the last columns.
    const int others = (counts_.gates - 1) * d_, last = (counts_.gradients - 1) * d_;
    const Matrix<T> hidden = rows(pass, before(pass), 1);
    for (const auto& [part, first] :
         {std::pair(d_gates.part(0, others), 0), std::pair(d_gates.part(last, d_), others)}) {
      products.to_weights(
          pass.sums,
          d_weights[hidden_weight] + static_cast<std::size_t>(first) * static_cast<std::size_t>(d_), part,
          hidden);
      sum(pass, d_weights[hidden_bias] + first, part);
    }
  }

 private:
  /// Single steps of many sequences are products of all of them.
  bool resident(const LayerPass<T>& pass) const {
    return pass.dims.time > 1 && plan_resident<T>(counts_.gates, d_, has_clusters()).blocks > 0;
  }

  void run_forward(const LayerPass<T>& pass, const Recurrence<T>& problem) {
    if (resident(pass)) return kernels_.forward(problem, pass.stream);
    const RecurrenceStep<T> step = this->step(pass);
    copy_states(pass, step.state, pass.initial);
    for (int t = 0; t < problem.time; ++t) {
      pass.products.forward(of_step(pass, step.product, counts_.gates), hidden_of(pass, step),
                            weight(pass, hidden_weight));
      kernels_.step_forward(problem, t, step, pass.stream);
    }
  }
  void run_backward(const LayerPass<T>& pass, const RecurrenceBackward<T>& problem) {
    if (resident(pass)) return kernels_.backward(problem, pass.stream);
    const RecurrenceStep<T> step = this->step(pass);
    copy_states(pass, step.state, {});  // d_final comes in with the last step
    for (int t = problem.time - 1; t >= 0; --t) {
      kernels_.step_backward(problem, t, step, pass.stream);
      pass.products.to_inputs(hidden_of(pass, step), of_step(pass, step.product, counts_.gates),
                              weight(pass, hidden_weight), true);
    }
    if (problem.d_initial)
      copy_rows(problem.d_initial.data, problem.d_initial.stride, step.state, of_unit(states()), pass);
  }

  RecurrenceStep<T> step(const LayerPass<T>& pass) const {
    T* const product = pass.scratch + numbers(pass.dims, counts_.gradients);
    return {product, product + numbers({pass.dims.batch, 1}, counts_.gates)};
  }
  Matrix<T> of_step(const LayerPass<T>& pass, T* data, int numbers_of_unit) const {
    return {data, pass.dims.batch, numbers_of_unit * d_};
  }
  Matrix<T> hidden_of(const LayerPass<T>& pass, const RecurrenceStep<T>& step) const {
    return of_step(pass, step.state, states()).part(0, d_);
  }
  /// Between a block's states in the network's interface and (sequence, states·d).
  void copy_rows(T* to, std::size_t to_stride, const T* from, std::size_t from_stride,
                 const LayerPass<T>& pass) const {
    const std::size_t width = of_unit(states()) * sizeof(T);
    check(cudaMemcpy2DAsync(to, to_stride * sizeof(T), from, from_stride * sizeof(T), width, pass.dims.batch,
                            cudaMemcpyDeviceToDevice, pass.stream),
          "copying states");
  }
  void copy_states(const LayerPass<T>& pass, T* to, BlockStates<const T> from) const {
    const std::size_t size = of_unit(states());
    if (from) return copy_rows(to, size, from.data, from.stride, pass);
    check(cudaMemsetAsync(to, 0, pass.dims.batch * size * sizeof(T), pass.stream), "clearing states");
  }

  int states() const { return counts_.states; }
  std::size_t of_unit(int count) const { return static_cast<std::size_t>(count * d_); }
  std::size_t numbers(SequenceDims dims, int of_unit) const {
    return aligned(dims.batch * dims.time * static_cast<std::size_t>(of_unit * d_));
  }
  T* before(const LayerPass<T>& pass) const { return pass.tape; }
  T* kept(const LayerPass<T>& pass) const { return pass.tape + numbers(pass.dims, 1); }
  template <class U>
  MatrixView<U> rows(const LayerPass<T>& pass, U* data, int of_unit) const {
    return {data, pass.rows(), of_unit * d_};
  }
  ConstMatrix<T> weight(const LayerPass<T>& pass, Tensor tensor) const {
    return {pass.weights[tensor], static_cast<std::size_t>(counts_.gates * d_), d_};
  }
  void sum(const LayerPass<T>& pass, T* to, Matrix<T> gradients) const {
    pass.sums.add_rows(to, gradients.data, pass.rows(), gradients.columns, gradients.stride, pass.stream);
  }

  int d_;
  RecurrenceKernels<T> kernels_;
  RecurrenceCounts counts_;
};

}  // namespace

template <class T>
std::unique_ptr<GeneralLayer<T>> make_recurrent_layer(const NetworkShape& shape,
                                                      const RecurrenceKernels<T>& kernels) {
  return std::make_unique<RecurrentLayer<T>>(static_cast<int>(shape.d_model), kernels);
}

template std::unique_ptr<GeneralLayer<float>> make_recurrent_layer(const NetworkShape& shape,
                                                                   const RecurrenceKernels<float>& kernels);
template std::unique_ptr<GeneralLayer<double>> make_recurrent_layer(const NetworkShape& shape,
                                                                    const RecurrenceKernels<double>& kernels);

}  // namespace mac::cuda
