// What a data file gives a network from outside, parameters, forcing and formulas, along a group of trajectories.
#pragma once

#include <algorithm>
#include <mac/data.hpp>

namespace mac {

/// For trajectories first, first + 1, ... of a split, which outlives it. Beyond the saved times formulas go on, and
/// forcing stays as it was at their end.
class GivenSeries {
 public:
  GivenSeries(const DataSplit& split, std::size_t first, std::size_t count)
      : split_(split),
        first_(first),
        count_(count),
        block_(std::clamp<std::size_t>(split.times(), 64, 4096)),
        size_(split.input_names().size()),
        now_(count * size_) {}

  /// (count, names) at saved time n; null where there is nothing.
  const double* at(std::size_t n) {
    if (now_.empty()) return nullptr;
    if (values_.empty() || n < begin_ || n >= begin_ + block_) read(n / block_ * block_);
    for (std::size_t i = 0; i < count_; ++i)
      std::copy_n(values_.data() + (i * block_ + n - begin_) * size_, size_, now_.data() + i * size_);
    return now_.data();
  }

 private:
  /// A block at a time: a rollout may go on for a million steps.
  void read(std::size_t begin) {
    begin_ = begin;
    values_.resize(count_ * block_ * size_);
    for (std::size_t i = 0; i < count_; ++i)
      split_.read_inputs(first_ + i, begin, block_, values_.data() + i * block_ * size_);
  }

  const DataSplit& split_;
  std::size_t first_, count_, block_, size_, begin_ = 0;
  std::vector<double> values_, now_;  // (count, block, names), (count, names)
};

}  // namespace mac
