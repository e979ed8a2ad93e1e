#include "data/import/survey.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <mac/random.hpp>
#include <map>
#include <numeric>
#include <span>
#include <unordered_map>

#include "io/xxh64.hpp"

namespace mac {

namespace {

constexpr std::size_t numbers_surveyed_at_once = 1 << 18;
constexpr std::size_t reservoir_size = 4096;  // values of a variable from which its range is estimated
constexpr double outlier_factor = 3;          // times the range of 90 % of the values
constexpr std::size_t most_hashes = 1 << 17;  // states remembered to find them again
constexpr double shared = 0.1;                // share of equal states from which trajectories are not two

/// The number with the fewest digits within a millionth: 0.1 for 0.09999999.
double round_step(double step) {
  for (int digits = 1; digits < 12; ++digits) {
    const double rounded = std::stod(fmt::format("{:.{}g}", step, digits));
    if (std::abs(rounded - step) <= 1e-6 * step) return rounded;
  }
  return step;
}

/// What a time may be off by that was saved in single precision.
double rounding(double time) {
  return time == static_cast<double>(static_cast<float>(time)) ? 1.2e-7 * std::abs(time) : 0;
}

bool all_finite(const double* values, std::size_t count) {
  return std::all_of(values, values + count, [](double value) { return std::isfinite(value); });
}

/// States seen before. Of many, only those whose hash ends in enough zeros are kept, the same in every trajectory.
class SeenStates {
 public:
  void add(std::size_t trajectory, const double* state, std::size_t size) {
    const std::uint64_t hash = content_hash(std::as_bytes(std::span(state, size)), 0);
    if ((hash & mask_) != 0) return;
    const auto [entry, is_new] = seen_.try_emplace(hash, Visits{trajectory, trajectory});
    Visits& visits = entry->second;
    if (is_new) {
      ++kept_[trajectory];
      if (seen_.size() > most_hashes) thin();
    } else if (visits.last != trajectory) {  // a state of rest counts once a trajectory
      ++equal_[{visits.first, trajectory}];
      ++kept_[trajectory];
      visits.last = trajectory;
    }
  }

  std::vector<std::pair<std::size_t, std::size_t>> copies() const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (const auto& [pair, count] : equal_) {
      const auto kept = std::min(kept_.at(pair.first), kept_.at(pair.second));
      if (static_cast<double>(count) > shared * static_cast<double>(kept) && count > 2) found.push_back(pair);
    }
    return found;
  }

 private:
  void thin() {
    mask_ = mask_ << 1 | 1;
    kept_.clear();
    std::erase_if(seen_, [&](const auto& entry) { return (entry.first & mask_) != 0; });
    for (const auto& [hash, visits] : seen_) ++kept_[visits.first];
    for (auto& [pair, count] : equal_) {
      count /= 2;
      kept_[pair.second] += count;
    }
  }

  std::uint64_t mask_ = 0;
  struct Visits {
    std::size_t first, last;  // trajectories
  };
  std::unordered_map<std::uint64_t, Visits> seen_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> equal_;
  std::map<std::size_t, std::size_t> kept_;
};

struct Variable {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  double sum = 0, squares = 0, misses = 0;  // misses: squares of what interpolation from neighbours misses
  std::vector<double> reservoir = {};
  double range = 0;  // in which 90 % of the values lie
  std::size_t outliers = 0;
  std::string first_outlier = {};
  std::set<double> outlier_values = {};
};

class Surveyor {
 public:
  Surveyor(const Recordings& recordings, const ImportPlan& plan, Progress& progress)
      : recordings_(recordings), plan_(plan), progress_(progress), variables_(recordings.width()) {
    result_.dropped.resize(recordings.trajectories());
    result_.marks.resize(recordings.trajectories());
  }

  Survey run() {
    recordings_.check_axes();
    find_step();
    look();
    describe_variables();
    if (plan_.outliers != Outliers::warn || worth_looking()) find_outliers();
    cut();
    describe_cuts();
    result_.copies = seen_.copies();
    return std::move(result_);
  }

