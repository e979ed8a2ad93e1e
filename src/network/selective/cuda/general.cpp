// A selective layer of any size: products by cuBLAS, and between them the kernels of general.hpp.
#include "network/cuda/general/rows.hpp"
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

    products.to_weights(d_weights[out_proj], of.rows(d_out, d_), of.rows(kept.gated, inner()));
    products.to_inputs(of.rows(d.gated, inner()), of.rows(d_out, d_), of.weight(out_proj, d_, inner()));

    const bool by_steps = pass.dims.time == 1 || pass.after;
    const Sums sums = sums_of(pass.dims, by_steps);

    // What the scan gives for dt_proj takes the place of d_gated, number by number.
    T* const d_step = d.gated;
    (by_steps ? kernels_.steps_backward : kernels_.backward)(
        scan(pass, kept, d),
        {d.gated, d.xz + inner(), d.v, d_step, d.BC, d.scan_parts, d_final.skip(window_size()),
         d_initial.skip(window_size())},
        pass.stream);
    sum_scan_parts(pass, d_weights, d.scan_parts, sums.scan_parts);

    const ConstMatrix<T> dt =
        of.rows(static_cast<const T*>(kept.projected), projected()).part(0, sizes_.rank);
    const Matrix<T> d_projected = of.rows(d.projected, projected());
    products.to_weights(d_weights[step_weight], of.rows(d_step, inner()), dt);
    products.to_inputs(d_projected.part(0, sizes_.rank), of.rows(d_step, inner()),
                       of.weight(step_weight, inner(), sizes_.rank));
    sum_BC(d.projected + sizes_.rank, d_projected.stride, d.BC, sums.channel_blocks, pass.rows(),
           sizes_.states, pass.stream);
    products.to_weights(d_weights[x_proj], d_projected, of.rows(kept.v, inner()));
    products.to_inputs(of.rows(d.v, inner()), d_projected, of.weight(x_proj, projected(), inner()), true);

    (by_steps ? convolution_steps_backward<T>
              : convolution_backward<T>)(convolution(pass, kept),
                                         {d.v, d.xz, d_final, d_initial, d.convolution_parts}, pass.stream);
    sum_convolution_parts(pass, d_weights, d.convolution_parts, sums.convolution_parts);
    products.to_weights(d_weights[in_proj], of.rows(d.xz, 2 * inner()), of.rows(u, d_));
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

  /// Partial sums that a backward pass leaves.
  struct Sums {
    std::size_t scan_parts, convolution_parts;
    int channel_blocks;
  };
  Sums sums_of(SequenceDims dims, bool by_steps) const {
    if (by_steps) return {step_parts(dims.batch), step_parts(dims.batch), step_channel_blocks(sizes_)};
    return {dims.batch * static_cast<std::size_t>(scan_segments<T>(sizes_, dims.batch, dims.time).count),
            convolution_parts(dims.batch, dims.time),
            (inner() + shape_.block_channels - 1) / shape_.block_channels};
  }

  struct Scratch {
    T *borders, *step_sums;  // of segments; a forward pass takes these alone
    T *gated, *xz, *v, *projected, *BC, *scan_parts, *convolution_parts;  // gradients
  };
  Scratch scratch(Parts<T>& memory, SequenceDims dims) const {
    const std::size_t rows = dims.batch * dims.time, inner = static_cast<std::size_t>(sizes_.inner),
                      states = static_cast<std::size_t>(sizes_.states);
    const int segments = scan_segments<T>(sizes_, dims.batch, dims.time).count;
    const std::size_t all_segments = dims.batch * static_cast<std::size_t>(segments);
    Scratch of{};
    if (segments > 1) {
      of.borders = memory.take(all_segments * inner * static_cast<std::size_t>(shape_.padded_states));
      of.step_sums = memory.take(all_segments * inner);
    }
    of.gated = memory.take(rows * inner), of.xz = memory.take(rows * 2 * inner),
    of.v = memory.take(rows * inner);
    of.projected = memory.take(rows * static_cast<std::size_t>(projected()));
    const Sums sums = sums_of(dims, dims.time == 1);  // no fewer than those of several steps one by one
    of.BC = memory.take(static_cast<std::size_t>(sums.channel_blocks) * rows * 2 * states);
    of.scan_parts = memory.take(sums.scan_parts * inner * (states + 2));
    of.convolution_parts = memory.take(sums.convolution_parts * 5 * inner);
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

  void sum_scan_parts(const LayerPass<T>& pass, BlockTensors<T> d_weights, const T* parts,
                      std::size_t count) const {
    const std::size_t channels = static_cast<std::size_t>(inner()),
                      of_A = channels * static_cast<std::size_t>(sizes_.states), stride = of_A + 2 * channels;
    const std::size_t of_tensor = of_A / rate_tensors_;
    for (std::size_t i = 0; i < rate_tensors_; ++i)
      sum_parts(d_weights[A_log + i], parts + i * of_tensor, count, stride, of_tensor, pass.stream);
    sum_parts(d_weights[skip_weight], parts + of_A, count, stride, channels, pass.stream);
    sum_parts(d_weights[step_bias], parts + of_A + channels, count, stride, channels, pass.stream);
  }
  void sum_convolution_parts(const LayerPass<T>& pass, BlockTensors<T> d_weights, const T* parts,
                             std::size_t count) const {
    const std::size_t channels = static_cast<std::size_t>(inner());
    sum_parts(d_weights[conv_weight], parts, count, 5 * channels, 4 * channels, pass.stream);
    sum_parts(d_weights[conv_bias], parts + 4 * channels, count, 5 * channels, channels, pass.stream);
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
