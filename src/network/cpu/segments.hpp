// Forward and backward passes over few long sequences, for kinds whose state is linear in the one before
// (SegmentBlocks). Each sequence is cut in segments (segment_plan.hpp), which lie in vector lanes like sequences of
// their own; blocks are taken one after the other over the whole time:
//
//   1. Every segment is run from a state of zero, for its end s⁰ and its decay P alone. The state's history depends
//      on the last time points of the segment before alone, whose block input is known.
//   2. A walk over a sequence's segments gives the states before each: s_k = P_{k−1} s_{k−1} + s⁰_{k−1}.
//   3. The usual pass runs over all segments from those states.
//
// Backward likewise: the gradients of states from zero, a walk from the last segment to the first, the usual pass.
// What that pass finds for the histories before segments goes to the time points it came from, at last.
#pragma once

#include <mac/network.hpp>
#include <span>
#include <vector>

#include "network/cpu/chunk_passes.hpp"
#include "network/cpu/segment_plan.hpp"
#include "parallel/parallel_for.hpp"

namespace mac::cpu {

/// What a tape keeps of a batch in segments.
template <class T>
class SegmentStore {
 public:
  /// Has room for this plan from now on.
  void reserve(const SegmentPlan& plan, const ChunkPasses<T>& passes) {
    const NetworkShape& shape = passes.shape();
    const std::size_t lanes = passes.lanes(), batch = plan.dims.batch;
    std::size_t groups = 0, records = 0, all_records = 0;
    firsts_.clear();
    for (std::size_t i = 0; i < plan.stretches(); ++i) {
      const Stretch stretch = plan.at(i);
      const std::size_t of_stretch = passes.group_count(stretch) * stretch.chunks();
      firsts_.push_back(plan.spans == 1 ? all_records : 0);
      groups = std::max(groups, passes.group_count(stretch));
      records = std::max(records, of_stretch);
      all_records += of_stretch;
    }
    const Sizes sizes{groups, plan.spans == 1 ? all_records : records, plan.stretches(), batch};
    if (sizes.fit(has_)) return;
    has_ = sizes;
    groups_ = groups;
    block_state_ = passes.block_state(), state_size_ = batch * shape.state_size();
    chunk_ = kChunk * shape.d_model * lanes;
    sum_ = passes.blocks().segments()->sum_vectors() * lanes;
    arena_ = Arena<T>(lanes);
    records_ = RecordStore<T>(arena_, shape, lanes, sizes.records);
    d_h_ = arena_.numbers(sizes.records * chunk_);
    borders_ = arena_.numbers(groups * block_state_), decays_ = arena_.numbers(groups * block_state_);
    sums_ = arena_.numbers(shape.n_blocks * groups * sum_);
    states_ = arena_.numbers((sizes.stretches + 2) * state_size_);
  }

  Record<T> record(std::size_t stretch, std::size_t i) const { return records_.at(firsts_[stretch] + i); }
  /// The gradient of a block's output and then of its input, (kChunk, d_model).
  T* d_h(std::size_t stretch, std::size_t i) const { return d_h_ + (firsts_[stretch] + i) * chunk_; }
  /// A group's states before its segments or their gradients after them; on the way there after or before them,
  /// from zero.
  T* border(std::size_t group) const { return borders_ + group * block_state_; }
  T* decay(std::size_t group) const { return decays_ + group * block_state_; }
  T* sums(std::size_t block, std::size_t group) const { return sums_ + (block * groups_ + group) * sum_; }
  /// As the caller has states: those before each stretch but the first, and two for gradients.
  T* state_before(std::size_t stretch) const { return states_ + (stretch + 1) * state_size_; }
  T* d_state_before(std::size_t stretch) const { return states_ + stretch % 2 * state_size_; }

 private:
  struct Sizes {
    std::size_t groups = 0, records = 0, stretches = 0, batch = 0;
    bool fit(const Sizes& other) const {
      return groups <= other.groups && records <= other.records && stretches <= other.stretches &&
             batch <= other.batch;
    }
  };

