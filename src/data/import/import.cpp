#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/import.hpp>
#include <mac/system_family.hpp>
#include <sstream>

#include "data/import/splits.hpp"
#include "data/import/tendency.hpp"
#include "data/provenance.hpp"
#include "data/split_group.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5_output.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace {

constexpr std::size_t numbers_of_a_block = 1 << 17, rows_of_a_chunk = 4096;

std::string quoted(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return "\"" + escaped + "\"";
}

std::string quoted(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) parts.push_back(quoted(text));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

/// [data.given] of "wind = sin(t); tide = cos(t/12)".
std::string given_text(const std::string& given) {
  std::istringstream parts(given);
  std::string text = "\n[data.given]\n";
  const auto trimmed = [](std::string part) {
    part.erase(0, part.find_first_not_of(" \t\n"));
    part.erase(part.find_last_not_of(" \t\n") + 1);
    return part;
  };
  for (std::string part; std::getline(parts, part, ';');) {
    if (trimmed(part).empty()) continue;
    const std::size_t equals = part.find('=');
    const std::string name = trimmed(part.substr(0, equals));
    if (equals == std::string::npos || name.empty())
      throw UsageError("given: \"{}\" is no NAME = EXPRESSION, as in \"tide = sin(2*pi*t/12.4)\"",
                       trimmed(part));
    text += fmt::format("{} = {}\n", quoted(name), quoted(trimmed(part.substr(equals + 1))));
  }
  return text;
}

/// The tables [system] and [system.…] of an experiment, word for word.
std::string system_text(const ConfigTable& experiment) {
  std::istringstream lines(experiment.text());
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (const auto at = line.find_first_not_of(" \t"); at != std::string::npos && line[at] == '[') {
      const std::string_view head = std::string_view(line).substr(line.find_first_not_of(" \t["));
      inside = head.starts_with("system]") || head.starts_with("system.");
    }
    if (inside) text += line + "\n";
  }
  return text;
}

class Import {
 public:
  Import(const std::vector<std::string>& files, const ImportPlan& plan, const std::string& output, bool quiet)
      : plan_(plan), output_(output), quiet_(quiet), recordings_(files, plan, quiet) {
    std::vector<std::string> inputs = files;
    inputs.insert(inputs.end(), plan.validation_files.begin(), plan.validation_files.end());
    inputs.insert(inputs.end(), plan.test_files.begin(), plan.test_files.end());
    for (const std::string& input : inputs) check_output(output, {input});
    check_writable(output);
  }