 private:
  std::size_t width() const { return recordings_.width(); }
  const std::string& name(std::size_t v) const {
    static const std::string closure = "the closure";
    const std::size_t d = recordings_.names().size(), forcing = d + recordings_.closure_size();
    if (v >= forcing) return recordings_.forcing_names()[v - forcing];
    return v < d ? recordings_.names()[v] : closure;
  }
  std::string place(std::size_t trajectory, std::size_t row) const {
    return fmt::format("{}, row {}", recordings_.label(trajectory), row + 1);
  }

  /// visit(trajectory, row, time, values) for every row.
  template <class Visit>
  void for_rows(const Visit& visit) {
    const std::size_t block = std::clamp<std::size_t>(numbers_surveyed_at_once / width(), 64, 65536);
    std::vector<double> rows(block * width()), times(block);
    for (std::size_t i = 0; i < recordings_.trajectories(); ++i)
      for (std::size_t first = 0; first < recordings_.rows(i); first += block) {
        throw_if_interrupted();
        const std::size_t count = std::min(block, recordings_.rows(i) - first);
        recordings_.read(i, first, count, rows.data());
        recordings_.read_times(i, first, count, times.data());
        for (std::size_t r = 0; r < count; ++r) visit(i, first + r, times[r], rows.data() + r * width());
        progress_.advance(count);
      }
  }
  bool good(std::size_t trajectory, std::size_t row, double time, const double* values) const {
    return std::isfinite(time) && all_finite(values, width()) && !result_.dropped[trajectory].contains(row);
  }

  /// The median of the first steps, of the first trajectory that has some.
  void find_step() {
    if (!recordings_.has_times()) {
      if (!(plan_.dt > 0))
        throw UsageError(
            "the files have no times that are called time or t: name them with --time, or say the step with "
            "--dt");
      step_ = plan_.dt;
    }
    for (std::size_t i = 0; i < recordings_.trajectories() && !(step_ > 0); ++i) {
      std::vector<double> times(std::min<std::size_t>(recordings_.rows(i), 4096)), steps;
      recordings_.read_times(i, 0, times.size(), times.data());
      for (std::size_t r = 1; r < times.size(); ++r)
        if (times[r] > times[r - 1]) steps.push_back(times[r] - times[r - 1]);
      if (steps.empty()) continue;
      std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
      const double median = steps[steps.size() / 2];
      double sum = 0, count = 0;  // of the steps that are alike: their mean has more digits than any of them
      for (const double step : steps)
        if (std::abs(step - median) < 0.1 * median) sum += step, ++count;
      step_ = round_step(sum / count);
    }
    if (!(step_ > 0)) throw Error("the times do not increase anywhere: no trajectory has two different ones");
    if (plan_.dt > 0 && std::abs(plan_.dt - step_) > step_slack * step_)
      throw UsageError("--dt {:g}: the times go in steps of {:g}; to change the step, say --resample {:g}",
                       plan_.dt, step_, plan_.dt);
    result_.interpolated = plan_.resample > 0 || plan_.gaps == Gaps::fill || plan_.gaps == Gaps::mask;
    result_.resampled = plan_.resample > 0;
    result_.dt = plan_.resample > 0 ? plan_.resample : step_;
  }

  /// First reading: ranges, equal states.
  void look() {
    RandomStream random(plan_.seed, Purpose::train_data, 0);
    const std::size_t d = recordings_.names().size();
    equal_.assign(d * d, d <= most_compared ? 1 : 0);
    for_rows([&](std::size_t i, std::size_t, double, const double* values) {
      if (!all_finite(values, width())) {
        ++missing_;
        return;
      }
      ++rows_;
      for (std::size_t v = 0; v < width(); ++v) {
        Variable& variable = variables_[v];
        variable.low = std::min(variable.low, values[v]);
        variable.high = std::max(variable.high, values[v]);
        variable.sum += values[v], variable.squares += values[v] * values[v];
        if (variable.reservoir.size() < reservoir_size)
          variable.reservoir.push_back(values[v]);
        else if (const std::size_t at = random.below(rows_); at < reservoir_size)
          variable.reservoir[at] = values[v];
      }
      if (d <= most_compared)
        for (std::size_t v = 0; v < d; ++v)
          for (std::size_t w = 0; w < v; ++w)
            if (values[v] != values[w]) equal_[v * d + w] = 0;
      seen_.add(i, values, d);
    });
    if (rows_ == 0) throw Error("{}: every row has a missing value", recordings_.label(0));
    for (Variable& variable : variables_) {
      std::ranges::sort(variable.reservoir);
      const auto at = [&](double share) {
        return variable
            .reservoir[static_cast<std::size_t>(share * static_cast<double>(variable.reservoir.size() - 1))];
      };
      variable.range = at(0.95) - at(0.05);
    }
  }

