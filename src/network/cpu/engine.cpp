// The sequence engine on the CPU. The plan (more in docs/engine.md):
//
// - Sequences lie in vector lanes; `lanes` of them make a group. Groups are independent of each other, and
//   threads take whole groups.
// - A group's time is cut into chunks of a few time points. A chunk goes through all layers while its
//   activations are in the second-level cache; only the recurrent state passes from chunk to chunk.
// - For the backward pass the tape keeps, for each chunk, the state before it and the input of every block (a
//   record); everything else is computed again, block by block, going backwards. Where the records of a whole
//   sequence would take too much memory, only the states before segments of kSegment chunks are kept, and the
//   records of a segment are made again when the backward pass gets there.
// - Gradients of weights are summed in slots: slot s adds up the groups s, s + slots, ... one after the
//   other, and the slots are added in ascending order. The number of slots depends on the batch alone, so
//   neither the number of threads nor their timing changes a bit of the result.
#include "network/cpu/engine.hpp"

#include <algorithm>
#include <cstring>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <span>

#include "network/cpu/tape.hpp"
#include "network/ensemble_engine.hpp"
#include "network/kinds/engines.hpp"
#include "parallel/parallel_for.hpp"

namespace mac {
namespace cpu {
namespace {

/// sum (count) += numbers
template <class T>
void add(T* __restrict sum, const T* __restrict numbers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += numbers[i];
}

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

/// The sequences of a group: `count` of them, from `first` on.
struct Group {
  std::size_t index, first, count;
};

template <class T>
class CpuEngine final : public SequenceEngine<T> {
 public:
  CpuEngine(const NetworkShape& shape, int threads, EngineOptions options, GradientShare<T>* share)
      : shape_(shape),
        options_(options),
        share_(share),
        layout_(shape),
        threads_(std::max(threads, 1)),
        lanes_(k_.lanes),
        arena_(lanes_),
        parameters_(arena_.numbers(layout_.size())),
        w_(view_parameters<const T>(shape, layout_, parameters_)),
        blocks_(engines_of(shape.kind).sequence(shape, k_, arena_, w_.blocks)) {
    const std::size_t of_block = shape.state_size() / shape.n_blocks;
    for (std::size_t i = 0; i < shape.state_size(); ++i)
      places_.push_back((i - i % of_block + blocks_->place_of_state(i % of_block)) * lanes_);
    for (int i = 0; i < threads_; ++i) work_.push_back(std::make_unique<Work<T>>(shape, *blocks_, lanes_));
  }

  const NetworkShape& shape() const override { return shape_; }

  std::unique_ptr<Tape> make_tape(SequenceDims largest) override {
    auto tape = std::make_unique<CpuTape<T>>(lanes_, largest);
    const std::size_t groups = group_count(largest), chunks = chunk_count(largest);
    const std::size_t record = RecordStore<T>::record_size(shape_, lanes_) * sizeof(T);
    tape->complete = groups * chunks * record <= options_.record_bytes;
    const std::size_t records =
        tape->complete ? groups * chunks : static_cast<std::size_t>(threads_) * kSegment;
    tape->records = RecordStore<T>(tape->arena, shape_, lanes_, records);
    if (!tape->complete)
      tape->checkpoints = tape->arena.vectors(groups * segment_count(largest) * shape_.state_size());
    while (slots_.size() < slot_count(groups)) {
      slots_.push_back(arena_.numbers(layout_.size()));
      slot_views_.push_back(view_parameters<T>(shape_, layout_, slots_.back()));
    }
    return tape;
  }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    auto* const kept = tape ? &check(*tape, dims) : nullptr;
    take_parameters(parameters);
    const SlotPlan* const plan = share_ && share_->of_whole_batches() ? share_->plan(dims.batch) : nullptr;
    const std::vector<std::size_t> mine = plan ? plan->all_groups() : std::vector<std::size_t>();
    parallel_for(plan ? mine.size() : group_count(dims), threads_, [&](std::size_t i, std::size_t thread) {
      const std::size_t index = plan ? mine[i] : i;
      Work<T>& work = *work_[thread];
      const Group group = group_at(index, dims);
      load_state(work.state, initial_state, group);
      for (std::size_t chunk = 0; chunk < chunk_count(dims); ++chunk) {
        const bool complete = kept && kept->complete;
        if (kept && !complete && chunk % kSegment == 0)
          copy_state(checkpoint(*kept, dims, group, chunk / kSegment), work.state);
        const Record<T> record = complete ? kept->records.at(index * chunk_count(dims) + chunk) : work.record;
        forward_chunk(record, work, dims, group, chunk, x);
        head_forward(record, work, dims, group, chunk, y);
      }
      if (final_state) store_state(final_state, work.state, group);
    });
    if (!plan) return;
    share_->complete(*plan, y, dims.batch, dims.time * shape_.d_out);
    if (final_state) share_->complete(*plan, final_state, dims.batch, shape_.state_size());
  }

