// A selective layer of any size: products by cuBLAS, and between them the kernels of general.hpp.
#include "network/selective/cuda/general_layer.hpp"

namespace mac::selective {

namespace {

using namespace cuda;

// In the order of Layer::tensors, up to the last of the kind's rates; skip_weight and out_proj come behind them.
enum Tensor : std::size_t {
  in_proj,
  conv_weight,
  conv_bias,
  x_proj,
  step_weight,
  step_bias,
  A_log,
  omega_log
};

template <class T>
class GeneralSelective final : public GeneralLayer<T> {
 public:
  GeneralSelective(const Sizes& sizes, const GeneralScan<T>& kernels, std::size_t rate_tensors)
      : d_(static_cast<int>(sizes.d_model)),
        sizes_{static_cast<int>(sizes.d_inner), static_cast<int>(sizes.d_state),
               static_cast<int>(sizes.rank)},
        shape_(scan_shape<T>(sizes_)),
        kernels_(kernels),
        rate_tensors_(rate_tensors),
        skip_weight(A_log + rate_tensors),
        out_proj(skip_weight + 1) {}

  std::size_t tape_size(SequenceDims dims) const override {
    Parts<T> counted(nullptr);
    kept(counted, dims);
    return counted.taken();
  }
  std::size_t scratch_size(SequenceDims dims) const override {
    Parts<T> counted(nullptr);
    scratch(counted, dims);
    return counted.taken();
  }

  void forward(const LayerPass<T>& pass, T* out, const T* u, BlockStates<T> final_state) override {
    Parts<T> tape(pass.tape);
    const Kept kept = this->kept(tape, pass.dims);
    const Views of{pass};
    pass.products.forward(of.rows(kept.xz, 2 * inner()), of.rows(u, d_), of.weight(in_proj, 2 * inner(), d_));
    const bool by_steps = pass.dims.time == 1 || final_state.step > 0;
    (by_steps ? convolution_steps_forward<T> : convolution_forward<T>)(convolution(pass, kept), kept.v,
                                                                       final_state, pass.stream);
    pass.products.forward(of.rows(kept.projected, projected()), of.rows(kept.v, inner()),
                          of.weight(x_proj, projected(), inner()));
    Parts<T> parts(pass.scratch);
    const Scratch borders = scratch(parts, pass.dims);
    (by_steps ? kernels_.steps_forward : kernels_.forward)(scan(pass, kept, borders), kept.gated,
                                                           final_state.skip(window_size()), pass.stream);
    pass.products.forward(of.rows(out, d_), of.rows(kept.gated, inner()), of.weight(out_proj, d_, inner()));
  }

  void backward(const LayerPass<T>& pass, T* d_u, BlockTensors<T> d_weights, BlockStates<T> d_initial,
                const T* d_out, const T* u, BlockStates<const T> d_final) override {
    Parts<T> tape(pass.tape), parts(pass.scratch);
    const Kept kept = this->kept(tape, pass.dims);
    const Scratch d = scratch(parts, pass.dims);
    const Views of{pass};
    Products<T>& products = pass.products;

    products.to_weights(pass.sums, d_weights[out_proj], of.rows(d_out, d_), of.rows(kept.gated, inner()));
    products.to_inputs(of.rows(d.gated, inner()), of.rows(d_out, d_), of.weight(out_proj, d_, inner()));

    const bool by_steps = pass.dims.time == 1 || pass.after;
    const Sums sums = add_sums(pass, d_weights, by_steps);

    // What the scan gives for dt_proj takes the place of d_gated, number by number.
    T* const d_step = d.gated;
    (by_steps ? kernels_.steps_backward : kernels_.backward)(
        scan(pass, kept, d),
        {d.gated, d.xz + inner(), d.v, d_step, d.BC, sums.of_scan, d_final.skip(window_size()),
         d_initial.skip(window_size())},
        pass.stream);

    const ConstMatrix<T> dt =
        of.rows(static_cast<const T*>(kept.projected), projected()).part(0, sizes_.rank);
    const Matrix<T> d_projected = of.rows(d.projected, projected());
    products.to_weights(pass.sums, d_weights[step_weight], of.rows(d_step, inner()), dt);
    products.to_inputs(d_projected.part(0, sizes_.rank), of.rows(d_step, inner()),
                       of.weight(step_weight, inner(), sizes_.rank));
    sum_BC(d.projected + sizes_.rank, d_projected.stride, d.BC, channel_blocks(by_steps), pass.rows(),
           sizes_.states, pass.stream);
    products.to_weights(pass.sums, d_weights[x_proj], d_projected, of.rows(kept.v, inner()));
    products.to_inputs(of.rows(d.v, inner()), d_projected, of.weight(x_proj, projected(), inner()), true);

    (by_steps ? convolution_steps_backward<T>
              : convolution_backward<T>)(convolution(pass, kept),
                                         {d.v, d.xz, d_final, d_initial, sums.of_convolution}, pass.stream);
    products.to_weights(pass.sums, d_weights[in_proj], of.rows(d.xz, 2 * inner()), of.rows(u, d_));
    products.to_inputs(of.rows(d_u, d_), of.rows(d.xz, 2 * inner()), of.weight(in_proj, 2 * inner(), d_));
  }

