// The samples of a batch that a rank works on. Each rank has whole slots of the engine's gradient sum
// (network/gradient_share.hpp), so that losses and gradients are those of one process, bit for bit, for any number of
// ranks. Where a batch has fewer slots than there are ranks, the ranks that are left do what another one does, too, and
// nobody counts it.
#pragma once

#include <map>

#include "network/gradient_share.hpp"
#include "parallel/ranks.hpp"

namespace mac {

/// What a loss does with a batch, as far as it decides who can do it.
struct BatchForm {
  std::size_t samples = 0;  // of the whole batch
  std::size_t at_once = 0;  // samples that go through the network together, a divisor of `samples`
  bool chains =
      false;  // the network sees several sequences a sample, ordered by their start, then the sample
  std::size_t sites =
      1;  // of a local network: a sample is so many sequences, and groups of them are not samples'
};

class BatchShare {
 public:
  /// group_size: sequences of a group of the engine.
  BatchShare(const BatchForm& form, std::size_t group_size, Ranks& ranks);

  std::size_t whole() const { return form_.samples; }
  /// Ranks that have a part of their own.
  std::size_t parts() const { return parts_; }
  /// Samples of the batch that this rank works on, ascending.
  const std::vector<std::size_t>& samples() const { return samples_; }
  /// Where so many of them, or chains of them, go through the network; of more than one part.
  const SlotPlan& plan(std::size_t sequences) const;
  /// The sum over all samples, in their order, of a number that each rank has for its own.
  double sum(const std::vector<double>& mine) const;
  Ranks& ranks() const { return ranks_; }

 private:
  std::vector<std::size_t> rows_of(std::size_t part) const;  // groups of `at_once` samples that are a part's
  std::vector<std::size_t> samples_of(std::size_t part) const;

  BatchForm form_;
  std::size_t group_size_, rows_, residues_, parts_;
  Ranks& ranks_;
  std::vector<std::size_t> samples_;
  mutable std::map<std::size_t, SlotPlan> plans_;  // by the number of sequences
};

template <class T>
class SharedGradient final : public GradientShare<T> {
 public:
  /// From now on batches are shared like this; null: not at all.
  void use(const BatchShare* share) { share_ = share; }

  const SlotPlan* plan(std::size_t sequences) override {
    return share_ && share_->parts() > 1 ? &share_->plan(sequences) : nullptr;
  }
  void add_up(const SlotPlan& plan, std::span<T* const> slots, std::size_t size, T* sum) override;

 private:
  const BatchShare* share_ = nullptr;
  std::vector<T> out_, in_;
};

}  // namespace mac
