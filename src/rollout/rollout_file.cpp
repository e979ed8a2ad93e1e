#include "rollout/rollout_file.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "data/provenance.hpp"
#include "data/split_group.hpp"
#include "io/atomic_file.hpp"
#include "io/content_hash.hpp"
#include "io/input_file.hpp"
#include "io/json_text.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Attribute and dataset names, part of the file format.
constexpr const char* data_file_key = "data_file";
constexpr const char* data_content_key = "data_content";
constexpr const char* first_in_data_key = "first_in_data";
constexpr const char* validation_horizon_key = "validation_horizon";
constexpr const char* validation_error_key = "validation_error";
constexpr const char* members_name = "members";
constexpr const char* training_range_name = "/training_range";
constexpr const char* parameter_range_name = "/parameter_range";

std::string in_split(const std::string& split, const char* name) {
  return fmt::format("/{}/{}", split, name);
}

fs::path times_file(const std::string& rollout) { return fs::path(rollout).replace_extension(".times.json"); }

h5::Dataset create_first_series(h5::File& file, const DataSplit& split, const System& system,
                                std::size_t trajectories, const std::vector<double>& time) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < trajectories; ++i) labels.push_back(split.label(i));
  create_split_group(file, split.name(), labels, time, system.time_unit());
  return create_series(file, split.name(), "resolved", trajectories, time.size(), system.resolved_names());
}

}  // namespace

RolloutSplitWriter::RolloutSplitWriter(h5::File& file, const DataSplit& split, const System& system,
                                       std::size_t trajectories, std::size_t members,
                                       const std::vector<double>& time, std::size_t first_in_data,
                                       std::optional<std::size_t> memory_size, const RolloutOptions& options)
    : file_(file),
      split_(split.name()),
      times_(time.size()),
      first_in_data_(first_in_data),
      d_(system.resolved_size()),
      c_(system.closure_size()),
      members_(members),
      memory_size_(memory_size),
      resolved_(create_first_series(file, split, system, trajectories, time)),
      closure_(create_series(file, split.name(), "closure", trajectories, times_, system.closure_names())),
      blow_up_time_(file.create_dataset(in_split(split.name(), "blow_up_time"), {trajectories})) {
  if (options.self_contained) {
    true_resolved_ =
        create_series(file, split.name(), "true_resolved", trajectories, times_, system.resolved_names());
    true_closure_ =
        create_series(file, split.name(), "true_closure", trajectories, times_, system.closure_names());
  } else {
    file.set_attribute("/" + split.name(), first_in_data_key, std::uint64_t{first_in_data});
  }
  const std::size_t runs = trajectories * members;
  if (members > 1) {
    const std::string group = in_split(split.name(), members_name);
    file.create_group(group);
    file.set_attribute(group, "count", std::uint64_t{members});
    member_resolved_ =
        create_series(file, split.name(), "members/resolved", runs, times_, system.resolved_names());
    member_closure_ =
        create_series(file, split.name(), "members/closure", runs, times_, system.closure_names());
    member_blow_up_time_ = file.create_dataset(group + "/blow_up_time", {runs});
  }
  if (!split.parameter_names().empty()) {
    h5::Dataset parameters = create_parameters(file, split.name(), trajectories, split.parameter_names());
    for (std::size_t i = 0; i < trajectories; ++i)
      parameters.write({i, 0}, {1, split.parameter_names().size()}, split.parameters(i).data());
  }
  if (memory_size)
    memory_ = file.create_dataset(in_split(split.name(), members > 1 ? "members/memory" : "memory"),
                                  {runs, *memory_size});
}

void RolloutSplitWriter::write(const DataSplit& split, std::size_t first, std::size_t count,
                               const GroupResult& result) {
  blow_up_time_.write({first}, {count}, result.blow_up_time.data());
  if (memory_ && *memory_size_ > 0)
    memory_->write({first * members_, 0}, {count * members_, *memory_size_},
                   (members_ > 1 ? result.members.memory : result.memory).data());
  if (members_ > 1)
    member_blow_up_time_->write({first * members_}, {count * members_}, result.members.blow_up_time.data());
  if (first == 0) seconds_per_step_ = result.seconds_per_step;

  // One trajectory after the other, whatever the group: the order of writes decides where chunks lie.
  for (std::size_t i = first; i < first + count; ++i) {
    resolved_.write({i, 0, 0}, {1, times_, d_}, result.resolved.data() + (i - first) * times_ * d_);
    closure_.write({i, 0, 0}, {1, times_, c_}, result.closure.data() + (i - first) * times_ * c_);
    for (std::size_t m = 0; m < members_ && members_ > 1; ++m) {
      const std::size_t run = (i - first) * members_ + m, row = i * members_ + m;
      member_resolved_->write({row, 0, 0}, {1, times_, d_},
                              result.members.resolved.data() + run * times_ * d_);
      member_closure_->write({row, 0, 0}, {1, times_, c_}, result.members.closure.data() + run * times_ * c_);
    }
    if (!true_resolved_) continue;
    const Truth truth = read_truth(split, i, first_in_data_, times_);
    true_resolved_->write({i, 0, 0}, {1, times_, d_}, truth.resolved.data());
    true_closure_->write({i, 0, 0}, {1, times_, c_}, truth.closure.data());
  }
}

