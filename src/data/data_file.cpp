#include <algorithm>
#include <limits>
#include <mac/data.hpp>
#include <mac/error.hpp>

#include "data/provenance.hpp"
#include "data/split_group.hpp"
#include "io/content_hash.hpp"
#include "io/hdf5.hpp"

namespace mac {

struct DataSplit::Impl {
  std::string name;
  std::vector<double> time;
  std::vector<std::string> labels;
  h5::Dataset resolved, closure, closure_mean;
  bool masked = false;
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

void check_data(const Experiment& experiment, const DataFile& data) {
  check_same_system(data.path(), data.experiment(), experiment.config.file(), experiment);
  const double made = data.experiment().data.closure_step(), described = experiment.data.closure_step();
  if (made != described)
    throw UsageError("{}: has a closure step (dt * stride) of {}, in {} it is {}", data.path(), made,
                     experiment.config.file(), described);
}

}  // namespace mac
