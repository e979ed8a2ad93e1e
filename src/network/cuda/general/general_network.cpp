#include "network/cuda/general/general_network.hpp"

#include <algorithm>

namespace mac::cuda {

template <class T>
std::unique_ptr<GeneralLayer<T>> make_general_layer(const NetworkShape& shape) {
  if (shape.d_model > widest_norm)
    throw Error("a network with d_model {} does not fit a CUDA device (at most {}): use --device cpu",
                shape.d_model, widest_norm);
#define MAC_KIND(name)  \
  case LayerKind::name: \
    return name::make_general_layer<T>(shape);
  switch (shape.kind) { MAC_LAYER_KINDS(MAC_KIND) }
#undef MAC_KIND
  throw Error("no kind of layer has the number {}", static_cast<int>(shape.kind));
}

namespace {

constexpr const char* block_norm_weight = "norm.weight";

}  // namespace

template <class T>
GeneralNetwork<T>::GeneralNetwork(const NetworkShape& shape, std::size_t models)
    : shape_(shape), layout_(shape), models_(models), layer_(make_general_layer<T>(shape)) {
  const std::string layer_prefix = "blocks.0.", norm_prefix = "blocks.0.norm.";
  std::size_t first_of_layer = 0;
  for (const TensorSpec& tensor : layout_.tensors()) {
    if (tensor.name.starts_with(layer_prefix) && !tensor.name.starts_with(norm_prefix)) {
      if (in_layer_.empty()) first_of_layer = aligned_size_;
      in_layer_.push_back(aligned_size_ - first_of_layer);
    }
    places_.push_back({tensor.offset, aligned_size_, tensor.size});
    aligned_size_ += aligned(tensor.size);
  }
  upload_now(device_places_, places_);
  weights_.reserve(aligned_size_);
}

template <class T>
typename GeneralNetwork<T>::Kept GeneralNetwork<T>::kept(Parts<T>& memory, SequenceDims dims,
                                                         bool recorded) const {
  const std::size_t rows = dims.batch * dims.time, d = shape_.d_model;
  Kept kept{memory.take(rows * shape_.d_in), memory.take(rows * d), {}, nullptr, nullptr, nullptr, nullptr};
  for (std::size_t i = 0; i < shape_.n_blocks; ++i)
    kept.blocks.push_back(recorded || i == 0
                              ? typename Kept::Block{memory.take(rows * d), memory.take(rows * d),
                                                     memory.take(layer_->tape_size(dims))}
                              : kept.blocks[0]);
  kept.h = recorded ? memory.take(rows * d) : kept.blocks[0].h;
  kept.normalised = memory.take(rows * d);
  kept.hidden = memory.take(rows * d), kept.activated = memory.take(rows * d);
  return kept;
}

template <class T>
std::size_t GeneralNetwork<T>::kept_size(SequenceDims dims, bool recorded) const {
  Parts<T> counted(nullptr);
  kept(counted, dims, recorded);
  return counted.taken();
}

template <class T>
std::size_t GeneralNetwork<T>::tape_bytes(SequenceDims dims) const {
  return sizeof(T) * kept_size(dims, true);
}

template <class T>
const T* GeneralNetwork<T>::weight(const char* name) const {
  const auto index = &layout_.at(name) - layout_.tensors().data();
  return weights_.data() + places_[static_cast<std::size_t>(index)].aligned_at;
}
template <class T>
T* GeneralNetwork<T>::gradient(const char* name) {
  return gradients_.data() + (weight(name) - weights_.data());
}

template <class T>
template <class U>
BlockStates<U> GeneralNetwork<T>::of_model(States<U> states, std::size_t model, SequenceDims dims) const {
  const std::size_t size = shape_.state_size(), batch = dims.batch * size;
  if (!states.first) return {};
  return {states.first + model * batch * (states.every ? dims.time : 1), size, states.every ? batch : 0};
}
template <class T>
template <class U>
BlockStates<U> GeneralNetwork<T>::of_block(BlockStates<U> of_network, std::size_t block) const {
  return of_network.skip(block * (shape_.state_size() / shape_.n_blocks));
}

namespace {

std::string in_block(std::size_t block, const char* name) { return fmt::format("blocks.{}.{}", block, name); }

}  // namespace

template <class T>
BlockTensors<const T> GeneralNetwork<T>::layer_weights(std::size_t block) const {
  // The layer's tensors follow the norm's two.
  const std::size_t first =
      static_cast<std::size_t>(&layout_.at(in_block(block, block_norm_weight)) - layout_.tensors().data()) +
      2;
  return {weights_.data() + places_[first].aligned_at, in_layer_};
}

template <class T>
LayerPass<T> GeneralNetwork<T>::layer_pass(SequenceDims dims, std::size_t block, const Kept& kept,
                                           BlockStates<const T> initial, BlockStates<const T> after,
                                           T* scratch, cudaStream_t stream) {
  return {dims,
          layer_weights(block),
          of_block(initial, block),
          of_block(after, block),
          kept.blocks[block].layer,
          scratch,
          products_,
          sums_,
          stream};
}

template <class T>
void GeneralNetwork<T>::forward(const T* parameters, SequenceDims dims, const T* x, T* y,
                                const T* initial_state, T* final_state, DeviceTape* tape,
                                cudaStream_t stream) {
  forward_models(parameters, dims, x, y, {initial_state}, {final_state}, tape, stream);
}
template <class T>
void GeneralNetwork<T>::forward_every(const T* parameters, SequenceDims dims, const T* x, T* y, T* states,
                                      DeviceTape& tape, cudaStream_t stream) {
  forward_models(parameters, dims, x, y, {nullptr}, {states, true}, &tape, stream);
}

template <class T>
void GeneralNetwork<T>::forward_models(const T* parameters, SequenceDims dims, const T* x, T* y,
                                       States<const T> initial, States<T> final, DeviceTape* tape,
                                       cudaStream_t stream) {
  const std::size_t rows = dims.batch * dims.time, kept_by_model = kept_size(dims, tape != nullptr);
  DeviceArray<char>& memory = tape ? tape->general : unrecorded_;
  memory.reserve((tape ? models_ : 1) * kept_by_model * sizeof(T));
  T* const first = reinterpret_cast<T*>(memory.data());
  products_.use(stream);
  for (std::size_t m = 0; m < models_; ++m) {
    Parts<T> parts(first + (tape ? m * kept_by_model : 0));
    spread_tensors(weights_.data(), parameters + m * layout_.size(), device_places_.data(), places_.size(),
                   stream);
    forward_model(kept(parts, dims, tape != nullptr), dims, x + m * rows * shape_.d_in,
                  y + m * rows * shape_.d_out, of_model(initial, m, dims), of_model(final, m, dims), stream);
  }
  check_launch("starting a forward pass");
  if (tape) tape->dims = dims;
}

template <class T>
void GeneralNetwork<T>::forward_model(const Kept& kept, SequenceDims dims, const T* x, T* y,
                                      BlockStates<const T> initial, BlockStates<T> final,
                                      cudaStream_t stream) {
  const std::size_t rows = dims.batch * dims.time, all = rows * shape_.d_model;
  const int d = static_cast<int>(shape_.d_model), d_in = static_cast<int>(shape_.d_in),
            d_out = static_cast<int>(shape_.d_out);
  const auto of_rows = [&](auto* data, int channels) { return MatrixView(data, rows, channels); };
  const auto matrix = [&](const char* name, int outputs, int inputs) {
    return ConstMatrix<T>(weight(name), static_cast<std::size_t>(outputs), inputs);
  };
  Parts<T> counted(nullptr);
  counted.take(all), counted.take(rows * shape_.d_out), counted.take(layer_->scratch_size(dims));
  scratch_.reserve(counted.taken());
  Parts<T> scratch(scratch_.data());
  T *const out = scratch.take(all), *const outputs = scratch.take(rows * shape_.d_out),
           *const of_layer = scratch.take(layer_->scratch_size(dims));

  check(cudaMemcpyAsync(kept.x, x, rows * shape_.d_in * sizeof(T), cudaMemcpyDeviceToDevice, stream),
        "copying");
  products_.forward(of_rows(kept.embedding, d), of_rows(kept.x, d_in), matrix("input_proj.weight", d, d_in));
  bias_silu_forward(kept.blocks[0].h, kept.embedding, weight("input_proj.bias"), rows, d, stream);

  for (std::size_t i = 0; i < shape_.n_blocks; ++i) {
    const typename Kept::Block& block = kept.blocks[i];
    add_norm_forward(block.u, block.h, i > 0 ? kept.blocks[i - 1].h : block.h, i > 0 ? out : nullptr,
                     weight(in_block(i, block_norm_weight).c_str()), weight(in_block(i, "norm.bias").c_str()),
                     rows, d, stream);
    layer_->forward(layer_pass(dims, i, kept, initial, {}, of_layer, stream), out, block.u,
                    of_block(final, i));
  }

  add_norm_forward(kept.normalised, kept.h, kept.blocks.back().h, out, weight("norm.weight"),
                   weight("norm.bias"), rows, d, stream);
  products_.forward(of_rows(kept.hidden, d), of_rows(kept.normalised, d),
                    matrix("output_proj.0.weight", d, d));
  bias_silu_forward(kept.activated, kept.hidden, weight("output_proj.0.bias"), rows, d, stream);
  products_.forward(of_rows(outputs, d_out), of_rows(kept.activated, d),
                    matrix("output_proj.2.weight", d_out, d));
  add_bias(y, outputs, weight("output_proj.2.bias"), rows, d_out, stream);
}

template <class T>
void GeneralNetwork<T>::backward(const T* parameters, SequenceDims dims, const T*, const T* initial_state,
                                 const T* d_y, DeviceTape& tape, const Gradients<T>& gradients, bool add,
                                 cudaStream_t stream) {
  backward_models(parameters, dims, {initial_state}, {nullptr}, d_y, gradients.x, {gradients.initial_state},
                  {gradients.final_state}, tape, gradients.parameters, add, stream);
}
template <class T>
void GeneralNetwork<T>::backward_every(const T* parameters, SequenceDims dims, const T* states, const T* d_y,
                                       const T* d_states, DeviceTape& tape, T* d_parameters, bool add,
                                       cudaStream_t stream) {
  backward_models(parameters, dims, {nullptr}, {states, true}, d_y, nullptr, {nullptr}, {d_states, true},
                  tape, d_parameters, add, stream);
}

template <class T>
void GeneralNetwork<T>::backward_models(const T* parameters, SequenceDims dims, States<const T> initial,
                                        States<const T> after, const T* d_y, T* d_x, States<T> d_initial,
                                        States<const T> d_final, DeviceTape& tape, T* d_parameters, bool add,
                                        cudaStream_t stream) {
  tape.expect(dims);
  const std::size_t rows = dims.batch * dims.time, kept_by_model = kept_size(dims, true);
  gradients_.reserve(aligned_size_);
  sums_.forget();
  products_.use(stream);
  for (std::size_t m = 0; m < models_; ++m) {
    Parts<T> parts(reinterpret_cast<T*>(tape.general.data()) + m * kept_by_model);
    spread_tensors(weights_.data(), parameters + m * layout_.size(), device_places_.data(), places_.size(),
                   stream);
    backward_model(kept(parts, dims, true), dims, d_y + m * rows * shape_.d_out,
                   d_x ? d_x + m * rows * shape_.d_in : nullptr,
                   {of_model(initial, m, dims), of_model(after, m, dims), of_model(d_final, m, dims),
                    of_model(d_initial, m, dims)},
                   stream);
    sums_.make(stream);
    gather_tensors(d_parameters + m * layout_.size(), gradients_.data(), device_places_.data(),
                   places_.size(), add, stream);
  }
  check_launch("starting a backward pass");
}

template <class T>
void GeneralNetwork<T>::backward_model(const Kept& kept, SequenceDims dims, const T* d_y, T* d_x,
                                       const BackwardStates& states, cudaStream_t stream) {
  const std::size_t rows = dims.batch * dims.time, all = rows * shape_.d_model;
  const int d = static_cast<int>(shape_.d_model), d_in = static_cast<int>(shape_.d_in),
            d_out = static_cast<int>(shape_.d_out);
  const auto of_rows = [&](auto* data, int channels) { return MatrixView(data, rows, channels); };
  const auto matrix = [&](const char* name, int outputs, int inputs) {
    return ConstMatrix<T>(weight(name), static_cast<std::size_t>(outputs), inputs);
  };
  const std::size_t of_ends = rows * std::max(shape_.d_in, shape_.d_out);
  Parts<T> counted(nullptr);
  counted.take(all), counted.take(all), counted.take(of_ends), counted.take(layer_->scratch_size(dims));
  scratch_.reserve(counted.taken());
  Parts<T> scratch(scratch_.data());
  T *const d_h = scratch.take(all), *const d_u = scratch.take(all), *const ends = scratch.take(of_ends),
           *const of_layer = scratch.take(layer_->scratch_size(dims));
  const auto of_bias = [&](const char* name, const T* d_rows, int channels) {
    sums_.add_rows(gradient(name), d_rows, rows, channels, static_cast<std::size_t>(channels), stream);
  };

  const auto of_norm = [&](bool add, T* d_weight, T* d_bias, const T* d_norm, const T* h,
                           const T* norm_weight) {
    const std::size_t channels = shape_.d_model, parts = norm_parts(rows), stride = 2 * channels;
    T* const of_parts = sums_.take(parts * stride);
    norm_backward(d_h, add, of_parts, d_norm, h, norm_weight, rows, d, stream);
    sums_.add({d_weight, of_parts, parts, stride, channels});
    sums_.add({d_bias, of_parts + channels, parts, stride, channels});
  };

  check(cudaMemcpyAsync(ends, d_y, rows * shape_.d_out * sizeof(T), cudaMemcpyDeviceToDevice, stream),
        "copying");
  products_.to_weights(sums_, gradient("output_proj.2.weight"), of_rows(ends, d_out),
                       of_rows(kept.activated, d));
  of_bias("output_proj.2.bias", ends, d_out);
  products_.to_inputs(of_rows(d_u, d), of_rows(ends, d_out), matrix("output_proj.2.weight", d_out, d));
  silu_backward(d_u, kept.hidden, all, stream);
  products_.to_weights(sums_, gradient("output_proj.0.weight"), of_rows(d_u, d), of_rows(kept.normalised, d));
  of_bias("output_proj.0.bias", d_u, d);
  // d_h is not needed yet: it takes the gradient of the norm's output, and is then overwritten row by row.
  products_.to_inputs(of_rows(d_h, d), of_rows(d_u, d), matrix("output_proj.0.weight", d, d));
  of_norm(false, gradient("norm.weight"), gradient("norm.bias"), d_h, kept.h, weight("norm.weight"));

  for (std::size_t i = shape_.n_blocks; i-- > 0;) {
    const typename Kept::Block& block = kept.blocks[i];
    const LayerPass<T> pass = layer_pass(dims, i, kept, states.initial, states.after, of_layer, stream);
    layer_->backward(pass, d_u, {gradients_.data() + (pass.weights[0] - weights_.data()), in_layer_},
                     of_block(states.d_initial, i), d_h, block.u, of_block(states.d_final, i));
    const std::string norm_weight = in_block(i, block_norm_weight), norm_bias = in_block(i, "norm.bias");
    of_norm(true, gradient(norm_weight.c_str()), gradient(norm_bias.c_str()), d_u, block.h,
            weight(norm_weight.c_str()));
    sums_.make_if_large(stream);
  }

  silu_backward(d_h, kept.embedding, all, stream);
  products_.to_weights(sums_, gradient("input_proj.weight"), of_rows(d_h, d), of_rows(kept.x, d_in));
  of_bias("input_proj.bias", d_h, d);
  if (!d_x) return;
  products_.to_inputs(of_rows(ends, d_in), of_rows(d_h, d), matrix("input_proj.weight", d, d_in));
  check(cudaMemcpyAsync(d_x, ends, rows * shape_.d_in * sizeof(T), cudaMemcpyDeviceToDevice, stream),
        "copying");
}

template std::unique_ptr<GeneralLayer<float>> make_general_layer(const NetworkShape& shape);
template std::unique_ptr<GeneralLayer<double>> make_general_layer(const NetworkShape& shape);
template class GeneralNetwork<float>;
template class GeneralNetwork<double>;

}  // namespace mac::cuda
