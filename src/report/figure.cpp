#include "report/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

namespace mac::report {

namespace {

constexpr double share_below = 0.03;  // of a curve's points that may fall below the axis
constexpr double most_decades = 12;
constexpr double axis_room = 0.04;  // of the axis, beyond the curves at both ends

}  // namespace

std::vector<std::string> Figure::models() const {
  std::vector<std::string> names;
  for (const Panel& panel : panels)
    for (const Axes& axes : panel.axes)
      for (const Curve& curve : axes.curves)
        if (std::ranges::find(names, curve.model) == names.end()) names.push_back(curve.model);
  return names;
}

void make_names_safe(std::vector<Figure>& figures) {
  constexpr std::size_t longest = 100;
  std::set<std::string> taken;
  for (Figure& figure : figures) {
    std::string& name = figure.name;
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
    name.resize(std::min(name.size(), longest));
    const std::string first = name;
    for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}_{}", first, number);
  }
}

Curve thinned(const Curve& curve, std::size_t most) {
  const std::size_t n = curve.x.size();
  if (n <= most) return curve;
  Curve result{curve.model, {}, {}, curve.faint};
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t at = i * (n - 1) / (most - 1);
    result.x.push_back(curve.x[at]);
    result.y.push_back(curve.y[at]);
  }
  return result;
}

Curve smoothed(const Curve& curve, std::size_t most) {
  const std::size_t n = curve.x.size();
  if (n <= most) return curve;
  Curve result{curve.model, {}, {}, curve.faint};
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t first = i * n / most, last = (i + 1) * n / most;
    std::vector<double> run(curve.y.begin() + static_cast<std::ptrdiff_t>(first),
                            curve.y.begin() + static_cast<std::ptrdiff_t>(last));
    const auto middle = run.begin() + static_cast<std::ptrdiff_t>(run.size() / 2);
    std::ranges::nth_element(run, middle);
    result.x.push_back((curve.x[first] + curve.x[last - 1]) / 2);
    result.y.push_back(*middle);
  }
  return result;
}

AxisRange shown_range(const Axes& axes) {
  if (axes.y_range) return *axes.y_range;
  AxisRange range{INFINITY, -INFINITY};
  for (const Curve& curve : axes.curves) {
    std::vector<double> values;
    std::ranges::copy_if(curve.y, std::back_inserter(values),
                         [&](double y) { return std::isfinite(y) && (y > 0 || !axes.log_y); });
    if (values.empty()) continue;
    std::ranges::sort(values);
    const double skipped = axes.log_y ? share_below * static_cast<double>(values.size()) : 0;
    range.low = std::min(range.low, values[static_cast<std::size_t>(skipped)]);
    range.high = std::max(range.high, values.back());
  }
  if (range.low > range.high) return axes.log_y ? AxisRange{0.1, 1} : AxisRange{};
  if (axes.log_y) {
    range.low = std::max(range.low, range.high * std::pow(10, -most_decades));
    const double room = std::max(std::pow(range.high / range.low, axis_room), 1.1);
    return {range.low / room, range.high * room};
  }
  const double room = std::max(axis_room * (range.high - range.low), 1e-6 * std::abs(range.high) + 1e-12);
  return {range.low - room, range.high + room};
}

double axis_unit(AxisRange range) {
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  if (largest >= 0.02 && largest < 1e4) return 1;
  return std::pow(10, 3 * std::floor((std::log10(largest) + 0.7) / 3));
}

std::string power_of_ten(double exponent) {
  return fmt::format("10^{{{}{:g}}}", exponent < 0 ? "−" : "", std::abs(exponent));
}

std::vector<Tick> linear_ticks(AxisRange range, std::size_t most, double unit) {
  const double rough = (range.high - range.low) / static_cast<double>(most);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<Tick> ticks;
  const double slack = 1e-9 * step;
  // Far from zero n + 1 may be n: the count ends it, too.
  for (double n = std::ceil((range.low - slack) / step);
       n * step <= range.high + slack && ticks.size() <= most + 1; ++n) {
    const std::string number = fmt::format("{:.6g}", std::abs(n * step) < slack ? 0 : n * step / unit);
    ticks.push_back({n * step, number.starts_with('-') ? "−" + number.substr(1) : number});
  }
  return ticks;
}

std::vector<Tick> log_ticks(AxisRange range, std::size_t most) {
  const double first = std::ceil(std::log10(range.low) - 1e-9),
               last = std::floor(std::log10(range.high) + 1e-9);
  std::vector<Tick> ticks;
  if (last - first >= 1) {
    const double every = std::ceil((last - first + 1) / static_cast<double>(most));
    for (double k = std::ceil(first / every) * every; k <= last; k += every)
      ticks.push_back({std::pow(10, k), power_of_ten(k)});
    return ticks;
  }
  for (double k = first - 1; k <= last + 1; ++k)
    for (const double factor : {1.0, 2.0, 5.0})
      if (const double at = factor * std::pow(10, k); at >= range.low && at <= range.high)
        ticks.push_back({at, fmt::format("{:g}", at)});
  return ticks;
}

}  // namespace mac::report