  void backward(const T* parameters, SequenceDims dims, const T* x, const T*, const T* grad_y, Tape& tape,
                const Gradients<T>& gradients) override {
    CpuTape<T>& kept = check(tape, dims);
    take_parameters(parameters);
    const auto add_group = [&](std::size_t slot, std::size_t thread, std::size_t index) {
      backward_group(kept, slot_views_[slot], thread, dims, group_at(index, dims), x, grad_y, gradients);
    };
    const SlotPlan* const plan = share_ ? share_->plan(dims.batch) : nullptr;
    const std::size_t groups = group_count(dims), slots = plan ? plan->mine.size() : slot_count(groups);
    parallel_for(slots, threads_, [&](std::size_t slot, std::size_t thread) {
      std::fill_n(slots_[slot], layout_.size(), T(0));
      if (plan)
        for (const std::size_t index : plan->groups[slot]) add_group(slot, thread, index);
      else
        for (std::size_t index = slot; index < groups; index += slots) add_group(slot, thread, index);
    });
    T* const sum = slots_[0];
    if (plan) {
      sum_.resize(layout_.size());
      share_->add_up(*plan, std::span(slots_).first(slots), layout_.size(), sum_.data());
      add(gradients.parameters, sum_.data(), layout_.size());
      if (!share_->of_whole_batches()) return;
      if (gradients.x) share_->complete(*plan, gradients.x, dims.batch, dims.time * shape_.d_in);
      if (gradients.initial_state)
        share_->complete(*plan, gradients.initial_state, dims.batch, shape_.state_size());
      return;
    }
    for (std::size_t slot = 1; slot < slots; ++slot) add(sum, slots_[slot], layout_.size());
    add(gradients.parameters, sum, layout_.size());
  }

 private:
  // --- sizes -----------------------------------------------------------------------------------------------

  std::size_t block_state() const { return shape_.state_size() / shape_.n_blocks * lanes_; }  // numbers
  std::size_t group_count(SequenceDims dims) const { return (dims.batch + lanes_ - 1) / lanes_; }
  std::size_t chunk_count(SequenceDims dims) const { return (dims.time + kChunk - 1) / kChunk; }
  std::size_t segment_count(SequenceDims dims) const { return (chunk_count(dims) + kSegment - 1) / kSegment; }
  static std::size_t slot_count(std::size_t groups) { return std::min(groups, largest_slot_count); }
  Group group_at(std::size_t index, SequenceDims dims) const {
    return {index, index * lanes_, std::min(lanes_, dims.batch - index * lanes_)};
  }
  std::size_t rows_of(std::size_t chunk, SequenceDims dims) const {
    return std::min(kChunk, dims.time - chunk * kChunk);
  }
  Rows<T> block_input(const Record<T>& record, std::size_t block) const {
    const std::size_t stride = shape_.d_model * lanes_;
    return {record.h + block * kChunk * stride, stride};
  }
  T* checkpoint(const CpuTape<T>& tape, SequenceDims dims, const Group& group, std::size_t segment) const {
    return tape.checkpoints + (group.index * segment_count(dims) + segment) * shape_.state_size() * lanes_;
  }
  CpuTape<T>& check(Tape& tape, SequenceDims dims) const {
    auto& kept = dynamic_cast<CpuTape<T>&>(tape);
    if (dims.batch > kept.largest.batch || dims.time > kept.largest.time)
      throw Error("a batch of {} sequences of {} time points does not fit a tape made for {} of {}",
                  dims.batch, dims.time, kept.largest.batch, kept.largest.time);
    return kept;
  }