 private:
  /// Matrices of a pass.
  struct Views {
    const LayerPass<T>& pass;

    template <class U>
    MatrixView<U> rows(U* data, int channels) const {
      return {data, pass.rows(), channels};
    }
    ConstMatrix<T> weight(std::size_t tensor, int outputs, int inputs) const {
      return {pass.weights[tensor], static_cast<std::size_t>(outputs), inputs};
    }
  };

  /// What a forward pass leaves.
  struct Kept {
    T *xz, *v, *projected, *gated, *checkpoints;
  };
  Kept kept(Parts<T>& memory, SequenceDims dims) const {
    const std::size_t rows = dims.batch * dims.time, inner = static_cast<std::size_t>(sizes_.inner);
    const std::size_t chunks =  // single steps begin with the states before them
        dims.time == 1 ? 0 : dims.batch * ((dims.time + scan_chunk - 1) / scan_chunk);
    return {memory.take(rows * 2 * inner), memory.take(rows * inner),
            memory.take(rows * static_cast<std::size_t>(projected())), memory.take(rows * inner),
            memory.take(chunks * inner * static_cast<std::size_t>(shape_.padded_states))};
  }

  struct Scratch {
    T *borders, *step_sums;              // of segments; a forward pass takes these alone
    T *gated, *xz, *v, *projected, *BC;  // gradients
  };
  Scratch scratch(Parts<T>& memory, SequenceDims dims) const {
    const std::size_t rows = dims.batch * dims.time, inner = static_cast<std::size_t>(sizes_.inner),
                      states = static_cast<std::size_t>(sizes_.states);
    Scratch of{};
    if (const std::size_t all = dims.batch * segments(dims); all > dims.batch) {
      of.borders = memory.take(all * inner * static_cast<std::size_t>(shape_.padded_states));
      of.step_sums = memory.take(all * inner);
    }
    of.gated = memory.take(rows * inner), of.xz = memory.take(rows * 2 * inner),
    of.v = memory.take(rows * inner);
    of.projected = memory.take(rows * static_cast<std::size_t>(projected()));
    const int blocks = channel_blocks(dims.time == 1);  // no fewer than those of several steps one by one
    of.BC = memory.take(static_cast<std::size_t>(blocks) * rows * 2 * states);
    return of;
  }