  Sizes has_;
  std::size_t groups_ = 0, block_state_ = 0, state_size_ = 0, chunk_ = 0, sum_ = 0;
  std::vector<std::size_t> firsts_;  // records of each stretch
  Arena<T> arena_{1};
  RecordStore<T> records_;
  T *d_h_ = nullptr, *borders_ = nullptr, *decays_ = nullptr, *sums_ = nullptr, *states_ = nullptr;
};

template <class T>
class SegmentPasses {
 public:
  SegmentPasses(const ChunkPasses<T>& passes, std::span<const std::unique_ptr<Work<T>>> work,
                const SegmentPlan& plan, const SegmentStore<T>& store)
      : passes_(passes),
        blocks_(passes.blocks()),
        of_segments_(*passes.blocks().segments()),
        work_(work),
        plan_(plan),
        store_(store),
        lanes_(passes.lanes()),
        history_(of_segments_.history_vectors() * lanes_) {}

  /// x, y and states as the caller of SequenceEngine::forward has them.
  void forward(const T* x, T* y, const T* initial, T* final) const {
    for (std::size_t i = 0; i < plan_.stretches(); ++i) {
      const Part part = part_at(i);
      forward_blocks(part, x, i == 0 ? initial : store_.state_before(i),
                     i + 1 < plan_.stretches() ? store_.state_before(i + 1) : final);
      for_groups(part, [&](const Group& group, Work<T>& work) {
        for (std::size_t chunk = 0; chunk < part.stretch.chunks(); ++chunk)
          passes_.head_forward(record(part, group, chunk), work, {part.stretch, group, chunk}, y);
      });
    }
  }

  /// Slot s adds up the gradients of groups s, s + slots, ... of every stretch, from the last to the first.
  void backward(const T* x, const T* initial, const T* grad_y, const Gradients<T>& gradients,
                std::span<const NetworkParameters<T>> slots) const {
    for (std::size_t i = plan_.stretches(); i-- > 0;) {
      const Part part = part_at(i);
      if (plan_.spans > 1)  // the records are those of another stretch
        forward_blocks(part, x, i == 0 ? initial : store_.state_before(i), nullptr);
      backward_stretch(part, x, grad_y,
                       i + 1 < plan_.stretches() ? store_.d_state_before(i + 1) : gradients.final_state,
                       i > 0 ? store_.d_state_before(i) : gradients.initial_state, gradients.x, slots);
    }
  }

 private:
  struct Part {
    std::size_t index;
    Stretch stretch;
  };

  Part part_at(std::size_t i) const { return {i, plan_.at(i)}; }
  std::size_t at_chunk(const Part& part, std::size_t group, std::size_t chunk) const {
    return group * part.stretch.chunks() + chunk;
  }
  Record<T> record(const Part& part, const Group& group, std::size_t chunk) const {
    return store_.record(part.index, at_chunk(part, group.index, chunk));
  }
  Rows<T> h(const Part& part, std::size_t block, std::size_t group, std::size_t chunk) const {
    return passes_.block_input(store_.record(part.index, at_chunk(part, group, chunk)), block);
  }
  Rows<T> d_h(const Part& part, std::size_t group, std::size_t chunk) const {
    return {store_.d_h(part.index, at_chunk(part, group, chunk)), passes_.shape().d_model * lanes_};
  }
  /// Numbers of a time point's channels in a group.
  std::size_t width() const { return passes_.shape().d_model * lanes_; }

  template <class Body>
  void for_groups(const Part& part, const Body& body) const {
    parallel_for(passes_.group_count(part.stretch), static_cast<int>(work_.size()),
                 [&](std::size_t index, std::size_t thread) {
                   body(passes_.group_at(index, part.stretch), *work_[thread]);
                 });
  }
  template <class Body>
  void for_slots(const Part& part, std::span<const NetworkParameters<T>> slots, const Body& body) const {
    const std::size_t groups = passes_.group_count(part.stretch), count = std::min(groups, slots.size());
    parallel_for(count, static_cast<int>(work_.size()), [&](std::size_t slot, std::size_t thread) {
      for (std::size_t index = slot; index < groups; index += count)
        body(passes_.group_at(index, part.stretch), *work_[thread], slots[slot]);
    });
  }

