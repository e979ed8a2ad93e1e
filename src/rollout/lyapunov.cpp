#include "rollout/lyapunov.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/progress.hpp>
#include <mac/random.hpp>

#include "rollout/running_group.hpp"

namespace mac {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
// Small enough for the tangent, large enough that rounding in float64 does not matter: its square root.
constexpr double eps = 1e-7;

/// ln(|delta| / eps) of every step that counts.
class Growth {
 public:
  Growth(std::size_t times, double step)
      : first_(times / 4), span_(static_cast<double>(times - 1 - first_) * step) {}

  /// At saved time n, n = 1, 2, ...: the factor that takes delta back to eps; NaN where there is none.
  double factor(std::size_t n, double length) {
    if (!(length > 0) || !std::isfinite(length)) sum_ = nan;
    if (n > first_) sum_ += std::log(length / eps);
    return eps / length;
  }
  bool lost() const { return std::isnan(sum_); }
  double rate() const { return sum_ / span_; }

 private:
  std::size_t first_;
  double span_, sum_ = 0;
};

double root_mean_square(const double* values, std::size_t count) {
  double sum = 0;
  for (std::size_t k = 0; k < count; ++k) sum += values[k] * values[k];
  return std::sqrt(sum / static_cast<double>(count));
}

/// other = one + factor (other - one)
void rescale(const double* one, double* other, std::size_t count, double factor) {
  for (std::size_t k = 0; k < count; ++k) other[k] = one[k] + factor * (other[k] - one[k]);
}

double squared_distance(const double* one, const double* other, std::size_t count) {
  double sum = 0;
  for (std::size_t k = 0; k < count; ++k) sum += (other[k] - one[k]) * (other[k] - one[k]);
  return sum;
}

}  // namespace

std::vector<double> parting_rates(ClosureGroup& one, ClosureGroup& other, const GroupTask& task,
                                  const GroupStart& start, std::size_t first) {
  const std::size_t d = task.system.resolved_size(), c = task.system.closure_size(), count = task.count,
                    times = task.time.size(), memory = one.memory_size().value();
  RunningGroup a(one, task, start), b(other, task, start);
  std::vector<Growth> growth(count, Growth(times, task.dt));
  std::vector<double> scale(count), memory_a(count * memory), memory_b(count * memory);
  for (std::size_t i = 0; i < count; ++i) {
    const double size = root_mean_square(a.state(i), d);
    scale[i] = size > 0 ? size : 1;
    RandomStream random(0, Purpose::diagnosis, static_cast<std::uint32_t>(first + i));
    for (std::size_t v = 0; v < d; ++v) b.state(i)[v] += eps * scale[i] * random.normal();
  }
  for (std::size_t n = 0; n < times; ++n) {
    const std::size_t step = task.first_in_data + n;
    a.predict(step), b.predict(step);
    one.save_memory(memory_a.data()), other.save_memory(memory_b.data());
    for (std::size_t i = 0; i < count; ++i) {
      double* const m = memory_b.data() + i * memory;
      const double square = squared_distance(a.state(i), b.state(i), d) / (scale[i] * scale[i]) +
                            squared_distance(memory_a.data() + i * memory, m, memory);
      const double factor = n > 0 ? growth[i].factor(n, std::sqrt(square)) : 1;
      if (growth[i].lost()) {  // the group's arithmetic stays finite
        std::fill_n(a.state(i), d, 0.0), std::fill_n(b.state(i), d, 0.0);
        std::fill_n(a.closure_of(i), c, 0.0), std::fill_n(b.closure_of(i), c, 0.0);
        continue;
      }
      rescale(a.state(i), b.state(i), d, factor);
      rescale(a.closure_of(i), b.closure_of(i), c, factor);
      rescale(a.previous.data() + i * c, b.previous.data() + i * c, c, factor);
      rescale(memory_a.data() + i * memory, m, memory, factor);
    }
    if (memory > 0 && n > 0) other.restore_memory(memory_b.data());
    if (n + 1 < times) a.advance(step), b.advance(step);
    if (n % 64 == 0) throw_if_interrupted();
  }
  std::vector<double> rates;
  for (const Growth& of : growth) rates.push_back(of.rate());
  return rates;
}

}  // namespace mac