  // --- between the caller's arrays and lanes ---------------------------------------------------------------

  void take_parameters(const T* parameters) {
    if (taken_ && std::memcmp(parameters, parameters_, layout_.size() * sizeof(T)) == 0) return;
    taken_ = true;
    std::copy_n(parameters, layout_.size(), parameters_);
    blocks_->take_weights();
  }

  /// rows (channels) ← array (batch, time, channels) of a group's sequences; absent lanes are zero
  void load_rows(Rows<T> rows, const T* array, std::size_t channels, SequenceDims dims, const Group& group,
                 std::size_t chunk) const {
    const std::size_t count = rows_of(chunk, dims);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      const T* from = array + ((group.first + lane) * dims.time + chunk * kChunk) * channels;
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t c = 0; c < channels; ++c)
          rows.row(t)[c * lanes_ + lane] = lane < group.count ? from[t * channels + c] : T(0);
    }
  }

  void store_rows(T* array, Rows<const T> rows, std::size_t channels, SequenceDims dims, const Group& group,
                  std::size_t chunk) const {
    const std::size_t count = rows_of(chunk, dims);
    for (std::size_t lane = 0; lane < group.count; ++lane) {
      T* to = array + ((group.first + lane) * dims.time + chunk * kChunk) * channels;
      for (std::size_t t = 0; t < count; ++t)
        for (std::size_t c = 0; c < channels; ++c) to[t * channels + c] = rows.row(t)[c * lanes_ + lane];
    }
  }

  /// The numbers of a state that change layout in blocks of four; the rest go one by one.
  std::size_t in_blocks(const Group& group) const {
    return group.count == lanes_ && lanes_ % 4 == 0 ? places_.size() / 4 * 4 : 0;
  }

  /// state ← states (batch, state_size) of a group's sequences; null: zeros
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

  // --- one chunk -------------------------------------------------------------------------------------------

  /// Input layer and blocks; the state is advanced, the record filled.
  void forward_chunk(const Record<T>& record, Work<T>& work, SequenceDims dims, const Group& group,
                     std::size_t chunk, const T* x) const {
    const std::size_t rows = rows_of(chunk, dims);
    copy_state(record.state, work.state);
    load_rows(work.x, x, shape_.d_in, dims, group, chunk);
    const Rows<T> h = block_input(record, 0);
    k_.linear.forward(h, {}, work.x, w_.input_proj.weight, w_.input_proj.bias, rows, shape_.d_in,
                      shape_.d_model);
    k_.pointwise.silu_forward(h, {}, h, rows, shape_.d_model);
    for (std::size_t i = 0; i < shape_.n_blocks; ++i)
      blocks_->forward(i, block_input(record, i + 1), block_input(record, i), work.state + i * block_state(),
                       *work.layer, rows);
  }