  // --- states of a block ----------------------------------------------------------------------------------

  std::size_t block_numbers() const { return passes_.block_state() / lanes_; }
  /// Where number i of a block's state is in `states` (batch, state_size), of the sequence of a lane's segment.
  template <class States>
  States* of_caller(States* states, const Part& part, const Group& group, std::size_t lane,
                    std::size_t block) const {
    return states + part.stretch.sequence_of(group.first + lane) * passes_.shape().state_size() +
           block * block_numbers();
  }
  /// A lane of state ← states, history or all of it.
  void load_lane(T* state, std::size_t lane, const T* numbers, bool history_alone) const {
    for (std::size_t i = 0; i < block_numbers(); ++i)
      if (const std::size_t place = passes_.place_of_state(i); !history_alone || place < history_)
        state[place + lane] = numbers[i];
  }
  void store_lane(T* numbers, const T* state, std::size_t lane) const {
    for (std::size_t i = 0; i < block_numbers(); ++i) numbers[i] = state[passes_.place_of_state(i) + lane];
  }
  void zero(T* state) const { std::fill_n(state, passes_.block_state(), T(0)); }
  void copy(T* to, const T* from) const { std::copy_n(from, passes_.block_state(), to); }
  void copy_linear(T* to, const T* from) const {
    std::copy(from + history_, from + passes_.block_state(), to + history_);
  }

  /// border ← the histories before a group's segments, and zeros
  void start(const Part& part, std::size_t block, const Group& group, Work<T>& work, const T* initial) const {
    T* const border = store_.border(group.index);
    const std::size_t reach = of_segments_.reach(), channels = passes_.shape().d_model;
    for (std::size_t r = 0; r < reach && part.stretch.segments > 1; ++r) {
      const std::size_t t = part.stretch.length - reach + r;
      T* const to = work.h.row(r);
      std::fill_n(to, width(), T(0));
      for (std::size_t lane = 0; lane < group.count; ++lane) {
        if (part.stretch.is_first(group.first + lane)) continue;
        const std::size_t before = group.first + lane - 1;
        const T* const from = h(part, block, before / lanes_, t / kChunk).row(t % kChunk) + before % lanes_;
        for (std::size_t c = 0; c < channels; ++c) to[c * lanes_ + lane] = from[c * lanes_];
      }
    }
    zero(border);
    if (part.stretch.segments > 1) of_segments_.find_history(block, border, work.h, *work.layer);
    for (std::size_t lane = 0; lane < group.count; ++lane) {
      if (!part.stretch.is_first(group.first + lane)) continue;
      for (std::size_t i = lane; i < history_; i += lanes_) border[i] = 0;
      if (initial)
        load_lane(border, lane, of_caller(initial, part, group, lane, block), part.stretch.segments > 1);
    }
  }

  /// carried = decay·carried + border for the segments of a sequence, in their order or from the last to the
  /// first; each border becomes what was carried there. It begins with the caller's state. A sequence's segments
  /// fill groups (SegmentPlan::kLanes).
  void walk(const Part& part, std::size_t block, std::size_t sequence, const T* states, bool back) const {
    const std::size_t groups = part.stretch.segments / lanes_, first = sequence * groups;
    const T* const numbers =
        states ? states + sequence * passes_.shape().state_size() + block * block_numbers() : nullptr;
    for (std::size_t i = 0; i < block_numbers(); ++i) {
      const std::size_t place = passes_.place_of_state(i);
      if (place < history_) continue;
      T carried = numbers ? numbers[i] : T(0);
      const auto pass = [&](T& border, T decay) {
        const T next = decay * carried + border;
        border = carried;
        carried = next;
      };
      for (std::size_t g = 0; g < groups; ++g) {
        const std::size_t group = first + (back ? groups - 1 - g : g);
        T* const border = store_.border(group) + place;
        const T* const decay = store_.decay(group) + place;
        if (back)
          for (std::size_t lane = lanes_; lane-- > 0;) pass(border[lane], decay[lane]);
        else
          for (std::size_t lane = 0; lane < lanes_; ++lane) pass(border[lane], decay[lane]);
      }
    }
  }
  void walk_all(const Part& part, std::size_t block, const T* states, bool back) const {
    parallel_for(part.stretch.dims.batch, static_cast<int>(work_.size()),
                 [&](std::size_t sequence, std::size_t) { walk(part, block, sequence, states, back); });
  }