  void describe_variables() {
    const std::size_t d = recordings_.names().size();
    for (std::size_t v = 0; v < d; ++v) {
      const Variable& variable = variables_[v];
      if (variable.low == variable.high)
        result_.warnings.push_back(
            fmt::format("{} is {:g} everywhere: a constant says nothing about the closure; leave it out",
                        name(v), variable.low));
      const double size = std::max(std::abs(variable.low), std::abs(variable.high));
      if (size >= largest_state || (size > 0 && size < smallest_state))
        result_.warnings.push_back(fmt::format(
            "{} reaches {:.3g}: choose units in which it lies between {:g} and {:g}, for rollouts "
            "count larger states as blown up, and squares of smaller ones vanish",
            name(v), size, smallest_state, largest_state));
      for (std::size_t w = 0; w < v; ++w)
        if (equal_[v * d + w] && variable.low < variable.high)
          result_.warnings.push_back(
              fmt::format("{} and {} are the same numbers everywhere; leave one out", name(w), name(v)));
    }
  }

  /// Whether a value lies so far out that an outlier can be among them.
  bool worth_looking() const {
    return std::ranges::any_of(variables_,
                               [](const Variable& v) { return v.high - v.low > outlier_factor * v.range; });
  }

  /// Second reading, where it is needed: rows that are far from the cubic through their neighbours.
  void find_outliers() {
    struct Kept {
      std::size_t row;
      double time;
      std::vector<double> values;
    };
    std::vector<Kept> last;
    std::size_t trajectory = static_cast<std::size_t>(-1);
    for_rows([&](std::size_t i, std::size_t row, double time, const double* values) {
      if (i != trajectory) last.clear(), trajectory = i;
      if (!good(i, row, time, values)) return;
      last.push_back({row, time, std::vector<double>(values, values + width())});
      if (last.size() < 5) return;
      const double around[] = {last[0].time, last[1].time, last[3].time, last[4].time};
      double weights[4];
      cubic_weights(around, last[2].time, weights);
      bool outlier = false;
      for (std::size_t v = 0; v < width(); ++v) {
        const double guess = weights[0] * last[0].values[v] + weights[1] * last[1].values[v] +
                             weights[2] * last[3].values[v] + weights[3] * last[4].values[v];
        const double level = (last[1].values[v] + last[3].values[v]) / 2, value = last[2].values[v];
        // Beside an outlier the cubic is wrong, the value is not: it must be far from its neighbours' level, too.
        const double limit = outlier_factor * variables_[v].range;
        if (!(variables_[v].range > 0) || std::abs(value - guess) <= limit ||
            std::abs(value - level) <= limit)
          continue;
        if (std::abs(value - median(v)) <= limit) continue;
        outlier = true;
        note_outlier(variables_[v], value, fmt::format("{:g} in {}", value, place(i, last[2].row)));
      }
      if (outlier && plan_.outliers == Outliers::drop) result_.dropped[i].insert(last[2].row);
      last.erase(last.begin() + (outlier ? 2 : 0));
    });
    for (std::size_t v = 0; v < width(); ++v) {
      const Variable& variable = variables_[v];
      if (variable.outliers == 0) continue;
      std::string sentence = fmt::format("{} has {} outlier{}, the first is {}", name(v), variable.outliers,
                                         variable.outliers == 1 ? "" : "s", variable.first_outlier);
      if (variable.outlier_values.size() == 1 && variable.outliers > 1)
        sentence += fmt::format("; if that marks missing values, say --missing={:g}",
                                *variable.outlier_values.begin());
      if (plan_.outliers == Outliers::refuse) throw UsageError("{}", sentence);
      if (plan_.outliers == Outliers::drop)
        result_.notes.push_back(sentence + "; these rows count as missing");
      else
        result_.warnings.push_back(sentence + "; --outliers drop takes them as missing");
    }
  }