void RolloutSplitWriter::write_exponents(const std::vector<double>& model, const std::vector<double>& truth) {
  for (const auto& [name, values] : {std::pair{"lyapunov", &model}, std::pair{"true_lyapunov", &truth}}) {
    if (values->empty()) continue;
    file_.create_dataset(in_split(split_, name), {values->size()})
        .write({0}, {values->size()}, values->data());
  }
}

void write_step_times(const std::string& rollout, const SecondsPerStep& times) {
  const nlohmann::json json{{"rollout", hash_file(rollout)}, {"seconds_per_step", times}};
  write_file_atomically(times_file(rollout), json.dump() + "\n");
}

SecondsPerStep read_step_times(const std::string& rollout) {
  const fs::path path = times_file(rollout);
  if (!fs::exists(path)) return {};
  try {
    const auto json = nlohmann::json::parse(read_json_text(path));
    if (json.at("rollout") != hash_file(rollout)) return {};
    return json.at("seconds_per_step");
  } catch (const nlohmann::json::exception& error) {
    throw Error("{}: does not hold the times of a rollout: {}", path.string(), error.what());
  }
}

void write_data_reference(h5::File& file, const std::string& path, const DataFile& data) {
  const fs::path folder = fs::weakly_canonical(fs::absolute(path)).parent_path();
  file.set_attribute(
      "/", data_file_key,
      fs::weakly_canonical(fs::absolute(data.path())).lexically_relative(folder).generic_string());
  file.set_attribute("/", data_content_key, data.content());
}

namespace {

void write_range(h5::File& file, const char* name, const ResolvedRange& range) {
  h5::Dataset dataset = file.create_dataset(name, {2, range.low.size()});
  dataset.write({0, 0}, {1, range.low.size()}, range.low.data());
  dataset.write({1, 0}, {1, range.high.size()}, range.high.data());
}

/// None where the file has none; Error if it is of another number of variables.
std::optional<ResolvedRange> read_range(const h5::File& file, const char* name, std::size_t d) {
  if (!file.has(name)) return std::nullopt;
  const h5::Dataset dataset = file.dataset(name);
  if (dataset.dims() != std::vector<std::size_t>{2, d})
    throw Error("{}: {} has shape ({}), expected (2, {})", file.path(), name, fmt::join(dataset.dims(), ", "),
                d);
  const std::vector<double> values = dataset.read_all();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(d);
  return ResolvedRange{{values.begin(), middle}, {middle, values.end()}};
}

}  // namespace

void write_training_range(h5::File& file, const ResolvedRange& range) {
  write_range(file, training_range_name, range);
}
void write_parameter_range(h5::File& file, const ResolvedRange& range) {
  write_range(file, parameter_range_name, range);
}

void write_validation(h5::File& file, const ValidationError& validation) {
  file.set_attribute("/", validation_horizon_key, validation.horizon);
  file.set_attribute("/", validation_error_key, validation.error);
}

Truth read_truth(const DataSplit& split, std::size_t trajectory, std::size_t first, std::size_t count) {
  Truth truth{std::vector<double>(count * split.resolved_size(), nan),
              std::vector<double>(count * split.closure_size(), nan)};
  const std::size_t known = first < split.times() ? std::min(count, split.times() - first) : 0;
  if (known == 0) return truth;
  split.read_resolved(trajectory, first, known, truth.resolved.data());
  split.read_closure(trajectory, first, known, truth.closure.data());
  return truth;
}

