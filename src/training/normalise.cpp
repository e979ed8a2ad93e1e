#include "training/normalise.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <span>

#include "training/features.hpp"

namespace mac {

namespace {

/// Running statistics of each component.
class Statistics {
 public:
  explicit Statistics(std::size_t components)
      : shift_(components),
        sum_(components),
        squares_(components),
        largest_(components),
        counts_(components) {}

  void add(const std::vector<double>& rows) {
    const std::size_t n = sum_.size();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t v = i % n;
      if (std::isnan(rows[i])) continue;  // of a masked closure
      // Sums are taken around a first value: a mean far from zero costs no digits of the deviation.
      if (counts_[v]++ == 0) shift_[v] = rows[i];
      const double distance = rows[i] - shift_[v];
      sum_[v] += distance;
      squares_[v] += distance * distance;
      largest_[v] = std::max(largest_[v], std::abs(rows[i]));
    }
  }

  double mean(std::size_t v) const { return shift_[v] + sum_[v] / count(v); }
  double variance(std::size_t v) const {
    const double offset = sum_[v] / count(v);
    return std::max(0.0, squares_[v] / count(v) - offset * offset);
  }
  double largest(std::size_t v) const { return largest_[v]; }
  std::size_t size() const { return sum_.size(); }

 private:
  double count(std::size_t v) const { return static_cast<double>(counts_[v]); }
  std::vector<double> shift_, sum_, squares_, largest_;
  std::vector<std::size_t> counts_;
};

struct Scale {
  std::vector<double> mean, scale;
};

/// How a number is scaled: those of one group have one scale where the scaling is per_mode. A rotated mode has no mean.
struct Component {
  std::size_t group;
  bool zero_mean;
  bool from_outside;  // always by mean and standard deviation
};

Scale fit(const Statistics& statistics, Scaling scaling, const std::vector<Component>& components) {
  const std::size_t n = statistics.size();
  Scale out{std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t v = 0; v < n; ++v) {
    switch (components[v].from_outside ? Scaling::mean_std : scaling) {
      case Scaling::max_abs:
        out.scale[v] = statistics.largest(v);
        break;
      case Scaling::mean_std:
        out.mean[v] = statistics.mean(v);
        out.scale[v] = std::sqrt(statistics.variance(v));
        break;
      case Scaling::per_mode: {
        double members = 0, mean = 0, squares = 0;
        for (std::size_t w = 0; w < n; ++w) {
          if (components[w].group != components[v].group) continue;
          members += 1;
          mean += statistics.mean(w);
          squares += statistics.variance(w) + statistics.mean(w) * statistics.mean(w);
        }
        out.mean[v] = components[v].zero_mean ? 0 : mean / members;
        out.scale[v] = std::sqrt(squares / members - out.mean[v] * out.mean[v]);
      }
    }
  }
  return out;
}

constexpr double smallest_scale = 1e-100;  // squares of smaller numbers vanish, those of its inverse overflow

/// rows (times, names) of a trajectory, from the first time on; `masked`: NaN says that nobody knows the value
void check_rows(std::span<const double> rows, const std::vector<std::string>& names, const DataSplit& split,
                std::size_t trajectory, bool masked = false) {
  for (std::size_t k = 0; k < rows.size(); ++k)
    if (!std::isfinite(rows[k]) && !(masked && std::isnan(rows[k])))
      throw Error("split {}: {} is {} in trajectory {} at t = {:g}", split.name(), names[k % names.size()],
                  rows[k], trajectory, split.time()[k / names.size()]);
}

void check(const std::vector<double>& scale, const std::vector<std::string>& names) {
  for (std::size_t v = 0; v < scale.size(); ++v)
    if (!(scale[v] > 0) || !std::isfinite(scale[v]))
      throw Error("{} has no spread in the training data (scale {}), so it cannot be normalised", names[v],
                  scale[v]);
    else if (scale[v] < smallest_scale || scale[v] > 1 / smallest_scale)
      throw Error("{} has the scale {:.3g} in the training data: choose units in which it is nearer to 1",
                  names[v], scale[v]);
}

}  // namespace

