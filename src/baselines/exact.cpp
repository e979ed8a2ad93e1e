// The true closure C of eq. (2), eq_rom1, of the paper, read from the data and held over the step: the floor
// under every model's error.
#include <fmt/format.h>

#include <algorithm>
#include <mac/error.hpp>
#include <mac/rollout.hpp>
#include <vector>

namespace mac {

namespace {

class TrueClosure final : public ClosureGroup {
 public:
  TrueClosure(const DataSplit& split, std::size_t first, std::size_t count, Target target)
      : data_times_(split.times()),
        end_(split.time().back()),
        times_(target == Target::instant ? split.times() : split.times() - 1),
        count_(count),
        c_(split.closure_size()),
        values_(count * times_ * c_) {
    if (split.masked())
      throw UsageError(
          "the closure of split {} is not known everywhere (rows were missing): there is no exact one",
          split.name());
    for (std::size_t i = 0; i < count; ++i) {
      double* out = values_.data() + i * times_ * c_;
      if (target == Target::instant)
        split.read_closure(first + i, 0, times_, out);
      else
        split.read_closure_mean(first + i, 0, times_, out);
    }
  }

  void predict(std::size_t n, const double*, double* closure) override {
    if (n >= data_times_)
      throw UsageError("the exact closure is known to t = {:g}, where the data end: roll it out no further",
                       end_);
    const std::size_t known = std::min(n, times_ - 1);  // the last time has no interval after it, so no mean
    for (std::size_t i = 0; i < count_; ++i)
      std::copy_n(values_.data() + (i * times_ + known) * c_, c_, closure + i * c_);
  }

 private:
  std::size_t data_times_;
  double end_;
  std::size_t times_, count_, c_;
  std::vector<double> values_;
};

class Exact final : public ClosureModel {
 public:
  explicit Exact(HeldClosure held) : held_(held) {}
  std::string name() const override {
    return fmt::format("exact_{}{}", held_.target == Target::mean ? "mean_" : "", to_string(held_.hold));
  }
  HeldClosure held() const override { return held_; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                      std::size_t count) const override {
    return std::make_unique<TrueClosure>(split, first, count, held_.target);
  }

 private:
  HeldClosure held_;
};

}  // namespace

std::unique_ptr<ClosureModel> make_exact(HeldClosure held) {
  if (held.hold == Hold::stage)
    throw UsageError("the exact closure is known at saved times only: its hold is zero or linear, not stage");
  return std::make_unique<Exact>(held);
}

}  // namespace mac