  /// work.h = SiLU(Linear(LayerNorm(h))), the last layer's input; its slope too
  void head_hidden(const Record<T>& record, Work<T>& work, std::size_t rows, bool slopes) const {
    const std::size_t d = shape_.d_model;
    k_.pointwise.norm_forward(work.u, work.stats, block_input(record, shape_.n_blocks), w_.norm.weight,
                              w_.norm.bias, rows, d);
    k_.linear.forward(work.h, {}, work.u, w_.hidden_proj.weight, w_.hidden_proj.bias, rows, d, d);
    k_.pointwise.silu_forward(work.h, slopes ? work.slope : Rows<T>{}, work.h, rows, d);
  }

  void head_forward(const Record<T>& record, Work<T>& work, SequenceDims dims, const Group& group,
                    std::size_t chunk, T* y) const {
    const std::size_t rows = rows_of(chunk, dims);
    head_hidden(record, work, rows, false);
    k_.linear.forward(work.y, {}, work.h, w_.output_proj.weight, w_.output_proj.bias, rows, shape_.d_model,
                      shape_.d_out);
    store_rows(y, work.y, shape_.d_out, dims, group, chunk);
  }

  /// d_h ← gradient of the head's input
  void head_backward(const Record<T>& record, const NetworkParameters<T>& d_w, Work<T>& work,
                     SequenceDims dims, const Group& group, std::size_t chunk, const T* grad_y) const {
    const std::size_t rows = rows_of(chunk, dims), d = shape_.d_model;
    head_hidden(record, work, rows, true);
    load_rows(work.d_y, grad_y, shape_.d_out, dims, group, chunk);
    k_.linear.backward_weight(d_w.output_proj.weight, d_w.output_proj.bias, work.d_y, work.h, rows, d,
                              shape_.d_out);
    k_.linear.backward_input(work.d_u, {}, work.d_y, w_.output_proj.weight, rows, d, shape_.d_out);
    k_.pointwise.multiply(work.d_u, work.slope, rows, d);
    k_.linear.backward_weight(d_w.hidden_proj.weight, d_w.hidden_proj.bias, work.d_u, work.u, rows, d, d);
    k_.linear.backward_input(work.h, {}, work.d_u, w_.hidden_proj.weight, rows, d, d);
    std::fill_n(work.d_h.data, rows * work.d_h.stride, T(0));
    k_.pointwise.norm_backward(work.d_h, d_w.norm.weight, d_w.norm.bias, work.h,
                               block_input(record, shape_.n_blocks), work.stats, w_.norm.weight, rows, d);
  }

  void input_backward(const NetworkParameters<T>& d_w, Work<T>& work, SequenceDims dims, const Group& group,
                      std::size_t chunk, const T* x, T* d_x) const {
    const std::size_t rows = rows_of(chunk, dims), d = shape_.d_model;
    load_rows(work.x, x, shape_.d_in, dims, group, chunk);
    k_.linear.forward(work.h, {}, work.x, w_.input_proj.weight, w_.input_proj.bias, rows, shape_.d_in, d);
    k_.pointwise.silu_forward(work.h, work.slope, work.h, rows, d);
    k_.pointwise.multiply(work.d_h, work.slope, rows, d);
    k_.linear.backward_weight(d_w.input_proj.weight, d_w.input_proj.bias, work.d_h, work.x, rows, shape_.d_in,
                              d);
    if (!d_x) return;
    k_.linear.backward_input(work.d_x, {}, work.d_h, w_.input_proj.weight, rows, shape_.d_in, d);
    store_rows(d_x, work.d_x, shape_.d_in, dims, group, chunk);
  }