std::vector<std::size_t> symmetry_groups(const System& system, std::size_t components) {
  check_symmetries(system);
  std::vector<std::size_t> group(components);
  for (std::size_t v = 0; v < components; ++v) group[v] = v;
  for (const Symmetry& symmetry : system.symmetries()) {
    if (symmetry.kind == Symmetry::Kind::fourier_translation)
      for (std::size_t v = 0; v < components; ++v) group[v] = v % system.fourier_modes();
    if (symmetry.kind == Symmetry::Kind::cyclic_shift) std::ranges::fill(group, 0);
  }
  return group;
}

void check_finite(const DataSplit& split, const System& system) {
  const std::size_t times = split.times();
  std::vector<double> rows(times * std::max(split.resolved_size(), split.closure_size()));
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    split.read_resolved(i, 0, times, rows.data());
    check_rows({rows.data(), times * split.resolved_size()}, system.resolved_names(), split, i);
    split.read_closure(i, 0, times, rows.data());
    check_rows({rows.data(), times * split.closure_size()}, system.closure_names(), split, i, split.masked());
    split.read_closure_mean(i, 0, times - 1, rows.data());
    check_rows({rows.data(), (times - 1) * split.closure_size()}, system.closure_names(), split, i,
               split.masked());
  }
}

namespace {

/// Features that are variables of one symmetry group share a scale.
std::vector<Component> components_of(const InputMap& inputs, const System& system) {
  const std::vector<std::size_t> group = symmetry_groups(system, system.resolved_size());
  std::vector<Component> components;
  for (std::size_t f = 0; f < inputs.features(); ++f) {
    const auto variable = inputs.variable_of(f);
    components.push_back({variable ? group[*variable] : group.size() + f,
                          variable && system.fourier_modes() > 0, inputs.is_given(f)});
  }
  return components;
}

/// u (times, sites, outputs) of C (times, c).
std::vector<double> outputs_of(const InputMap& inputs, const std::vector<double>& closure, std::size_t c) {
  std::vector<double> u;
  u.reserve(closure.size());
  for (std::size_t row = 0; row < closure.size(); row += c)
    for (std::size_t site = 0; site < inputs.sites(); ++site)
      for (std::size_t j = 0; j < inputs.outputs(); ++j) u.push_back(closure[row + inputs.closure(site, j)]);
  return u;
}

}  // namespace

FittedScales fit_scales(const DataSplit& train, const System& system, const InputMap& inputs, Scaling scaling,
                        Target target, std::size_t times) {
  const std::size_t d = train.resolved_size(), c = train.closure_size();
  Statistics resolved(d), features(inputs.features()), outputs(inputs.outputs());
  std::vector<double> rows;
  for (std::size_t i = 0; i < train.trajectories(); ++i) {
    rows.resize(times * d);
    train.read_resolved(i, 0, times, rows.data());
    check_rows(rows, system.resolved_names(), train, i);
    if (inputs.frame_modes() > 0) enter_frame(inputs.frame_modes(), rows.data(), rows.data(), times, d);
    resolved.add(rows);
    if (!inputs.is_plain()) {
      read_features(train, inputs, i, times, rows);
      features.add(rows);
    }
    read_closures(train, inputs, i, target, target == Target::instant ? times : times - 1, rows);
    check_rows(rows, system.closure_names(), train, i, train.masked());
    outputs.add(inputs.is_plain() ? rows : outputs_of(inputs, rows, c));
  }
  const Scale state = fit(resolved, scaling, components_of(InputMap(system), system));
  check(state.scale, system.resolved_names());
  const bool whole = inputs.sites() == 1;  // then the outputs are the system's closures
  std::vector<Component> closures;
  const std::vector<std::size_t> group = symmetry_groups(system, c);
  for (std::size_t j = 0; j < inputs.outputs(); ++j)
    closures.push_back({whole ? group[j] : j, whole && system.fourier_modes() > 0, false});
  const Scale input = inputs.is_plain() ? state : fit(features, scaling, components_of(inputs, system)),
              output = fit(outputs, scaling, closures);
  check(input.scale, inputs.feature_names());
  check(output.scale, inputs.output_names());
  return {{input.mean, input.scale, output.mean, output.scale}, state.scale};
}

}  // namespace mac