  Convolution<T> convolution(const LayerPass<T>& pass, const Kept& kept) const {
    return {static_cast<int>(pass.dims.batch), static_cast<int>(pass.dims.time), inner(),     kept.xz,
            pass.weights[conv_weight],         pass.weights[conv_bias],          pass.initial};
  }
  Scan<T> scan(const LayerPass<T>& pass, const Kept& kept, const Scratch& scratch) const {
    return {sizes_,
            static_cast<int>(pass.dims.batch),
            static_cast<int>(pass.dims.time),
            scan_segments<T>(sizes_, pass.dims.batch, pass.dims.time),
            kept.v,
            kept.xz + inner(),
            kept.projected,
            pass.weights[step_weight],
            pass.weights[step_bias],
            pass.weights[A_log],
            rate_tensors_ > 1 ? pass.weights[omega_log] : nullptr,
            pass.weights[skip_weight],
            pass.initial.skip(window_size()),
            pass.after.skip(window_size()),
            kept.checkpoints,
            scratch.borders,
            scratch.step_sums};
  }

  /// Where a backward pass leaves its parts of the gradients of weights: the scan, and the convolution.
  struct Sums {
    T *of_scan, *of_convolution;
  };
  Sums add_sums(const LayerPass<T>& pass, BlockTensors<T> d_weights, bool by_steps) const {
    const SequenceDims dims = pass.dims;
    const std::size_t channels = static_cast<std::size_t>(inner()),
                      of_A = channels * static_cast<std::size_t>(sizes_.states),
                      of_rate = of_A / rate_tensors_, scan_stride = of_A + 2 * channels,
                      convolution_stride = 5 * channels;
    const std::size_t steps = step_parts(dims.batch);
    const std::size_t scans = by_steps ? steps : dims.batch * segments(dims);
    const std::size_t convolutions = by_steps ? steps : convolution_parts(dims.batch, dims.time);
    T* const of_scan = pass.sums.take(scans * scan_stride);
    T* const of_convolution = pass.sums.take(convolutions * convolution_stride);
    const auto of_scans = [&](std::size_t tensor, std::size_t at, std::size_t count) {
      pass.sums.add({d_weights[tensor], of_scan + at, scans, scan_stride, count});
    };
    for (std::size_t i = 0; i < rate_tensors_; ++i) of_scans(A_log + i, i * of_rate, of_rate);
    of_scans(skip_weight, of_A, channels);
    of_scans(step_bias, of_A + channels, channels);
    const auto of_convolutions = [&](std::size_t tensor, std::size_t at, std::size_t count) {
      pass.sums.add({d_weights[tensor], of_convolution + at, convolutions, convolution_stride, count});
    };
    of_convolutions(conv_weight, 0, 4 * channels);
    of_convolutions(conv_bias, 4 * channels, channels);
    return {of_scan, of_convolution};
  }

  std::size_t segments(SequenceDims dims) const {
    return static_cast<std::size_t>(scan_segments<T>(sizes_, dims.batch, dims.time).count);
  }
  int channel_blocks(bool by_steps) const {  // of d_BC
    return by_steps ? step_channel_blocks<T>(sizes_)
                    : (inner() + shape_.block_channels - 1) / shape_.block_channels;
  }
  int inner() const { return sizes_.inner; }
  int projected() const { return sizes_.projected(); }
  /// Numbers of the convolution's share of the state.
  std::size_t window_size() const { return 3 * static_cast<std::size_t>(inner()); }

  int d_;
  ScanSizes sizes_;
  ScanShape shape_;
  GeneralScan<T> kernels_;
  std::size_t rate_tensors_, skip_weight, out_proj;
};

}  // namespace

template <class T>
std::unique_ptr<GeneralLayer<T>> make_general_layer(const NetworkShape& shape, const Sizes& sizes,
                                                    const GeneralScan<T>& kernels, std::size_t rate_tensors) {
  const std::size_t of_state = sizes.d_state / shape.d_state;
  if (sizes.d_state > most_states)
    throw Error(
        "a network of kind {} with d_state {} does not fit a CUDA device (at most {}): use --device cpu",
        to_string(shape.kind), shape.d_state, most_states / of_state);
  return std::make_unique<GeneralSelective<T>>(sizes, kernels, rate_tensors);
}

#define MAC_SCALAR(T)                                                                             \
  template std::unique_ptr<GeneralLayer<T>> make_general_layer(const NetworkShape&, const Sizes&, \
                                                               const GeneralScan<T>&, std::size_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::selective