  double median(std::size_t v) const { return variables_[v].reservoir[variables_[v].reservoir.size() / 2]; }

  static void note_outlier(Variable& variable, double value, const std::string& where) {
    if (++variable.outliers == 1) variable.first_outlier = where;
    if (variable.outlier_values.size() < 2) variable.outlier_values.insert(value);
  }

  /// Last reading: segments, and what interpolation would miss.
  void cut() {
    const double limit = plan_.longest_gap > 0 ? plan_.longest_gap
                         : plan_.gaps == Gaps::fill || plan_.gaps == Gaps::mask
                             ? std::numeric_limits<double>::infinity()
                             : default_gap * step_;
    Segment current;
    std::size_t rows = 0, long_steps = 0, steps = 0;
    std::vector<double> window, window_times;
    const auto close = [&] {
      if (rows == 0) return;
      current.times =
          result_.interpolated
              ? static_cast<std::size_t>(std::floor((current.end - current.start) / result_.dt + 1e-6)) + 1
              : rows;
      if (current.times > 1) result_.segments.push_back(current);
      rows = 0;
    };
    std::size_t trajectory = static_cast<std::size_t>(-1);
    const auto finish = [&] {
      close();
      if (steps > 2 && long_steps == steps && !result_.interpolated)
        throw UsageError("{}: is saved every {:g}, {} every {:g}; --resample {:g} brings all to one step",
                         recordings_.label(trajectory), longest_, recordings_.label(0), step_, step_);
      steps = long_steps = 0;
    };
    for_rows([&](std::size_t i, std::size_t row, double time, const double* values) {
      if (i != trajectory) {
        if (row == 0 && trajectory != static_cast<std::size_t>(-1)) finish();
        trajectory = i;
        window.clear(), window_times.clear();
      }
      if (row % rows_per_mark == 0)
        result_.marks[i].push_back(std::isfinite(time)        ? time
                                   : result_.marks[i].empty() ? -std::numeric_limits<double>::infinity()
                                                              : result_.marks[i].back());
      if (!good(i, row, time, values)) return;
      miss(window, window_times, time, values);
      if (rows > 0) {
        const double step = time - current.end;
        if (!(step > 0))
          throw Error("{}: the time {:g} comes after {:g}; times must increase within a trajectory",
                      place(i, row), time, current.end);
        ++steps;
        const double whole = std::max(1.0, std::round(step / step_));
        const bool even = std::abs(step - whole * step_) <= std::max(step_slack * step_, rounding(time));
        if (!even) {
          shortest_ = std::min(shortest_, step), longest_uneven_ = std::max(longest_uneven_, step);
          if (++uneven_ == 1) first_uneven_ = place(i, row);
        }
        if (even && whole > 1) longest_ = step, ++long_steps;
        const bool gap = plan_.resample > 0 ? step > limit : even && whole > 1;
        if (gap) {
          if (++gaps_ == 1)
            first_gap_ = fmt::format("{:g} at t = {:g} in {}", step, current.end, recordings_.label(i));
          longest_gap_ = std::max(longest_gap_, step);
        }
        if (result_.interpolated ? step > limit : gap) close();
      }
      if (rows == 0) current = {i, row, time, time, 0};
      current.end = time;
      ++rows;
    });
    finish();
  }

