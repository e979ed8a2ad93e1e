// What a data file gives a network from outside, parameters and forcing, along a group of trajectories.
#pragma once

#include <algorithm>
#include <mac/data.hpp>

namespace mac {

/// For trajectories first, first + 1, ... of a split. Beyond the data it stays as it was at their end.
class GivenSeries {
 public:
  GivenSeries(const DataSplit& split, std::size_t first, std::size_t count)
      : count_(count),
        times_(split.times()),
        size_(split.input_names().size()),
        values_(count * times_ * size_),
        now_(count * size_) {
    for (std::size_t i = 0; i < count && size_ > 0; ++i)
      split.read_inputs(first + i, 0, times_, values_.data() + i * times_ * size_);
  }

  /// (count, names) at saved time n; null where there is nothing.
  const double* at(std::size_t n) {
    if (now_.empty()) return nullptr;
    for (std::size_t i = 0; i < count_; ++i)
      std::copy_n(values_.data() + (i * times_ + std::min(n, times_ - 1)) * size_, size_,
                  now_.data() + i * size_);
    return now_.data();
  }

 private:
  std::size_t count_, times_, size_;
  std::vector<double> values_, now_;  // (count, times, names), (count, names)
};

}  // namespace mac