  ImportReport run() {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < recordings_.trajectories(); ++i) rows += recordings_.rows(i);
    {
      Progress progress("looking through the rows", 2 * rows, quiet_);
      survey_ = survey(recordings_, plan_, progress);
    }
    splits_ = make_splits(recordings_, plan_, survey_);
    for (const std::string& name : plan_.parameters) check_input(name);
    for (const std::string& name : recordings_.forcing_names()) check_input(name);
    Experiment experiment = describe();
    check_variables(*experiment.system);
    write(experiment);
    return {std::move(survey_.notes), std::move(survey_.warnings), std::move(experiment), std::move(made_)};
  }

 private:
  void check_input(const std::string& name) const {
    if (std::ranges::find(recordings_.names(), name) != recordings_.names().end())
      throw UsageError("{}: cannot be a resolved variable and an input: say --variables without it", name);
  }

  /// The values of a trajectory in the order of the file's.
  std::vector<double> parameters_of(const Experiment& experiment, std::size_t trajectory) const {
    const std::vector<double> given = recordings_.parameters(trajectory);
    std::vector<double> values;
    for (const std::string& name : experiment.data.parameters)
      values.push_back(given[static_cast<std::size_t>(std::ranges::find(plan_.parameters, name) -
                                                      plan_.parameters.begin())]);
    return values;
  }

  /// What the file says it is.
  Experiment describe() const {
    std::string text;
    double dt = survey_.dt;
    std::size_t stride = 1;
    std::vector<std::string> others = plan_.parameters;  // that are none of the system
    if (!plan_.system.empty()) {
      const ConfigTable given = ConfigTable::read(plan_.system);
      for (const auto& [name, law] : system_laws(given.table("system")))
        if (std::erase(others, name) == 0)
          throw UsageError("{}: {} varies: say with --parameters which array or column it is", plan_.system,
                           name);
      const auto system = make_system(middle_of(given.table("system")));
      text = system_text(given);
      if (const auto limit = system->largest_stable_dt(); limit && dt > *limit)
        stride = static_cast<std::size_t>(std::ceil(dt / *limit));
    } else {
      text = fmt::format("[system]\nname = \"recorded\"\nresolved = {}\n", quoted(recordings_.names()));
      if (!plan_.targets.empty()) text += fmt::format("targets = {}\n", quoted(plan_.targets));
      text += fmt::format("equations = \"{}\"\n", recordings_.has_closure() ? "none" : "zero");
    }
    text += fmt::format("\n[data]\ndt = {}\nstride = {}\nseed = {}\n", dt / static_cast<double>(stride),
                        stride, plan_.seed);
    if (!others.empty()) text += fmt::format("parameters = {}\n", quoted(others));
    if (!recordings_.forcing_names().empty())
      text += fmt::format("forcing = {}\n", quoted(recordings_.forcing_names()));
    if (!plan_.given.empty()) text += given_text(plan_.given);
    for (const ImportSplit& split : splits_)
      text += fmt::format("\n[data.{}]\ntrajectories = {}\nhorizon = {}\n", split.name, split.pieces.size(),
                          static_cast<double>(split.times - 1) * dt);
    return Experiment::parse(text, plan_.system.empty() ? "import" : plan_.system);
  }

  void check_variables(const System& system) const {
    const std::size_t given = recordings_.closure_size();
    if (!plan_.system.empty() && system.resolved_size() != recordings_.names().size())
      throw UsageError("{}: the system has the {} variables {}, the files have {}: {}", plan_.system,
                       system.resolved_size(), fmt::join(system.resolved_names(), ", "),
                       recordings_.names().size(), fmt::join(recordings_.names(), ", "));
    if (recordings_.has_closure() && given != system.closure_size())
      throw UsageError(
          "closure: there are {} components for {} equations: say with --targets which equations have one",
          given, system.closure_size());
    for (const ImportSplit& split : splits_)
      if (const std::size_t fewest = Tendency::fewest_times(plan_.order);
          !recordings_.has_closure() && split.times < fewest)
        throw UsageError(
            "trajectories of {} times are too short for differences of {} order, which need {}: give the "
            "closure with --closure",
            split.times, order_words(), fewest);
  }

  void write(const Experiment& experiment) {
    const System& system = *experiment.system;
    Hdf5Output output(output_);
    h5::File& file = output.file;
    write_provenance(file, "data", experiment);
    std::size_t total = 0;
    for (const ImportSplit& split : splits_) total += split.pieces.size() * split.times;
    Tendency tendency(system, survey_.dt, plan_.order);
    {
      Progress progress("writing", total, quiet_);
      for (const ImportSplit& split : splits_) write_split(file, experiment, split, tendency, progress);
    }
    if (!recordings_.has_closure()) describe_closure(tendency);
    for (const ImportSplit& split : splits_) made_.push_back({split.name, split.pieces.size(), split.times});
    output.commit();  // the last that can fail: with an error there is no file
  }

  void write_split(h5::File& file, const Experiment& experiment, const ImportSplit& split, Tendency& tendency,
                   Progress& progress) {
    const System& system = *experiment.system;
    const std::size_t n = split.pieces.size(), times = split.times;
    std::vector<std::string> labels;
    std::vector<double> starts;
    for (const Piece& piece : split.pieces) {
      const Segment& segment = survey_.segments[piece.segment];
      starts.push_back(segment.start + static_cast<double>(piece.first) * survey_.dt);
      labels.push_back(fmt::format("{}, from {:.6g}", recordings_.label(segment.trajectory), starts.back()));
    }
    std::vector<double> time(times);
    for (std::size_t t = 0; t < times; ++t) time[t] = static_cast<double>(t) * survey_.dt;
    create_split_group(file, split.name, labels, time, recordings_.time_unit());
    if (experiment.data.formulas)
      file.create_dataset(fmt::format("/{}/clock", split.name), {n}).write({0}, {n}, starts.data());
    h5::Dataset resolved = create_series(file, split.name, "resolved", n, times, system.resolved_names());
    if (std::ranges::any_of(recordings_.units(), [](const std::string& unit) { return !unit.empty(); }))
      resolved.set_attribute("units", recordings_.units());
    h5::Dataset closure = create_series(file, split.name, "closure", n, times, system.closure_names());
    if (plan_.gaps == Gaps::mask)
      closure.set_attribute(masked_attribute, std::string("where rows were missing"));
    h5::Dataset mean = create_series(file, split.name, "closure_mean", n, times - 1, system.closure_names());

    const std::size_t p_count = experiment.data.parameters.size(), f = recordings_.forcing_names().size();
    std::optional<h5::Dataset> parameters, forcing;
    if (p_count > 0) parameters = create_parameters(file, split.name, n, experiment.data.parameters);
    if (f > 0) forcing = create_series(file, split.name, "inputs", n, times, experiment.data.forcing);

    const std::size_t d = system.resolved_size(), c = system.closure_size(), width = recordings_.width();
    const std::size_t block =
        std::max<std::size_t>(1, numbers_of_a_block / width / rows_of_a_chunk) * rows_of_a_chunk;
    const std::size_t halo = tendency.halo();  // means of given closures look two rows further at most
    const SegmentReader reader(recordings_, survey_);
    std::vector<char> filled;
    for (std::size_t p = 0; p < n; ++p) {
      const Piece& piece = split.pieces[p];
      if (parameters) {
        const auto values = parameters_of(experiment, survey_.segments[piece.segment].trajectory);
        parameters->write({p, 0}, {1, p_count}, values.data());
        if (experiment.family)
          tendency.use(*experiment.family->at(std::span(values).first(experiment.family->names().size())));
      }
      for (std::size_t first = 0; first < times; first += block) {
        throw_if_interrupted();
        const std::size_t count = std::min(block, times - first);
        const std::size_t from = first - std::min(first, halo), to = std::min(times, first + count + halo);
        std::vector<double> rows((to - from) * width), states((to - from) * d), values(count * c),
            means(count * c);
        reader.read(survey_.segments[piece.segment], piece.first + from, to - from, rows.data(), &filled);
        for (std::size_t r = 0; r < to - from; ++r)
          std::copy_n(rows.data() + r * width, d, states.data() + r * d);
        if (recordings_.has_closure())
          given_closure(rows.data(), width, filled, from, to, first, count, d, c, values, means);
        else
          tendency.compute(states.data(), from, times, first, count, values.data(), means.data());
        if (plan_.gaps == Gaps::mask) mask(filled, from, to, first, count, c, values, means);
        if (forcing) {
          std::vector<double> series(count * f);
          for (std::size_t r = 0; r < count; ++r)
            std::copy_n(rows.data() + (first - from + r + 1) * width - f, f, series.data() + r * f);
          forcing->write({p, first, 0}, {1, count, f}, series.data());
        }
        resolved.write({p, first, 0}, {1, count, d}, states.data() + (first - from) * d);
        closure.write({p, first, 0}, {1, count, c}, values.data());
        const std::size_t steps = std::min(count, times - 1 - first);
        if (steps > 0) mean.write({p, first, 0}, {1, steps, c}, means.data());
        progress.advance(count);
      }
    }
  }

  /// As the files have it; the mean over a step is that of the cubic through four of them, or of the straight line where
  /// there are not as many, or some are filled in.
  static void given_closure(const double* rows, std::size_t width, const std::vector<char>& filled,
                            std::size_t from, std::size_t to, std::size_t first, std::size_t count,
                            std::size_t d, std::size_t c, std::vector<double>& values,
                            std::vector<double>& means) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t row = first - from + i, known = to - from;
      const bool has_next = row + 1 < known;
      bool cubic = row >= 1 && row + 2 < known;
      for (std::size_t k = 0; cubic && k < 4; ++k) cubic = !filled[row - 1 + k];
      for (std::size_t j = 0; j < c; ++j) {
        const auto at = [&](std::size_t r) { return rows[r * width + d + j]; };
        values[i * c + j] = at(row);
        means[i * c + j] = cubic      ? (13 * (at(row) + at(row + 1)) - at(row - 1) - at(row + 2)) / 24
                           : has_next ? (at(row) + at(row + 1)) / 2
                                      : at(row);
      }
    }
  }

  /// NaN where a filled row takes part: a closure that nobody knows.
  void mask(const std::vector<char>& filled, std::size_t from, std::size_t to, std::size_t first,
            std::size_t count, std::size_t c, std::vector<double>& values, std::vector<double>& means) {
    const std::size_t reach = recordings_.has_closure() ? 0 : plan_.order / 2;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t t = first + i, left = std::max(from, t - std::min(t, reach)),
                        right = std::min(to - 1, t + reach);
      const bool unknown = std::any_of(filled.begin() + static_cast<std::ptrdiff_t>(left - from),
                                       filled.begin() + static_cast<std::ptrdiff_t>(right - from + 1),
                                       [](char f) { return f; });
      const bool unknown_step = filled[t - from] || (t + 1 < to && filled[t + 1 - from]);
      for (std::size_t j = 0; j < c; ++j) {
        if (unknown) values[i * c + j] = std::numeric_limits<double>::quiet_NaN();
        if (unknown_step) means[i * c + j] = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }

  const char* order_words() const { return plan_.order == 2 ? "second" : "fourth"; }

  void describe_closure(const Tendency& tendency) {
    std::string note = plan_.system.empty() ? "closure: the whole of dy/dt, for there are no equations"
                                            : "closure: dy/dt less the reduced equations";
    note += fmt::format(", by differences of {} order", order_words());
    if (std::isfinite(tendency.error()))
      note += fmt::format(", with an error of about {:.2g} %", 100 * tendency.error());
    survey_.notes.push_back(note);
    if (tendency.error() > 0.05)
      survey_.warnings.push_back(
          fmt::format("the closure is computed with an error of about {:.0f} %: the step {:g} is long for "
                      "these data, or they are noisy",
                      100 * tendency.error(), survey_.dt));
    if (tendency.unexplained() > 0.01)
      survey_.warnings.push_back(
          fmt::format("{:.0f} % of dy/dt less the equations lies in equations without a closure",
                      100 * tendency.unexplained()));
  }

  const ImportPlan& plan_;
  std::string output_;
  bool quiet_;
  Recordings recordings_;
  Survey survey_;
  std::vector<ImportSplit> splits_;
  std::vector<ImportReport::Split> made_;
};

}  // namespace

