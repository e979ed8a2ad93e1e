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
// - Few long sequences are cut in segments, which are what lies in the lanes then: segments.hpp.
#include "network/cpu/engine.hpp"

#include <algorithm>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <span>

#include "network/cpu/segments.hpp"
#include "network/ensemble_engine.hpp"
#include "parallel/parallel_for.hpp"

namespace mac {
namespace cpu {
namespace {

/// sum (count) += numbers
template <class T>
void add(T* __restrict sum, const T* __restrict numbers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += numbers[i];
}

/// Everything a pass needs whose size depends on batch and time.
template <class T>
struct CpuTape : Tape {
  Arena<T> arena;
  SequenceDims largest;
  bool has_records = false;  // what follows is there
  bool complete = false;     // records of all chunks are kept
  RecordStore<T> records;    // complete: (group, chunk); else (thread, chunk of the segment)
  T* checkpoints = nullptr;  // unless complete: (group, segment, state_size, lane)
  SegmentStore<T> segments;  // of a batch in segments

  CpuTape(std::size_t lanes, SequenceDims dims) : arena(lanes), largest(dims) {}
};

template <class T>
class CpuEngine final : public SequenceEngine<T> {
 public:
  CpuEngine(const NetworkShape& shape, int threads, EngineOptions options, GradientShare<T>* share)
      : options_(options),
        share_(share),
        passes_(shape),
        threads_(std::max(threads, 1)),
        lanes_(passes_.lanes()),
        arena_(lanes_) {
    for (int i = 0; i < threads_; ++i)
      work_.push_back(std::make_unique<Work<T>>(shape, passes_.blocks(), lanes_));
  }

  const NetworkShape& shape() const override { return passes_.shape(); }

  std::unique_ptr<Tape> make_tape(SequenceDims largest) override {
    auto tape = std::make_unique<CpuTape<T>>(lanes_, largest);
    // What other shapes or a share of a batch need beside, the first of them gets.
    if (const SegmentPlan plan = plan_of(largest); !plan.cuts())
      reserve(*tape);
    else if (!share_)
      reserve(tape->segments, plan);
    return tape;
  }

  void forward(const T* parameters, SequenceDims dims, const T* x, T* y, const T* initial_state,
               T* final_state, Tape* tape) override {
    auto* const kept = tape ? &check(*tape, dims) : nullptr;
    passes_.take_parameters(parameters);
    if (kept && cuts(dims)) {
      reserve(kept->segments, plan_of(dims));
      in_segments(*kept, dims).forward(x, y, initial_state, final_state);
      return;
    }
    if (kept) reserve(*kept);
    const Stretch all = whole_sequences(dims);
    const SlotPlan* const plan = share_ && share_->of_whole_batches() ? share_->plan(dims.batch) : nullptr;
    const std::vector<std::size_t> mine = plan ? plan->all_groups() : std::vector<std::size_t>();
    parallel_for(
        plan ? mine.size() : passes_.group_count(all), threads_, [&](std::size_t i, std::size_t thread) {
          const std::size_t index = plan ? mine[i] : i;
          Work<T>& work = *work_[thread];
          const Group group = passes_.group_at(index, all);
          passes_.load_state(work.state, initial_state, group);
          for (std::size_t chunk = 0; chunk < all.chunks(); ++chunk) {
            const bool complete = kept && kept->complete;
            if (kept && !complete && chunk % kSegment == 0)
              passes_.copy_state(checkpoint(*kept, all, group, chunk / kSegment), work.state);
            const Record<T> record = complete ? kept->records.at(index * all.chunks() + chunk) : work.record;
            passes_.forward(record, work, {all, group, chunk}, x);
            passes_.head_forward(record, work, {all, group, chunk}, y);
          }
          if (final_state) passes_.store_state(final_state, work.state, group);
        });
    if (!plan) return;
    share_->complete(*plan, y, dims.batch, dims.time * shape().d_out);
    if (final_state) share_->complete(*plan, final_state, dims.batch, shape().state_size());
  }

  void backward(const T* parameters, SequenceDims dims, const T* x, const T* initial_state, const T* grad_y,
                Tape& tape, const Gradients<T>& gradients) override {
    CpuTape<T>& kept = check(tape, dims);
    passes_.take_parameters(parameters);
    if (cuts(dims)) {
      const std::size_t slots = slot_count(passes_.group_count(plan_of(dims).at(0)));
      for (std::size_t slot = 0; slot < slots; ++slot) std::fill_n(slots_[slot], weights(), T(0));
      in_segments(kept, dims)
          .backward(x, initial_state, grad_y, gradients, std::span(slot_views_).first(slots));
      add_up_slots(slots, gradients);
      return;
    }
    const Stretch all = whole_sequences(dims);
    const auto add_group = [&](std::size_t slot, std::size_t thread, std::size_t index) {
      backward_group(kept, slot_views_[slot], thread, all, passes_.group_at(index, all), x, grad_y,
                     gradients);
    };
    const SlotPlan* const plan = share_ ? share_->plan(dims.batch) : nullptr;
    const std::size_t groups = passes_.group_count(all),
                      slots = plan ? plan->mine.size() : slot_count(groups);
    parallel_for(slots, threads_, [&](std::size_t slot, std::size_t thread) {
      std::fill_n(slots_[slot], weights(), T(0));
      if (plan)
        for (const std::size_t index : plan->groups[slot]) add_group(slot, thread, index);
      else
        for (std::size_t index = slot; index < groups; index += slots) add_group(slot, thread, index);
    });
    if (!plan) {
      add_up_slots(slots, gradients);
      return;
    }
    sum_.resize(weights());
    share_->add_up(*plan, std::span(slots_).first(slots), weights(), sum_.data());
    add(gradients.parameters, sum_.data(), weights());
    if (!share_->of_whole_batches()) return;
    if (gradients.x) share_->complete(*plan, gradients.x, dims.batch, dims.time * shape().d_in);
    if (gradients.initial_state)
      share_->complete(*plan, gradients.initial_state, dims.batch, shape().state_size());
  }

