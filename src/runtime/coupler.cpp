#include "runtime/coupler.hpp"

#include <algorithm>
#include <cmath>

namespace mac {

namespace {

/// a/b where that is a whole number, else 0.
std::size_t multiple(double a, double b) {
  const double ratio = a / b, whole = std::round(ratio);
  if (!(whole >= 1 && whole < 1e9) || std::abs(ratio - whole) > 1e-9 * whole) return 0;
  return static_cast<std::size_t>(whole);
}

}  // namespace

RuntimeCoupler::RuntimeCoupler(RuntimeState& state, double host_step, double closure_step, Hold hold)
    : state_(state),
      hold_(hold),
      now_(state.columns() * state.model().model.input_size()),
      y_(now_.size()),
      between_(now_.size()),
      closure_(state.columns() * state.model().model.shape.d_out),
      previous_(closure_.size()) {
  if (hold == Hold::stage)
    throw UsageError("the hold is \"stage\", which has no closure between steps: expected zero or linear");
  if (!(host_step > 0) || !std::isfinite(host_step))
    throw UsageError("the host step is {}: expected a positive number", host_step);
  if (!(closure_step > 0)) throw UsageError("{} does not say its closure step: give it", state.model().file);
  if (const std::size_t n = multiple(closure_step, host_step); n > 0)
    host_steps_ = n;
  else if (const std::size_t m = multiple(host_step, closure_step); m > 0)
    closure_steps_ = m;
  else
    throw UsageError("the host step {} neither divides the closure step {} nor is a multiple of it",
                     host_step, closure_step);
}

void RuntimeCoupler::begin() {
  const std::size_t inputs = model().model.input_size(), outputs = model().model.shape.d_out;
  const auto step = [&](const std::vector<double>& from) {
    state_.step(StridedLayout<const double>{rows(from.data(), inputs)},
                StridedLayout<double>{rows(closure_.data(), outputs)});
  };
  if (begun_ % host_steps_ == 0) {
    if (closure_steps_ > 1) previous_ = closure_;
    for (std::size_t k = 1; k < closure_steps_ && begun_ > 0; ++k) {
      const double share = static_cast<double>(k) / static_cast<double>(closure_steps_);
      for (std::size_t i = 0; i < y_.size(); ++i) between_[i] = y_[i] + share * (now_[i] - y_[i]);
      step(between_);
    }
    step(now_);
  }
  std::swap(now_, y_);
  ++begun_;
}

double RuntimeCoupler::share_of_line(double fraction) const {
  // A mean over a closure step stands for its middle.
  const double pivot = model().held.target == Target::mean ? 0.5 / static_cast<double>(closure_steps_) : 0;
  return hold_ == Hold::linear && begun_ > 1 ? fraction - pivot : 0;
}

void RuntimeCoupler::save(double* numbers) const {
  *numbers++ = static_cast<double>(begun_);
  for (const auto* array : {&y_, &closure_, &previous_}) numbers = std::ranges::copy(*array, numbers).out;
}

void RuntimeCoupler::restore(const double* numbers) {
  for (std::size_t i = 0; i < saved_size(); ++i)
    if (!std::isfinite(numbers[i])) throw NotFinite("number {} of the saved coupler is {}", i, numbers[i]);
  if (numbers[0] < 0 || numbers[0] != std::floor(numbers[0]) || numbers[0] > 9e15)
    throw Error("the saved coupler has begun {} host steps", numbers[0]);
  begun_ = static_cast<std::uint64_t>(*numbers++);
  for (auto* array : {&y_, &closure_, &previous_}) {
    std::copy_n(numbers, array->size(), array->begin());
    numbers += array->size();
  }
}

}  // namespace mac