  /// Leaves the middle of five rows out and interpolates it from the others.
  void miss(std::vector<double>& window, std::vector<double>& times, double time, const double* values) {
    window.insert(window.end(), values, values + width());
    times.push_back(time);
    if (times.size() < 5) return;
    const double around[] = {times[0], times[1], times[3], times[4]};
    double weights[4];
    cubic_weights(around, times[2], weights);
    for (std::size_t v = 0; v < width(); ++v) {
      const auto at = [&](std::size_t row) { return window[row * width() + v]; };
      const double error =
          weights[0] * at(0) + weights[1] * at(1) + weights[2] * at(3) + weights[3] * at(4) - at(2);
      variables_[v].misses += error * error;
    }
    window.erase(window.begin(), window.begin() + static_cast<std::ptrdiff_t>(width()));
    times.erase(times.begin());
  }

  /// The largest of the variables' root mean squares of what a missing row is missed by, relative to their spread.
  double miss_of_a_row() const {
    double largest = 0;
    const double n = static_cast<double>(rows_);
    for (const Variable& v : variables_) {
      const double variance = v.squares / n - v.sum / n * (v.sum / n);
      if (variance > 0) largest = std::max(largest, std::sqrt(v.misses / n / variance));
    }
    return largest;
  }

  void describe_cuts() {
    if (uneven_ > 0 && plan_.resample == 0)
      throw UsageError(
          "times are uneven: {} steps between {:g} and {:g} are no multiples of {:g}, the first before {}; "
          "--resample {:g} interpolates",
          uneven_, shortest_, longest_uneven_, step_, first_uneven_, step_);
    if (gaps_ > 0 && plan_.gaps == Gaps::refuse)
      throw UsageError(
          "{} gap{}, the first of {}: --gaps split cuts the trajectories there, --gaps fill interpolates, "
          "--gaps mask interpolates and learns nothing there",
          gaps_, gaps_ == 1 ? "" : "s", first_gap_);
    if (gaps_ > 0 && plan_.gaps == Gaps::split)
      result_.notes.push_back(
          fmt::format("{} gap{}, the first of {}: trajectories are cut there, memory starts anew", gaps_,
                      gaps_ == 1 ? "" : "s", first_gap_));
    if (gaps_ > 0 && (plan_.gaps == Gaps::fill || plan_.gaps == Gaps::mask))
      result_.notes.push_back(
          fmt::format("{} gap{}, the longest of {:g}: filled by cubic interpolation, which misses a single "
                      "row by about {:.2g} % of "
                      "its variable's spread, and longer gaps by more{}",
                      gaps_, gaps_ == 1 ? "" : "s", longest_gap_, 100 * miss_of_a_row(),
                      plan_.gaps == Gaps::mask ? "; the closure there counts in no loss" : ""));
    // In the middle between two rows a cubic is wrong by a seventh of what it misses a row by that is left out.
    if (plan_.resample > 0)
      result_.notes.push_back(
          fmt::format("resampled every {:g} by cubic interpolation, with an error of about {:.2g} % of a "
                      "variable's spread",
                      plan_.resample, 100 * miss_of_a_row() / 7));
    if (missing_ > 0)
      (gaps_ == 0 ? result_.warnings : result_.notes)
          .push_back(fmt::format("{} of {} rows have a missing value{}", missing_, missing_ + rows_,
                                 gaps_ == 0 ? ", at the ends of trajectories: they are left out" : ""));
    if (result_.segments.empty()) throw Error("no two rows follow each other without a gap");
  }

  static constexpr std::size_t most_compared = 32;
  static constexpr double largest_state = 1e12, smallest_state = 1e-100;
  static constexpr double default_gap = 8;  // steps that are no longer interpolated unless asked for

  const Recordings& recordings_;
  const ImportPlan& plan_;
  Progress& progress_;
  std::vector<Variable> variables_;
  std::vector<char> equal_;
  SeenStates seen_;
  Survey result_;
  double step_ = 0, shortest_ = std::numeric_limits<double>::infinity(), longest_uneven_ = 0, longest_ = 0,
         longest_gap_ = 0;
  std::size_t rows_ = 0, missing_ = 0, uneven_ = 0, gaps_ = 0;
  std::string first_gap_, first_uneven_;
};

}  // namespace

