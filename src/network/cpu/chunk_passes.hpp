// What the sequence engine does with one chunk of a group's time, whatever the order of chunks and blocks:
// from the caller's arrays into vector lanes and back, input layer, blocks, head.
#pragma once

#include <cstring>
#include <mac/network.hpp>

#include "network/cpu/stretch.hpp"
#include "network/cpu/tape.hpp"
#include "network/kinds/engines.hpp"

namespace mac::cpu {

/// Four by four numbers, in four vector registers.
template <class T>
class Block4 {
 public:
  void load(std::size_t row, const T* from) { std::memcpy(&rows_[row], from, sizeof(Row)); }
  void store(std::size_t row, T* to) const { std::memcpy(to, &rows_[row], sizeof(Row)); }
  /// Rows become columns.
  void turn() {
    const Row a = __builtin_shufflevector(rows_[0], rows_[1], 0, 4, 1, 5),
              b = __builtin_shufflevector(rows_[0], rows_[1], 2, 6, 3, 7),
              c = __builtin_shufflevector(rows_[2], rows_[3], 0, 4, 1, 5),
              d = __builtin_shufflevector(rows_[2], rows_[3], 2, 6, 3, 7);
    rows_[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    rows_[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    rows_[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    rows_[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  }

 private:
  using Row [[gnu::vector_size(4 * sizeof(T))]] = T;
  Row rows_[4];
};

template <class T>
class ChunkPasses {
 public:
  explicit ChunkPasses(const NetworkShape& shape)
      : shape_(shape),
        layout_(shape),
        lanes_(k_.lanes),
        arena_(lanes_),
        parameters_(arena_.numbers(layout_.size())),
        w_(view_parameters<const T>(shape, layout_, parameters_)),
        blocks_(engines_of(shape.kind).sequence(shape, k_, arena_, w_.blocks)) {
    const std::size_t of_block = shape.state_size() / shape.n_blocks;
    for (std::size_t i = 0; i < shape.state_size(); ++i)
      places_.push_back((i - i % of_block + blocks_->place_of_state(i % of_block)) * lanes_);
  }

  const NetworkShape& shape() const { return shape_; }
  const ParameterLayout& layout() const { return layout_; }
  std::size_t lanes() const { return lanes_; }
  const SequenceBlocks<T>& blocks() const { return *blocks_; }
  /// Numbers of a block's state in a group.
  std::size_t block_state() const { return shape_.state_size() / shape_.n_blocks * lanes_; }
  /// Where number i of a state as the caller has it begins in a group's.
  std::size_t place_of_state(std::size_t i) const { return places_[i]; }

  std::size_t group_count(const Stretch& stretch) const {
    return (stretch.all_segments() + lanes_ - 1) / lanes_;
  }
  Group group_at(std::size_t index, const Stretch& stretch) const {
    return {index, index * lanes_, std::min(lanes_, stretch.all_segments() - index * lanes_)};
  }
  Rows<T> block_input(const Record<T>& record, std::size_t block) const {
    const std::size_t stride = shape_.d_model * lanes_;
    return {record.h + block * kChunk * stride, stride};
  }

  void take_parameters(const T* parameters) {
    if (taken_ && std::memcmp(parameters, parameters_, layout_.size() * sizeof(T)) == 0) return;
    taken_ = true;
    std::copy_n(parameters, layout_.size(), parameters_);
    blocks_->take_weights();
  }

  /// state ← states (batch, state_size) of a group's whole sequences; null: zeros
  void load_state(T* state, const T* states, const Group& group) const {
    const std::size_t size = places_.size(), blocks = in_blocks(group);
    if (!states) {
      std::fill_n(state, size * lanes_, T(0));
      return;
    }
    for (std::size_t lane = 0; lane < lanes_ && blocks > 0; lane += 4) {
      const T* const from = states + (group.first + lane) * size;
      T* const to = state + lane;
      for (std::size_t i = 0; i < blocks; i += 4) {
        Block4<T> block;
        for (std::size_t k = 0; k < 4; ++k) block.load(k, from + k * size + i);
        block.turn();
        for (std::size_t k = 0; k < 4; ++k) block.store(k, to + places_[i + k]);
      }
    }
    for (std::size_t i = blocks; i < size; ++i)
      for (std::size_t lane = 0; lane < lanes_; ++lane)
        state[places_[i] + lane] = lane < group.count ? states[(group.first + lane) * size + i] : T(0);
  }

  void store_state(T* states, const T* state, const Group& group) const {
    const std::size_t size = places_.size(), blocks = in_blocks(group);
    for (std::size_t lane = 0; lane < lanes_ && blocks > 0; lane += 4) {
      const T* const from = state + lane;
      T* const to = states + (group.first + lane) * size;
      for (std::size_t i = 0; i < blocks; i += 4) {
        Block4<T> block;
        for (std::size_t k = 0; k < 4; ++k) block.load(k, from + places_[i + k]);
        block.turn();
        for (std::size_t k = 0; k < 4; ++k) block.store(k, to + k * size + i);
      }
    }
    for (std::size_t i = blocks; i < size; ++i)
      for (std::size_t lane = 0; lane < group.count; ++lane)
        states[(group.first + lane) * size + i] = state[places_[i] + lane];
  }

  void copy_state(T* to, const T* from) const { std::copy_n(from, shape_.state_size() * lanes_, to); }

  /// Input layer: the first block's input.
  void input_forward(const Record<T>& record, Work<T>& work, const Chunk& chunk, const T* x) const {
    const std::size_t rows = chunk.rows();
    load_rows(work.x, x, shape_.d_in, chunk);
    const Rows<T> h = block_input(record, 0);
    k_.linear.forward(h, {}, work.x, w_.input_proj.weight, w_.input_proj.bias, rows, shape_.d_in,
                      shape_.d_model);
    k_.pointwise.silu_forward(h, {}, h, rows, shape_.d_model);
  }

  /// Input layer and blocks; the state is advanced, the record filled.
  void forward(const Record<T>& record, Work<T>& work, const Chunk& chunk, const T* x) const {
    copy_state(record.state, work.state);
    input_forward(record, work, chunk, x);
    for (std::size_t i = 0; i < shape_.n_blocks; ++i)
      blocks_->forward(i, block_input(record, i + 1), block_input(record, i), work.state + i * block_state(),
                       *work.layer, chunk.rows());
  }

  void head_forward(const Record<T>& record, Work<T>& work, const Chunk& chunk, T* y) const {
    const std::size_t rows = chunk.rows();
    head_hidden(record, work, rows, false);
    k_.linear.forward(work.y, {}, work.h, w_.output_proj.weight, w_.output_proj.bias, rows, shape_.d_model,
                      shape_.d_out);
    store_rows(y, work.y, shape_.d_out, chunk);
  }

  /// d_h (d_model) ← gradient of the head's input
  void head_backward(Rows<T> d_h, const Record<T>& record, const NetworkParameters<T>& d_w, Work<T>& work,
                     const Chunk& chunk, const T* grad_y) const {
    const std::size_t rows = chunk.rows(), d = shape_.d_model;
    head_hidden(record, work, rows, true);
    load_rows(work.d_y, grad_y, shape_.d_out, chunk);
    k_.linear.backward_weight(d_w.output_proj.weight, d_w.output_proj.bias, work.d_y, work.h, rows, d,
                              shape_.d_out);
    k_.linear.backward_input(work.d_u, {}, work.d_y, w_.output_proj.weight, rows, d, shape_.d_out);
    k_.pointwise.multiply(work.d_u, work.slope, rows, d);
    k_.linear.backward_weight(d_w.hidden_proj.weight, d_w.hidden_proj.bias, work.d_u, work.u, rows, d, d);
    k_.linear.backward_input(work.h, {}, work.d_u, w_.hidden_proj.weight, rows, d, d);
    std::fill_n(d_h.data, rows * d_h.stride, T(0));
    k_.pointwise.norm_backward(d_h, d_w.norm.weight, d_w.norm.bias, work.h,
                               block_input(record, shape_.n_blocks), work.stats, w_.norm.weight, rows, d);
  }

  /// d_h: of the first block's input, overwritten; a null d_x is not wanted
  void input_backward(Rows<T> d_h, const NetworkParameters<T>& d_w, Work<T>& work, const Chunk& chunk,
                      const T* x, T* d_x) const {
    const std::size_t rows = chunk.rows(), d = shape_.d_model;
    load_rows(work.x, x, shape_.d_in, chunk);
    k_.linear.forward(work.h, {}, work.x, w_.input_proj.weight, w_.input_proj.bias, rows, shape_.d_in, d);
    k_.pointwise.silu_forward(work.h, work.slope, work.h, rows, d);
    k_.pointwise.multiply(d_h, work.slope, rows, d);
    k_.linear.backward_weight(d_w.input_proj.weight, d_w.input_proj.bias, d_h, work.x, rows, shape_.d_in, d);
    if (!d_x) return;
    k_.linear.backward_input(work.d_x, {}, d_h, w_.input_proj.weight, rows, shape_.d_in, d);
    store_rows(d_x, work.d_x, shape_.d_in, chunk);
  }

  void backward(const Record<T>& record, const NetworkParameters<T>& d_w, Work<T>& work, const Chunk& chunk,
                const T* x, const T* grad_y, T* d_x) const {
    head_backward(work.d_h, record, d_w, work, chunk, grad_y);
    for (std::size_t i = shape_.n_blocks; i-- > 0;) {
      const std::size_t at = i * block_state();
      blocks_->backward(i, work.d_h, work.d_state + at, d_w.blocks[i], block_input(record, i),
                        record.state + at, *work.layer, chunk.rows());
    }
    input_backward(work.d_h, d_w, work, chunk, x, d_x);
  }

 private:
  /// work.h = SiLU(Linear(LayerNorm(h))), the last layer's input; its slope too
  void head_hidden(const Record<T>& record, Work<T>& work, std::size_t rows, bool slopes) const {
    const std::size_t d = shape_.d_model;
    k_.pointwise.norm_forward(work.u, work.stats, block_input(record, shape_.n_blocks), w_.norm.weight,
                              w_.norm.bias, rows, d);
    k_.linear.forward(work.h, {}, work.u, w_.hidden_proj.weight, w_.hidden_proj.bias, rows, d, d);
    k_.pointwise.silu_forward(work.h, slopes ? work.slope : Rows<T>{}, work.h, rows, d);
  }

  /// rows (channels) ← array (batch, time, channels) of a group's sequences; absent lanes are zero
  void load_rows(Rows<T> rows, const T* array, std::size_t channels, const Chunk& chunk) const {
    const std::size_t count = chunk.rows();
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const T* from = array + chunk.place(lane) * channels;
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t c = 0; c < channels; ++c)
          rows.row(t)[c * lanes_ + lane] = lane < chunk.group.count ? from[t * channels + c] : T(0);
    }
  }

  void store_rows(T* array, Rows<const T> rows, std::size_t channels, const Chunk& chunk) const {
    const std::size_t count = chunk.rows();
    for (std::size_t lane = 0; lane < chunk.group.count; ++lane) {
      T* to = array + chunk.place(lane) * channels;
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t c = 0; c < channels; ++c) to[t * channels + c] = rows.row(t)[c * lanes_ + lane];
    }
  }

  /// The numbers of a state that change layout in blocks of four; the rest go one by one.
  std::size_t in_blocks(const Group& group) const {
    return group.count == lanes_ && lanes_ % 4 == 0 ? places_.size() / 4 * 4 : 0;
  }

  NetworkShape shape_;
  ParameterLayout layout_;
  Kernels<T> k_;
  std::size_t lanes_;
  Arena<T> arena_;
  T* parameters_;  // copy of the caller's, so that the views below stay valid
  bool taken_ = false;
  NetworkParameters<const T> w_;
  std::unique_ptr<SequenceBlocks<T>> blocks_;
  std::vector<std::size_t> places_;  // (state_size): of the vectors in a group's state
};

}  // namespace mac::cpu