  // --- forward ---------------------------------------------------------------------------------------------

  void forward_blocks(const Part& part, const T* x, const T* initial, T* final) const {
    const std::size_t chunks = part.stretch.chunks();
    for_groups(part, [&](const Group& group, Work<T>& work) {
      for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        passes_.input_forward(record(part, group, chunk), work, {part.stretch, group, chunk}, x);
    });
    for (std::size_t block = 0; block < passes_.shape().n_blocks; ++block) {
      for_groups(part, [&](const Group& group, Work<T>& work) {
        start(part, block, group, work, initial);
        if (part.stretch.segments > 1) run_from_zero(part, block, group, work);
      });
      if (part.stretch.segments > 1) walk_all(part, block, initial, false);
      for_groups(part, [&](const Group& group, Work<T>& work) {
        copy(work.state, store_.border(group.index));
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
          const Record<T> kept = record(part, group, chunk);
          copy(kept.state + block * passes_.block_state(), work.state);
          blocks_.forward(block, passes_.block_input(kept, block + 1), passes_.block_input(kept, block),
                          work.state, *work.layer, part.stretch.rows_of(chunk));
        }
        for (std::size_t lane = 0; lane < group.count && final; ++lane)
          if (part.stretch.is_last(group.first + lane))
            store_lane(of_caller(final, part, group, lane, block), work.state, lane);
      });
    }
  }

  /// The linear part of border ← the state after each segment
  void run_from_zero(const Part& part, std::size_t block, const Group& group, Work<T>& work) const {
    T *const border = store_.border(group.index), *const sums = store_.sums(block, group.index);
    std::fill_n(sums, of_segments_.sum_vectors() * lanes_, T(0));
    copy(work.state, border);
    for (std::size_t chunk = 0; chunk < part.stretch.chunks(); ++chunk)
      of_segments_.advance(block, work.state, sums, h(part, block, group.index, chunk), *work.layer,
                           part.stretch.rows_of(chunk));
    copy_linear(border, work.state);
    of_segments_.find_decays(block, store_.decay(group.index), sums);
  }

  // --- backward --------------------------------------------------------------------------------------------

  void backward_stretch(const Part& part, const T* x, const T* grad_y, const T* d_final, T* d_initial, T* d_x,
                        std::span<const NetworkParameters<T>> slots) const {
    const std::size_t chunks = part.stretch.chunks();
    for_slots(part, slots, [&](const Group& group, Work<T>& work, const NetworkParameters<T>& d_w) {
      for (std::size_t chunk = chunks; chunk-- > 0;)
        passes_.head_backward(d_h(part, group.index, chunk), record(part, group, chunk), d_w, work,
                              {part.stretch, group, chunk}, grad_y);
    });
    for (std::size_t block = passes_.shape().n_blocks; block-- > 0;) {
      if (part.stretch.segments > 1) {
        for_groups(part,
                   [&](const Group& group, Work<T>& work) { back_from_zero(part, block, group, work); });
        walk_all(part, block, d_final, true);
      }
      for_slots(part, slots, [&](const Group& group, Work<T>& work, const NetworkParameters<T>& d_w) {
        backward_block(part, block, group, work, d_final, d_w);
        for (std::size_t lane = 0; lane < group.count && d_initial; ++lane)
          if (part.stretch.is_first(group.first + lane))
            store_lane(of_caller(d_initial, part, group, lane, block), work.d_state, lane);
      });
      if (part.stretch.segments > 1)
        for_slots(part, slots, [&](const Group& group, Work<T>& work, const NetworkParameters<T>& d_w) {
          join(part, block, group, work, d_w);
        });
    }
    for_slots(part, slots, [&](const Group& group, Work<T>& work, const NetworkParameters<T>& d_w) {
      for (std::size_t chunk = chunks; chunk-- > 0;)
        passes_.input_backward(d_h(part, group.index, chunk), d_w, work, {part.stretch, group, chunk}, x,
                               d_x);
    });
  }