  void backward_group(CpuTape<T>& tape, const NetworkParameters<T>& d_w, std::size_t thread,
                      SequenceDims dims, const Group& group, const T* x, const T* grad_y,
                      const Gradients<T>& gradients) const {
    Work<T>& work = *work_[thread];
    load_state(work.d_state, gradients.final_state, group);
    const std::size_t chunks = chunk_count(dims), length = tape.complete ? chunks : kSegment;
    for (std::size_t begin = (chunks - 1) / length * length;; begin -= length) {
      const std::size_t first_record = tape.complete ? group.index * chunks : thread * kSegment;
      const std::size_t end = std::min(begin + length, chunks);
      if (!tape.complete) {
        copy_state(work.state, checkpoint(tape, dims, group, begin / kSegment));
        for (std::size_t chunk = begin; chunk < end; ++chunk)
          forward_chunk(tape.records.at(first_record + chunk - begin), work, dims, group, chunk, x);
      }
      for (std::size_t chunk = end; chunk-- > begin;)
        backward_chunk(tape.records.at(first_record + chunk - begin), d_w, work, dims, group, chunk, x,
                       grad_y, gradients.x);
      if (begin == 0) break;
    }
    if (gradients.initial_state) store_state(gradients.initial_state, work.d_state, group);
  }

  void backward_chunk(const Record<T>& record, const NetworkParameters<T>& d_w, Work<T>& work,
                      SequenceDims dims, const Group& group, std::size_t chunk, const T* x, const T* grad_y,
                      T* d_x) const {
    const std::size_t rows = rows_of(chunk, dims);
    head_backward(record, d_w, work, dims, group, chunk, grad_y);
    for (std::size_t i = shape_.n_blocks; i-- > 0;) {
      const std::size_t at = i * block_state();
      blocks_->backward(i, work.d_h, work.d_state + at, d_w.blocks[i], block_input(record, i),
                        record.state + at, *work.layer, rows);
    }
    input_backward(d_w, work, dims, group, chunk, x, d_x);
  }

  NetworkShape shape_;
  EngineOptions options_;
  GradientShare<T>* share_;
  std::vector<T> sum_;  // of all ranks' slots
  ParameterLayout layout_;
  int threads_;
  Kernels<T> k_;
  std::size_t lanes_;
  Arena<T> arena_;
  T* parameters_;  // copy of the caller's, so that the views below stay valid
  bool taken_ = false;
  NetworkParameters<const T> w_;
  std::unique_ptr<SequenceBlocks<T>> blocks_;
  std::vector<std::size_t> places_;  // (state_size): of the vectors in a group's state
  std::vector<T*> slots_;            // (parameter_count) each: gradients being summed
  std::vector<NetworkParameters<T>> slot_views_;
  std::vector<std::unique_ptr<Work<T>>> work_;  // one a thread
};

}  // namespace

template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, int threads, EngineOptions options,
                                               GradientShare<T>* share) {
  return std::make_unique<CpuEngine<T>>(shape, threads, options, share);
}

template <class T>
std::unique_ptr<SequenceEngine<T>> make_shared_engine(const NetworkShape& shape, int threads,
                                                      GradientShare<T>& share) {
  return with_members<T>(shape,
                         [&](const NetworkShape& one) { return make_engine<T>(one, threads, {}, &share); });
}

template std::unique_ptr<SequenceEngine<float>> make_engine<float>(const NetworkShape&, int, EngineOptions,
                                                                   GradientShare<float>*);
template std::unique_ptr<SequenceEngine<double>> make_engine<double>(const NetworkShape&, int, EngineOptions,
                                                                     GradientShare<double>*);
template std::unique_ptr<SequenceEngine<float>> make_shared_engine(const NetworkShape&, int,
                                                                   GradientShare<float>&);
template std::unique_ptr<SequenceEngine<double>> make_shared_engine(const NetworkShape&, int,
                                                                    GradientShare<double>&);

}  // namespace cpu

template <class T>
std::unique_ptr<SequenceEngine<T>> make_cpu_engine(const NetworkShape& shape, int threads) {
  return with_members<T>(shape,
                         [&](const NetworkShape& one) { return cpu::make_engine<T>(one, threads, {}); });
}

template std::unique_ptr<SequenceEngine<float>> make_cpu_engine<float>(const NetworkShape&, int);
template std::unique_ptr<SequenceEngine<double>> make_cpu_engine<double>(const NetworkShape&, int);

}  // namespace mac
