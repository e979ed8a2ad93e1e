// The gradient of a batch whose sequences are shared among ranks, to the bytes of one process.
//
// An engine adds up weight gradients in slots (src/network/cpu/engine.cpp): groups of sequences in a slot, one after
// the other, then the slots. A rank that has all sequences of a slot computes it to the bit; what is left is the sum of
// the slots in their order.
//
// Ranks have either the sequences of their slots alone, or the whole batch: then each computes the groups of its slots,
// and they tell each other what comes out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace mac {

/// One rank's slots in a batch of which it has some sequences.
struct SlotPlan {
  std::size_t slots = 0;                         // of all ranks
  std::vector<std::size_t> owner;                // (slots): their ranks
  std::vector<std::size_t> mine;                 // slots that this rank computes, ascending
  std::vector<std::vector<std::size_t>> groups;  // (mine): their groups, as this rank counts them, ascending

  /// Those of all its slots.
  std::vector<std::size_t> all_groups() const {
    std::vector<std::size_t> all;
    for (const auto& of_slot : groups) all.insert(all.end(), of_slot.begin(), of_slot.end());
    return all;
  }
};

template <class T>
class GradientShare {
 public:
  virtual ~GradientShare() = default;
  /// Whether every rank has whole batches.
  virtual bool of_whole_batches() const = 0;
  /// For so many sequences of this rank, each of them a start of its own; null where nothing is shared.
  virtual const SlotPlan* plan(std::size_t sequences) = 0;
  /// sum ← slot 0 + slot 1 + ..., in this order, on every rank; slots[i] (size) is the plan's mine[i].
  virtual void add_up(const SlotPlan& plan, std::span<T* const> slots, std::size_t size, T* sum) = 0;
  /// Of whole batches: rows (sequences, width), of which this rank has those of its groups; then it has all.
  virtual void complete(const SlotPlan& plan, T* rows, std::size_t sequences, std::size_t width) = 0;
};

}  // namespace mac