const DataFile& RolloutData::find(const std::string& rollout, const std::string& stored,
                                  const std::string& content) {
  const fs::path folder = fs::path(rollout).parent_path();
  std::vector<std::string> paths{given_};
  if (fs::exists(given_)) require_file(given_);
  if (given_.empty())
    paths = {(folder / stored).lexically_normal().string(), (folder / fs::path(stored).filename()).string()};
  if (paths.back() == paths.front()) paths.resize(1);
  std::vector<std::string> others;  // are there with another content
  for (const std::string& path : paths) {
    if (!fs::is_regular_file(path)) continue;
    Candidate& candidate = candidates_[path];
    if (candidate.content.empty()) candidate.content = hash_file(path);
    if (candidate.content != content) {
      others.push_back(path);
      continue;
    }
    if (!candidate.file) candidate.file.emplace(DataFile::open(path));
    return *candidate.file;
  }
  if (others.empty())
    throw Error("{}: was rolled out on the data of {}, which is not there; say by --data where it is",
                rollout, fmt::join(paths, " or "));
  throw Error(
      "{}: was rolled out on other data than those of {}: its content is not the one that the rollout "
      "was made from; say by --data where that file is",
      rollout, fmt::join(others, " and "));
}

RolloutReader::RolloutReader(const std::string& path)
    : file_(h5::File::open(path)), header_{path, {}, {}, read_provenance(file_, "rollout"), {}} {
  header_.model = file_.string_attribute("/", "model");
  header_.held = {hold_from(file_.string_attribute("/", "hold")),
                  target_from(file_.string_attribute("/", "target"))};
  if (file_.has_attribute("/", "precision"))
    header_.precision = precision_from(file_.string_attribute("/", "precision"));
  if (file_.has_attribute("/", "noise_seed")) header_.noise_seed = file_.integer_attribute("/", "noise_seed");
  if (splits().empty()) throw Error("{}: holds no split", path);
  header_.training_range = read_range(file_, training_range_name, header_.experiment.system->resolved_size());
  header_.parameter_range =
      read_range(file_, parameter_range_name, header_.experiment.data.parameters.size());
  if (file_.has_attribute("/", validation_error_key))
    header_.validation = ValidationError{file_.number_attribute("/", validation_horizon_key),
                                         file_.number_attribute("/", validation_error_key)};
}

std::vector<std::string> RolloutReader::splits() const {
  std::vector<std::string> names;
  for (const SplitPlan& plan : header_.experiment.data.splits)
    if (has(plan.name)) names.push_back(plan.name);
  return names;
}

bool RolloutReader::has(const std::string& split) const { return file_.has("/" + split); }

std::size_t RolloutReader::trajectories(const std::string& split) const {
  const h5::Dataset times = file_.dataset(in_split(split, "blow_up_time"));
  if (times.dims().size() != 1) throw Error("{}: {} is no list", path(), in_split(split, "blow_up_time"));
  return times.dims()[0];
}

std::vector<double> RolloutReader::seconds_per_step(const std::string& split) const {
  const std::string name = in_split(split, "seconds_per_step");
  if (file_.has(name)) return file_.dataset(name).read_all();  // as earlier versions wrote them
  const SecondsPerStep times = read_step_times(path());
  const auto found = times.find(split);
  return found == times.end() ? std::vector<double>() : found->second;
}

std::vector<double> RolloutReader::read_rows(const std::string& split, const std::string& name,
                                             std::size_t width, const RolloutSplit& of,
                                             std::size_t first) const {
  const std::size_t times = of.time.size();
  const h5::Dataset series = open_series(file_, split, name, {trajectories(split), times, width});
  std::vector<double> values(of.trajectories() * times * width);
  series.read({first, 0, 0}, {of.trajectories(), times, width}, values.data());
  return values;
}

std::vector<double> RolloutReader::read_members(const std::string& split, const std::string& name,
                                                std::size_t width, const RolloutSplit& of,
                                                std::size_t first) const {
  const std::size_t times = of.time.size(), count = of.members.count;
  const h5::Dataset series =
      open_series(file_, split, "members/" + name, {trajectories(split) * count, times, width});
  std::vector<double> values(of.trajectories() * count * times * width);
  series.read({first * count, 0, 0}, {of.trajectories() * count, times, width}, values.data());
  return values;
}

