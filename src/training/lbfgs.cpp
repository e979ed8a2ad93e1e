#include "training/lbfgs.hpp"

#include <algorithm>
#include <cmath>

namespace mac {

namespace {

constexpr double c1 = 1e-4, c2 = 0.9;  // Nocedal & Wright's for quasi-Newton methods
constexpr std::size_t most_trials = 12;
constexpr double stretch = 2.5;  // of a step that is still going down

template <class T>
double dot(std::span<const T> a, std::span<const T> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <class T>
double dot(const std::vector<T>& a, const std::vector<T>& b) {
  return dot<T>(std::span<const T>(a), std::span<const T>(b));
}

template <class T>
void add(double factor, const std::vector<T>& from, std::vector<T>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<T>(factor * static_cast<double>(from[i]));
}

/// The least point of the cubic through two points and their slopes, kept from the ends of the interval.
double between(double a, double fa, double da, double b, double fb, double db) {
  const double theta = da + db - 3 * (fa - fb) / (a - b);
  const double square = theta * theta - da * db;
  double least = (a + b) / 2;
  if (square >= 0) {
    const double root = std::copysign(std::sqrt(square), b - a);
    const double found = b - (b - a) * (db + root - theta) / (db - da + 2 * root);
    if (std::isfinite(found)) least = found;
  }
  const double low = std::min(a, b), high = std::max(a, b), margin = 0.1 * (high - low);
  return std::clamp(least, low + margin, high - margin);
}

}  // namespace

template <class T>
Lbfgs<T>::Lbfgs(Function function, std::size_t parameters, double first_length)
    : function_(std::move(function)),
      n_(parameters),
      first_length_(first_length),
      gradient_(parameters),
      direction_(parameters),
      trial_(parameters) {}

template <class T>
auto Lbfgs<T>::step(std::span<T> weights) -> Step {
  if (!known_) loss_ = function_(weights, gradient_);
  known_ = true;
  Step report{loss_, std::sqrt(dot(gradient_, gradient_)), 0};
  if (report.gradient_norm == 0) return report;
  report.length = try_direction(weights);
  if (report.length == 0 && !s_.empty()) {
    s_.clear(), y_.clear();
    report.length = try_direction(weights);
  }
  return report;
}

/// Goes along the direction that the pairs give, if it leads down; returns how far it went.
template <class T>
double Lbfgs<T>::try_direction(std::span<T> weights) {
  find_direction();
  const double norm = std::sqrt(dot(direction_, direction_));
  if (!(dot(direction_, gradient_) < 0) || !std::isfinite(norm)) return 0;
  const Point found = search(weights, s_.empty() ? first_length_ / norm : 1.0);
  if (!(found.loss < loss_)) return 0;
  remember(found.step, found.gradient);
  for (std::size_t i = 0; i < n_; ++i)
    weights[i] += static_cast<T>(found.step * static_cast<double>(direction_[i]));
  loss_ = found.loss;
  gradient_ = found.gradient;
  return found.step * norm;
}

/// The two loops of algorithm 7.4.
template <class T>
void Lbfgs<T>::find_direction() {
  direction_ = gradient_;
  std::vector<double> alpha(s_.size());
  for (std::size_t i = s_.size(); i-- > 0;) {
    alpha[i] = dot(s_[i], direction_) / dot(s_[i], y_[i]);
    add(-alpha[i], y_[i], direction_);
  }
  if (!s_.empty()) {
    const double gamma = dot(s_.back(), y_.back()) / dot(y_.back(), y_.back());
    for (T& value : direction_) value = static_cast<T>(gamma * static_cast<double>(value));
  }
  for (std::size_t i = 0; i < s_.size(); ++i)
    add(alpha[i] - dot(y_[i], direction_) / dot(s_[i], y_[i]), s_[i], direction_);
  for (T& value : direction_) value = -value;
}

template <class T>
auto Lbfgs<T>::at(std::span<const T> weights, double step) -> Point {
  for (std::size_t i = 0; i < n_; ++i)
    trial_[i] = weights[i] + static_cast<T>(step * static_cast<double>(direction_[i]));
  Point point{.step = step, .gradient = std::vector<T>(n_)};
  point.loss = function_(trial_, point.gradient);
  point.slope = dot(point.gradient, direction_);
  if (!std::isfinite(point.loss) || !std::isfinite(point.slope)) point.loss = INFINITY, point.slope = 0;
  return point;
}

/// Algorithm 3.5: steps grow until one is good, or until two of them have a good one between them.
template <class T>
auto Lbfgs<T>::search(std::span<const T> weights, double first) -> Point {
  Point before{0, loss_, dot(gradient_, direction_), gradient_};
  const double slope = before.slope;
  double step = first;
  for (std::size_t trial = 0; trial < most_trials; ++trial) {
    Point here = at(weights, step);
    const bool down = here.loss <= loss_ + c1 * step * slope;
    if (!down || (trial > 0 && here.loss >= before.loss)) return zoom(weights, before, here);
    if (std::abs(here.slope) <= c2 * -slope) return here;
    if (here.slope >= 0) return zoom(weights, here, before);
    before = std::move(here);
    step *= stretch;
  }
  return before;
}

/// Algorithm 3.6: `low` is the better end of an interval that holds a good step.
template <class T>
auto Lbfgs<T>::zoom(std::span<const T> weights, Point low, Point high) -> Point {
  const double slope = dot(gradient_, direction_);
  for (std::size_t trial = 0; trial < most_trials; ++trial) {
    const double step = std::isfinite(high.loss)
                            ? between(low.step, low.loss, low.slope, high.step, high.loss, high.slope)
                            : low.step + 0.1 * (high.step - low.step);
    Point here = at(weights, step);
    if (here.loss > loss_ + c1 * step * slope || here.loss >= low.loss) {
      high = std::move(here);
      continue;
    }
    if (std::abs(here.slope) <= c2 * -slope) return here;
    if (here.slope * (high.step - low.step) >= 0) high = std::move(low);
    low = std::move(here);
  }
  return low;
}

template <class T>
void Lbfgs<T>::remember(double step, const std::vector<T>& gradient) {
  std::vector<T> s(n_), y(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    s[i] = static_cast<T>(step * static_cast<double>(direction_[i]));
    y[i] = gradient[i] - gradient_[i];
  }
  if (!(dot(s, y) > 1e-12 * dot(y, y))) return;  // no curvature to learn from
  s_.push_back(std::move(s));
  y_.push_back(std::move(y));
  if (s_.size() > most_pairs) s_.erase(s_.begin()), y_.erase(y_.begin());
}

template <class T>
OptimiserState<T> Lbfgs<T>::state() const {
  OptimiserState<T> state;
  for (std::size_t i = 0; i < s_.size(); ++i) {
    std::ranges::copy(s_[i], std::back_inserter(state[weight_changes_key]));
    std::ranges::copy(y_[i], std::back_inserter(state[gradient_changes_key]));
  }
  return state;
}

template <class T>
void Lbfgs<T>::restore(const OptimiserState<T>& state) {
  known_ = false;
  s_.clear(), y_.clear();
  const auto split = [&](const std::string& key, std::vector<std::vector<T>>& pairs) {
    const auto found = state.find(key);
    if (found == state.end()) return;
    for (auto from = found->second.begin(); from != found->second.end();
         from += static_cast<std::ptrdiff_t>(n_))
      pairs.emplace_back(from, from + static_cast<std::ptrdiff_t>(n_));
  };
  split(weight_changes_key, s_);
  split(gradient_changes_key, y_);
}

template class Lbfgs<float>;
template class Lbfgs<double>;

}  // namespace mac
