// The part of a batch that a rank works on. Each rank has whole slots of the engine's gradient sum
// (network/gradient_share.hpp), so that losses and gradients are those of one process, bit for bit, for any number of
// ranks. Where a batch has fewer slots than there are ranks, the ranks that are left do what another one does, too, and
// nobody counts it.
//
// Where slots are made of whole samples, a rank has those samples and no others. Samples of several sequences (the sites
// of a local network) whose number does not divide that of a group lie across slots: then every rank has all samples,
// and what is shared is the network. Chains of single steps that do not fit are computed by every rank: a step takes
// less time than to tell the others its memory.
#pragma once

#include <map>

#include "network/gradient_share.hpp"
#include "parallel/ranks.hpp"

namespace mac {

/// What a loss does with a batch, as far as it decides who can do it.
struct BatchForm {
  std::size_t samples = 0;  // of the whole batch
  std::size_t at_once = 0;  // samples that go through the network together, a divisor of `samples`
  bool chains = false;  // the network takes single steps from several starts, ordered by start, then sequence
  std::size_t sequences = 1;  // of a sample, side by side: sites of a local network, members of an ensemble
};

class BatchShare {
 public:
  /// lanes: sequences of a group of the engine.
  BatchShare(const BatchForm& form, std::size_t lanes, Ranks& ranks);

  std::size_t whole() const { return form_.samples; }
  /// Ranks that have a part of their own.
  std::size_t parts() const { return parts_; }
  /// Whether a part is some of the groups of sequences, not of the samples: those every rank has.
  bool of_whole_batches() const { return of_whole_batches_; }
  /// Samples of the batch that this rank works on, ascending.
  const std::vector<std::size_t>& samples() const { return samples_; }
  /// Where so many sequences of this rank go through the network; of more than one part.
  const SlotPlan& plan(std::size_t sequences) const;
  /// The rows (samples, width) of all samples, in their order, of which each rank has its own.
  std::vector<double> collect(const std::vector<double>& mine, std::size_t width) const;
  Ranks& ranks() const { return ranks_; }
  std::size_t lanes() const { return lanes_; }

 private:
  std::vector<std::size_t> rows_of(std::size_t part) const;  // groups of `at_once` samples that are a part's
  std::vector<std::size_t> samples_of(std::size_t part) const;
  void plan_samples(std::size_t sequences, SlotPlan& plan) const;
  void plan_groups(std::size_t sequences, SlotPlan& plan) const;

  BatchForm form_;
  std::size_t lanes_;       // sequences of a group ...
  std::size_t group_size_;  // ... and samples
  bool by_samples_;         // else groups are not made of whole samples
  bool of_whole_batches_;
  std::size_t rows_, residues_, parts_;
  Ranks& ranks_;
  std::vector<std::size_t> samples_;
  mutable std::map<std::size_t, SlotPlan> plans_;  // by the number of sequences
};

template <class T>
class SharedGradient final : public GradientShare<T> {
 public:
  /// From now on batches are shared like this; null: not at all.
  void use(const BatchShare* share) { share_ = share; }

  bool of_whole_batches() const override { return share_ && share_->of_whole_batches(); }
  const SlotPlan* plan(std::size_t sequences) override {
    return share_ && share_->parts() > 1 ? &share_->plan(sequences) : nullptr;
  }
  void add_up(const SlotPlan& plan, std::span<T* const> slots, std::size_t size, T* sum) override;
  void complete(const SlotPlan& plan, T* rows, std::size_t sequences, std::size_t width) override;

 private:
  const BatchShare* share_ = nullptr;
  std::vector<T> out_, in_;
};

}  // namespace mac