 private:
  std::size_t weights() const { return passes_.layout().size(); }
  static std::size_t slot_count(std::size_t groups) { return std::min(groups, largest_slot_count); }
  std::size_t segment_count(const Stretch& all) const { return (all.chunks() + kSegment - 1) / kSegment; }
  T* checkpoint(const CpuTape<T>& tape, const Stretch& all, const Group& group, std::size_t segment) const {
    return tape.checkpoints + (group.index * segment_count(all) + segment) * shape().state_size() * lanes_;
  }
  CpuTape<T>& check(Tape& tape, SequenceDims dims) const {
    auto& kept = dynamic_cast<CpuTape<T>&>(tape);
    if (dims.batch > kept.largest.batch || dims.time > kept.largest.time)
      throw Error("a batch of {} sequences of {} time points does not fit a tape made for {} of {}",
                  dims.batch, dims.time, kept.largest.batch, kept.largest.time);
    return kept;
  }

  /// Records of whole sequences, or what they are made from again.
  void reserve(CpuTape<T>& tape) {
    if (tape.has_records) return;
    tape.has_records = true;
    const Stretch all = whole_sequences(tape.largest);
    const std::size_t groups = passes_.group_count(all), chunks = all.chunks();
    const std::size_t record = RecordStore<T>::record_size(shape(), lanes_) * sizeof(T);
    tape.complete = groups * chunks * record <= options_.record_bytes;
    const std::size_t records =
        tape.complete ? groups * chunks : static_cast<std::size_t>(threads_) * kSegment;
    tape.records = RecordStore<T>(tape.arena, shape(), lanes_, records);
    if (!tape.complete)
      tape.checkpoints = tape.arena.vectors(groups * segment_count(all) * shape().state_size());
    reserve_slots(groups);
  }

  void reserve_slots(std::size_t groups) {
    while (slots_.size() < slot_count(groups)) {
      slots_.push_back(arena_.numbers(weights()));
      slot_views_.push_back(view_parameters<T>(shape(), passes_.layout(), slots_.back()));
    }
  }

  void add_up_slots(std::size_t slots, const Gradients<T>& gradients) {
    for (std::size_t slot = 1; slot < slots; ++slot) add(slots_[0], slots_[slot], weights());
    add(gradients.parameters, slots_[0], weights());
  }

  // --- few long sequences (segments.hpp) -------------------------------------------------------------------

  SegmentPlan plan_of(SequenceDims dims) const {
    return {dims,
            passes_.blocks().segments() ? RecordStore<T>::record_size(shape(), 1) * sizeof(T) / kChunk : 0,
            options_.record_bytes};
  }
  /// Parts of a batch that ranks share are not cut: the whole of it is not, either (largest_cut_batch).
  bool cuts(SequenceDims dims) const { return plan_of(dims).cuts() && !(share_ && share_->plan(dims.batch)); }
  void reserve(SegmentStore<T>& store, const SegmentPlan& plan) {
    store.reserve(plan, passes_);
    reserve_slots(passes_.group_count(plan.at(0)));
  }
  SegmentPasses<T> in_segments(const CpuTape<T>& tape, SequenceDims dims) const {
    return {passes_, work_, plan_of(dims), tape.segments};
  }

  // --- whole sequences -------------------------------------------------------------------------------------

  void backward_group(CpuTape<T>& tape, const NetworkParameters<T>& d_w, std::size_t thread,
                      const Stretch& all, const Group& group, const T* x, const T* grad_y,
                      const Gradients<T>& gradients) const {
    Work<T>& work = *work_[thread];
    passes_.load_state(work.d_state, gradients.final_state, group);
    const std::size_t chunks = all.chunks(), length = tape.complete ? chunks : kSegment;
    for (std::size_t begin = (chunks - 1) / length * length;; begin -= length) {
      const std::size_t first_record = tape.complete ? group.index * chunks : thread * kSegment;
      const std::size_t end = std::min(begin + length, chunks);
      const auto record_of = [&](std::size_t chunk) { return tape.records.at(first_record + chunk - begin); };
      if (!tape.complete) {
        passes_.copy_state(work.state, checkpoint(tape, all, group, begin / kSegment));
        for (std::size_t chunk = begin; chunk < end; ++chunk)
          passes_.forward(record_of(chunk), work, {all, group, chunk}, x);
      }
      for (std::size_t chunk = end; chunk-- > begin;)
        passes_.backward(record_of(chunk), d_w, work, {all, group, chunk}, x, grad_y, gradients.x);
      if (begin == 0) break;
    }
    if (gradients.initial_state) passes_.store_state(gradients.initial_state, work.d_state, group);
  }

  EngineOptions options_;
  GradientShare<T>* share_;
  std::vector<T> sum_;  // of all ranks' slots
  ChunkPasses<T> passes_;
  int threads_;
  std::size_t lanes_;
  Arena<T> arena_;
  std::vector<T*> slots_;  // (parameter_count) each: gradients being summed
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