  T* state_before(const Part& part, std::size_t block, const Group& group, std::size_t chunk) const {
    return record(part, group, chunk).state + block * passes_.block_state();
  }

  /// The linear part of border ← the gradient before each segment
  void back_from_zero(const Part& part, std::size_t block, const Group& group, Work<T>& work) const {
    zero(work.d_state);
    for (std::size_t chunk = part.stretch.chunks(); chunk-- > 0;)
      of_segments_.retreat(block, work.d_state, d_h(part, group.index, chunk),
                           h(part, block, group.index, chunk), state_before(part, block, group, chunk),
                           *work.layer, part.stretch.rows_of(chunk));
    copy_linear(store_.border(group.index), work.d_state);
    of_segments_.find_decays(block, store_.decay(group.index), store_.sums(block, group.index));
  }

  /// From the gradients after a group's segments, which are in border, to those before them, which replace them.
  void backward_block(const Part& part, std::size_t block, const Group& group, Work<T>& work,
                      const T* d_final, const NetworkParameters<T>& d_w) const {
    zero(work.d_state);
    if (part.stretch.segments > 1) copy_linear(work.d_state, store_.border(group.index));
    for (std::size_t lane = 0; lane < group.count && d_final; ++lane)
      if (part.stretch.is_last(group.first + lane))
        load_lane(work.d_state, lane, of_caller(d_final, part, group, lane, block),
                  part.stretch.segments > 1);
    for (std::size_t chunk = part.stretch.chunks(); chunk-- > 0;)
      blocks_.backward(block, d_h(part, group.index, chunk), work.d_state, d_w.blocks[block],
                       h(part, block, group.index, chunk), state_before(part, block, group, chunk),
                       *work.layer, part.stretch.rows_of(chunk));
    copy(store_.border(group.index), work.d_state);
  }

  /// What the segments behind a group's found for their histories goes to the last time points of the group's.
  void join(const Part& part, std::size_t block, const Group& group, Work<T>& work,
            const NetworkParameters<T>& d_w) const {
    const std::size_t reach = of_segments_.reach();
    std::fill_n(work.d_state, history_, T(0));
    for (std::size_t lane = 0; lane < group.count; ++lane) {
      if (part.stretch.is_last(group.first + lane)) continue;
      const std::size_t behind = group.first + lane + 1;
      const T* const from = store_.border(behind / lanes_) + behind % lanes_;
      for (std::size_t i = 0; i < history_; i += lanes_) work.d_state[i + lane] = from[i];
    }
    const auto row = [&](const Rows<T>& of_first, std::size_t t) { return of_first.row(t % kChunk); };
    const auto each_row = [&](const auto& body) {
      for (std::size_t r = 0; r < reach; ++r) {
        const std::size_t t = part.stretch.length - reach + r;
        body(r, row(h(part, block, group.index, t / kChunk), t), row(d_h(part, group.index, t / kChunk), t));
      }
    };
    each_row([&](std::size_t r, const T* of_h, const T* of_d_h) {
      std::copy_n(of_h, width(), work.h.row(r));
      std::copy_n(of_d_h, width(), work.d_h.row(r));
    });
    of_segments_.history_backward(block, work.d_h, d_w.blocks[block], work.h, work.d_state, *work.layer);
    each_row([&](std::size_t r, const T*, T* of_d_h) { std::copy_n(work.d_h.row(r), width(), of_d_h); });
  }

  const ChunkPasses<T>& passes_;
  const SequenceBlocks<T>& blocks_;
  const SegmentBlocks<T>& of_segments_;
  std::span<const std::unique_ptr<Work<T>>> work_;  // one a thread
  SegmentPlan plan_;
  const SegmentStore<T>& store_;
  std::size_t lanes_, history_;  // numbers of a block's history in a group
};

}  // namespace mac::cpu
