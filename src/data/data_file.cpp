#include <algorithm>
#include <limits>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <optional>

#include "data/provenance.hpp"
#include "data/split_group.hpp"
#include "io/content_hash.hpp"
#include "io/hdf5.hpp"
#include "systems/equations/formulas.hpp"

namespace mac {

struct DataSplit::Impl {
  std::string name;
  std::vector<double> time;
  std::vector<std::string> labels;
  h5::Dataset resolved, closure, closure_mean;
  bool masked = false;
  std::vector<std::string> parameter_names = {}, input_names = {};
  std::vector<double> parameters = {};                // (n, p)
  std::optional<h5::Dataset> forcing = std::nullopt;  // none: no forcing
  std::vector<std::shared_ptr<const System>> systems = {};
  std::shared_ptr<const Formulas> formulas = nullptr;
  std::vector<double> clocks = {};  // (n): what the formulas add to the saved times; empty: nothing

  double step = 0;  // between saved times

  double time_at(std::size_t n) const {
    return n < time.size() ? time[n] : time.front() + static_cast<double>(n) * step;
  }
};

DataSplit::DataSplit(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataSplit::DataSplit(DataSplit&&) noexcept = default;
DataSplit::~DataSplit() = default;

const std::string& DataSplit::name() const { return impl_->name; }
std::size_t DataSplit::trajectories() const { return impl_->resolved.dims()[0]; }
std::size_t DataSplit::times() const { return impl_->time.size(); }
std::size_t DataSplit::resolved_size() const { return impl_->resolved.dims()[2]; }
std::size_t DataSplit::closure_size() const { return impl_->closure.dims()[2]; }
const std::vector<double>& DataSplit::time() const { return impl_->time; }
const std::string& DataSplit::label(std::size_t trajectory) const { return impl_->labels.at(trajectory); }
bool DataSplit::masked() const { return impl_->masked; }

namespace {

void read_block(const h5::Dataset& dataset, std::size_t trajectory, std::size_t first, std::size_t count,
                double* out) {
  const auto& dims = dataset.dims();
  if (trajectory >= dims[0] || first > dims[1] || count > dims[1] - first)
    throw Error("data: trajectory {}, times {} to {} are outside {} x {}", trajectory, first, first + count,
                dims[0], dims[1]);
  if (count > 0) dataset.read({trajectory, first, 0}, {1, count, dims[2]}, out);
}

}  // namespace

void DataSplit::read_resolved(std::size_t trajectory, std::size_t first, std::size_t count,
                              double* out) const {
  read_block(impl_->resolved, trajectory, first, count, out);
}

void DataSplit::read_closure(std::size_t trajectory, std::size_t first, std::size_t count,
                             double* out) const {
  read_block(impl_->closure, trajectory, first, count, out);
}

void DataSplit::read_closure_mean(std::size_t trajectory, std::size_t first, std::size_t count,
                                  double* out) const {
  read_block(impl_->closure_mean, trajectory, first, count, out);
}

const std::vector<std::string>& DataSplit::input_names() const { return impl_->input_names; }
const std::vector<std::string>& DataSplit::parameter_names() const { return impl_->parameter_names; }
const std::vector<std::shared_ptr<const System>>& DataSplit::systems() const { return impl_->systems; }

std::span<const double> DataSplit::parameters(std::size_t trajectory) const {
  const std::size_t p = impl_->parameter_names.size();
  if (trajectory >= trajectories())
    throw Error("data: trajectory {} is outside {}", trajectory, trajectories());
  return std::span(impl_->parameters).subspan(trajectory * p, p);
}

void DataSplit::read_inputs(std::size_t trajectory, std::size_t first, std::size_t count, double* out) const {
  const std::span<const double> constants = parameters(trajectory);
  const std::size_t e = input_names().size(), p = constants.size(),
                    f = impl_->forcing ? impl_->forcing->dims()[2] : 0;
  const std::size_t from = std::min(first, times() - 1), known = std::min(count, times() - from);
  std::vector<double> series(known * f);
  if (f > 0) read_block(*impl_->forcing, trajectory, from, known, series.data());
  for (std::size_t t = 0; t < count; ++t) {
    std::copy(constants.begin(), constants.end(), out + t * e);
    std::copy_n(series.data() + std::min(t, known - 1) * f, f, out + t * e + p);
  }
  if (!impl_->formulas) return;
  std::vector<double> at(count);
  for (std::size_t t = 0; t < count; ++t)
    at[t] = impl_->time_at(first + t) + (impl_->clocks.empty() ? 0 : impl_->clocks[trajectory]);
  impl_->formulas->evaluate(at, constants, out + p + f, e);
}

struct DataFile::Impl {
  h5::File file;
  Experiment experiment;
  std::string content = {};
  std::optional<ResolvedRange> training_range = std::nullopt;
};

DataFile::DataFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataFile::DataFile(DataFile&&) noexcept = default;
DataFile::~DataFile() = default;

DataFile DataFile::open(const std::string& path) {
  h5::File file = h5::File::open(path);
  Experiment experiment = read_provenance(file, "data");
  DataFile data(std::unique_ptr<Impl>(new Impl{std::move(file), std::move(experiment)}));
  for (const std::string& name : data.splits()) data.split(name);  // checks every shape now, not in mid-run
  return data;
}

const std::string& DataFile::path() const { return impl_->file.path(); }
const Experiment& DataFile::experiment() const { return impl_->experiment; }
void DataFile::set_system(std::shared_ptr<const System> system) {
  impl_->experiment.system = std::move(system);
}

std::vector<std::string> DataFile::splits() const {
  std::vector<std::string> names;
  for (const SplitPlan& plan : impl_->experiment.data.splits)
    if (has(plan.name)) names.push_back(plan.name);
  return names;
}

bool DataFile::has(const std::string& split) const { return impl_->file.has("/" + split); }

DataSplit DataFile::split(const std::string& name) const {
  if (!has(name))
    throw UsageError("{}: has no split \"{}\", only {}", path(), name, fmt::join(splits(), ", "));
  const h5::File& file = impl_->file;
  const System& system = *impl_->experiment.system;
  std::vector<double> time = file.dataset(fmt::format("/{}/time", name)).read_all();
  std::vector<std::string> labels = file.read_text(fmt::format("/{}/labels", name));
  const std::size_t n = labels.size(), times = time.size();
  if (n == 0) throw Error("{}: /{} holds no trajectory", path(), name);
  if (times < 2) throw Error("{}: /{}/time has fewer than two times", path(), name);
  check_times(path(), name, time, impl_->experiment.data.closure_step());
  auto split = std::unique_ptr<DataSplit::Impl>(
      new DataSplit::Impl{name, std::move(time), std::move(labels),
                          open_series(file, name, "resolved", {n, times, system.resolved_size()}),
                          open_series(file, name, "closure", {n, times, system.closure_size()}),
                          open_series(file, name, "closure_mean", {n, times - 1, system.closure_size()})});
  split->masked = file.has_attribute(fmt::format("/{}/closure", name), masked_attribute);
  const Experiment& experiment = impl_->experiment;
  split->parameter_names = experiment.data.parameters;
  split->input_names = experiment.data.input_names();
  if (!experiment.data.forcing.empty())
    split->forcing = open_series(file, name, "inputs", {n, times, experiment.data.forcing.size()});
  split->formulas = experiment.data.formulas;
  split->step = experiment.data.closure_step();
  if (file.has(fmt::format("/{}/clock", name)))
    split->clocks = open_series(file, name, "clock", {n}).read_all();
  if (const std::size_t p = experiment.data.parameters.size(); p > 0) {
    split->parameters = open_series(file, name, "parameters", {n, p}).read_all();
    // Those of the system come first.
    for (std::size_t i = 0; experiment.family && i < n; ++i)
      split->systems.push_back(experiment.family->at(
          std::span(split->parameters).subspan(i * p, experiment.family->names().size())));
  }
  return DataSplit(std::move(split));
}

const std::string& DataFile::content() const {
  if (impl_->content.empty()) impl_->content = hash_file(path());
  return impl_->content;
}

const ResolvedRange* DataFile::training_range() const {
  if (!has("train")) return nullptr;
  if (!impl_->training_range) {
    const DataSplit train = split("train");
    const std::size_t d = train.resolved_size();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    ResolvedRange range{std::vector<double>(d, infinity), std::vector<double>(d, -infinity)};
    std::vector<double> values(train.times() * d);
    for (std::size_t i = 0; i < train.trajectories(); ++i) {
      train.read_resolved(i, 0, train.times(), values.data());
      for (std::size_t k = 0; k < values.size(); ++k) {
        range.low[k % d] = std::min(range.low[k % d], values[k]);
        range.high[k % d] = std::max(range.high[k % d], values[k]);
      }
    }
    impl_->training_range = std::move(range);
  }
  return &*impl_->training_range;
}

std::optional<ResolvedRange> DataFile::parameter_range() const {
  if (!has("train") || impl_->experiment.data.parameters.empty()) return std::nullopt;
  const DataSplit train = split("train");
  const auto first = train.parameters(0);
  ResolvedRange range{{first.begin(), first.end()}, {first.begin(), first.end()}};
  for (std::size_t i = 1; i < train.trajectories(); ++i)
    for (std::size_t k = 0; k < first.size(); ++k) {
      range.low[k] = std::min(range.low[k], train.parameters(i)[k]);
      range.high[k] = std::max(range.high[k], train.parameters(i)[k]);
    }
  return range;
}

void check_data(const Experiment& experiment, const DataFile& data) {
  check_same_system(data.path(), data.experiment(), experiment.config.file(), experiment);
  const double made = data.experiment().data.closure_step(), described = experiment.data.closure_step();
  if (made != described)
    throw UsageError("{}: has a closure step (dt * stride) of {}, in {} it is {}", data.path(), made,
                     experiment.config.file(), described);
  const auto names = [](const Experiment& of) {
    const std::vector<std::string> all = of.data.input_names();
    return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "));
  };
  if (names(data.experiment()) != names(experiment))
    throw UsageError("{}: has the inputs {}, in {} they are {}", data.path(), names(data.experiment()),
                     experiment.config.file(), names(experiment));
  const std::string made_with = data.experiment().data.formulas_text(),
                    said = experiment.data.formulas_text();
  if (made_with != said)
    throw UsageError("{}: has [data.given] {}, in {} it is {}", data.path(), made_with,
                     experiment.config.file(), said);
}

}  // namespace mac