void cubic_weights(const double* times, double t, double* weights) {
  for (std::size_t i = 0; i < 4; ++i) {
    weights[i] = 1;
    for (std::size_t j = 0; j < 4; ++j)
      if (j != i) weights[i] *= (t - times[j]) / (times[i] - times[j]);
  }
}

Survey survey(const Recordings& recordings, const ImportPlan& plan, Progress& progress) {
  return Surveyor(recordings, plan, progress).run();
}

SegmentReader::Nodes SegmentReader::nodes(const Segment& segment, double from, double to) const {
  const std::vector<double>& marks = survey_.marks[segment.trajectory];
  const std::size_t rows = recordings_.rows(segment.trajectory), width = recordings_.width();
  const auto mark = [&](double time) {
    return static_cast<std::size_t>(
        std::max<std::ptrdiff_t>(0, std::ranges::upper_bound(marks, time) - marks.begin() - 1));
  };
  std::size_t begin = mark(from) * rows_per_mark, end = std::min(rows, (mark(to) + 1) * rows_per_mark);
  for (;;) {
    std::vector<double> times(end - begin), values((end - begin) * width);
    recordings_.read_times(segment.trajectory, begin, end - begin, times.data());
    recordings_.read(segment.trajectory, begin, end - begin, values.data());
    Nodes nodes;
    std::size_t before = 0, after = 0;
    for (std::size_t r = 0; r < times.size(); ++r) {
      const double* const row = values.data() + r * width;
      if (!(times[r] >= segment.start && times[r] <= segment.end) || !all_finite(row, width) ||
          survey_.dropped[segment.trajectory].contains(begin + r))
        continue;
      nodes.times.push_back(times[r]);
      nodes.rows.insert(nodes.rows.end(), row, row + width);
      before += times[r] <= from ? 1 : 0, after += times[r] >= to ? 1 : 0;
    }
    const bool more_before = before < 2 && begin > 0 && marks[begin / rows_per_mark] > segment.start;
    const bool more_after = after < 2 && end < rows && marks[end / rows_per_mark] <= segment.end;
    if (!more_before && !more_after) return nodes;
    if (more_before) begin -= std::min(begin, rows_per_mark);
    if (more_after) end = std::min(rows, end + rows_per_mark);
  }
}

void SegmentReader::read(const Segment& segment, std::size_t first, std::size_t count, double* out,
                         std::vector<char>* filled) const {
  if (filled) filled->assign(count, 0);
  if (!survey_.interpolated) {
    recordings_.read(segment.trajectory, segment.first + first, count, out);
    return;
  }
  const std::size_t width = recordings_.width();
  const auto time = [&](std::size_t i) {
    return segment.start + static_cast<double>(first + i) * survey_.dt;
  };
  const Nodes near = nodes(segment, time(0), time(count - 1));
  const std::size_t n = near.times.size();
  for (std::size_t i = 0; i < count; ++i) {
    const double t = time(i);
    const auto next = static_cast<std::size_t>(std::ranges::lower_bound(near.times, t - 1e-9 * survey_.dt) -
                                               near.times.begin());
    const std::size_t closest =
        next == n || (next > 0 && t - near.times[next - 1] < near.times[next] - t) ? next - 1 : next;
    double* const row = out + i * width;
    const double distance = std::abs(near.times[closest] - t);
    if (filled) (*filled)[i] = distance > step_slack * survey_.dt;
    if (distance <= (survey_.resampled ? 1e-9 : step_slack) * survey_.dt || n < 4) {
      std::copy_n(near.rows.data() + closest * width, width, row);
      continue;
    }
    const std::size_t left = std::min(n - 4, next < 2 ? 0 : next - 2);
    double weights[4];
    cubic_weights(near.times.data() + left, t, weights);
    for (std::size_t v = 0; v < width; ++v) {
      row[v] = 0;
      for (std::size_t k = 0; k < 4; ++k) row[v] += weights[k] * near.rows[(left + k) * width + v];
    }
  }
}

}  // namespace mac