RolloutSplit RolloutReader::read(const std::string& name, std::size_t first, std::size_t count) const {
  const System& system = *header_.experiment.system;
  RolloutSplit split;
  split.name = name;
  split.labels = file_.read_text(in_split(name, "labels"));
  split.time = file_.dataset(in_split(name, "time")).read_all();
  const std::size_t n = split.labels.size(), times = split.time.size();
  if (n == 0) throw Error("{}: /{} holds no trajectory", path(), name);
  if (times == 0) throw Error("{}: /{} holds no time", path(), name);
  check_times(path(), name, split.time, header_.experiment.data.closure_step());
  if (first >= n) throw Error("{}: /{} has no trajectory {}", path(), name, first);
  split.blow_up_time = open_series(file_, name, "blow_up_time", {n}).read_all();
  count = std::min(count, n - first);
  const auto keep = [&](auto& values, std::size_t width) {
    const auto at = [&](std::size_t row) {
      return values.begin() + static_cast<std::ptrdiff_t>(row * width);
    };
    values.erase(at(first + count), values.end());
    values.erase(values.begin(), at(first));
  };
  keep(split.labels, 1), keep(split.blow_up_time, 1);
  split.resolved = read_rows(name, "resolved", system.resolved_size(), split, first);
  split.closure = read_rows(name, "closure", system.closure_size(), split, first);
  MemberRuns& members = split.members;
  const std::string group = in_split(name, members_name);
  if (file_.has(group)) {
    members.count = file_.integer_attribute(group, "count");
    if (members.count < 2 || members.count > most_stochastic_members)
      throw Error("{}: {} has a count of {}", path(), group, members.count);
    members.resolved = read_members(name, "resolved", system.resolved_size(), split, first);
    members.closure = read_members(name, "closure", system.closure_size(), split, first);
    members.blow_up_time = open_series(file_, name, "members/blow_up_time", {n * members.count}).read_all();
    keep(members.blow_up_time, members.count);
  }
  const std::string memory_name = in_split(name, members.count > 1 ? "members/memory" : "memory");
  if (file_.has(memory_name)) {
    const h5::Dataset memory = file_.dataset(memory_name);
    if (memory.dims().size() != 2 || memory.dims()[0] != n * members.count)
      throw Error("{}: {} has not one row a trajectory", path(), memory_name);
    split.memory_size = memory.dims()[1];
    std::vector<double>& rows = members.count > 1 ? members.memory : split.memory;
    rows = memory.read_all();
    keep(rows, members.count * *split.memory_size);
  }
  if (const std::size_t p = header_.experiment.data.parameters.size();
      p > 0 && file_.has(in_split(name, "parameters"))) {
    split.parameters = open_series(file_, name, "parameters", {n, p}).read_all();
    keep(split.parameters, p);
  }
  for (const auto& [key, values] :
       {std::pair{"lyapunov", &split.lyapunov}, std::pair{"true_lyapunov", &split.true_lyapunov}})
    if (const std::string exponents = in_split(name, key); file_.has(exponents)) {
      if (const auto dims = file_.dataset(exponents).dims(); dims.size() != 1 || dims[0] > n)
        throw Error("{}: {} has shape ({}), expected at most one number for each of {} trajectories", path(),
                    exponents, fmt::join(dims, ", "), n);
      *values = file_.dataset(exponents).read_all();
    }
  split.seconds_per_step = seconds_per_step(name);
  if (!split.seconds_per_step.empty() && split.seconds_per_step.size() != times)
    throw Error("{}: /{}/seconds_per_step has not one number a time", path(), name);
  return split;
}

RolloutSplit RolloutReader::read(const std::string& name, RolloutData& data, std::size_t first,
                                 std::size_t count) const {
  const System& system = *header_.experiment.system;
  RolloutSplit split = read(name, first, count);
  if (file_.has(in_split(name, "true_resolved"))) {
    split.true_resolved = read_rows(name, "true_resolved", system.resolved_size(), split, first);
    split.true_closure = read_rows(name, "true_closure", system.closure_size(), split, first);
    return split;
  }
  if (!file_.has_attribute("/", data_file_key) || !file_.has_attribute("/" + name, first_in_data_key))
    throw Error("{}: /{} has neither the truth nor a reference to its data file", path(), name);
  const DataFile& source = data.find(path(), file_.string_attribute("/", data_file_key),
                                     file_.string_attribute("/", data_content_key));
  const DataSplit truths = source.split(name);
  if (truths.trajectories() < first + split.trajectories() ||
      truths.resolved_size() != system.resolved_size() || truths.closure_size() != system.closure_size())
    throw Error("{}: split {} does not fit that of {}", path(), name, source.path());
  const std::size_t at = file_.integer_attribute("/" + name, first_in_data_key);
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    const Truth truth = read_truth(truths, first + i, at, split.time.size());
    split.true_resolved.insert(split.true_resolved.end(), truth.resolved.begin(), truth.resolved.end());
    split.true_closure.insert(split.true_closure.end(), truth.closure.begin(), truth.closure.end());
  }
  return split;
}

RolloutFile RolloutFile::open(const std::string& path, const std::string& data) {
  const RolloutReader reader(path);
  RolloutData truths(data);
  RolloutFile file = reader.header();
  for (const std::string& name : reader.splits()) file.splits.push_back(reader.read(name, truths));
  return file;
}

}  // namespace mac