void read_import_plan(const ConfigTable& table, ImportPlan& plan) {
  plan.variables = table.strings_or("variables", plan.variables);
  plan.closure = table.strings_or("closure", plan.closure);
  plan.forcing = table.strings_or("forcing", plan.forcing);
  plan.parameters = table.strings_or("parameters", plan.parameters);
  plan.given = table.string_or("given", plan.given);
  plan.names = table.strings_or("names", plan.names);
  plan.units = table.strings_or("units", plan.units);
  plan.targets = table.strings_or("targets", plan.targets);
  plan.axes = table.strings_or("axes", plan.axes);
  plan.time = table.string_or("time", plan.time);
  plan.trajectory = table.string_or("trajectory", plan.trajectory);
  plan.time_unit = table.string_or("time-unit", plan.time_unit);
  plan.group = table.string_or("group", plan.group);
  plan.system = table.string_or("system", plan.system);
  plan.order =
      static_cast<std::size_t>(table.integer_or("order", static_cast<std::int64_t>(plan.order), 2, 4));
  if (plan.order == 3) table.fail("order", "is 3, but differences are of order 2 or 4");
  plan.dt = table.number_or("dt", plan.dt, positive);
  if (table.has("missing")) plan.missing = table.numbers("missing");
  plan.resample = table.number_or("resample", plan.resample, positive);
  const std::vector<std::string> gaps{"refuse", "split", "fill", "mask"}, outliers{"warn", "drop", "refuse"},
      splits{"trajectory", "time"};
  const auto choice = [&](const char* key, const std::vector<std::string>& names, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const std::string chosen = table.choice_or(key, names[static_cast<std::size_t>(value)], names);
    value = static_cast<Value>(std::ranges::find(names, chosen) - names.begin());
  };
  choice("gaps", gaps, plan.gaps);
  choice("outliers", outliers, plan.outliers);
  choice("split", splits, plan.split);
  plan.longest_gap = table.number_or("longest-gap", plan.longest_gap, positive);
  plan.validation = table.number_or("validation", plan.validation, fraction);
  plan.test = table.number_or("test", plan.test, fraction);
  plan.validation_files = table.strings_or("validation-files", plan.validation_files);
  plan.test_files = table.strings_or("test-files", plan.test_files);
  plan.seed = static_cast<std::uint64_t>(
      table.integer_or("seed", static_cast<std::int64_t>(plan.seed), 0, INT64_MAX));
  plan.length = table.number_or("length", plan.length, positive);
  plan.allow_leakage = table.boolean_or("allow-leakage", plan.allow_leakage);
  table.reject_unknown_keys();
  if (plan.validation + plan.test >= 1) table.fail("test", "and validation leave nothing to train on");
}

ImportReport import_data(const std::vector<std::string>& files, const ImportPlan& plan,
                         const std::string& output, bool quiet) {
  if (files.empty()) throw UsageError("there is no file to import");
  return Import(files, plan, output, quiet).run();
}

}  // namespace mac
