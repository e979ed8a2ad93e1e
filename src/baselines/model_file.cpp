#include "baselines/model_file.hpp"

#include <cmath>
#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "experiment/baseline_kinds.hpp"
#include "io/input_file.hpp"

namespace mac {

h5::File open_baseline(const std::string& path, const std::string& kind) {
  h5::File file = h5::File::open(path);
  read_provenance(file, baseline_file_kind);
  if (const std::string found = file.string_attribute("/", "baseline"); found != kind)
    throw Error("{}: holds a model of kind {}, expected {}", path, found, kind);
  return file;
}

std::vector<double> read_coefficients(const h5::File& file, std::size_t count) {
  const h5::Dataset dataset = file.dataset("/coefficients");
  if (dataset.dims() != std::vector<std::size_t>{count})
    throw Error("{}: /coefficients has shape ({}), expected ({})", file.path(),
                fmt::join(dataset.dims(), ", "), count);
  auto values = dataset.read_all();
  for (const double value : values)
    if (!std::isfinite(value)) throw Error("{}: /coefficients holds {}", file.path(), value);
  return values;
}

void write_inputs(h5::File& file, const NetworkInputs& inputs) {
  const auto write = [&](const char* name, const std::vector<std::string>& names) {
    if (!names.empty()) file.set_attribute("/", name, names);
  };
  write("state_inputs", inputs.state);
  write("given_inputs", inputs.given);
  write("local_of", inputs.of);
  std::vector<double> ends;
  for (const StencilRange& range : inputs.stencil)
    ends.insert(ends.end(), {1.0 * range.from, 1.0 * range.to});
  if (!ends.empty())
    file.create_dataset("/local_stencil", {ends.size()}).write({0}, {ends.size()}, ends.data());
}

NetworkInputs read_inputs(const h5::File& file) {
  const auto read = [&](const char* name) {
    return file.has_attribute("/", name) ? file.strings_attribute("/", name) : std::vector<std::string>{};
  };
  NetworkInputs inputs{read("state_inputs"), read("given_inputs"), read("local_of"), {}, Frame::none};
  if (!inputs.is_local()) return inputs;
  const std::vector<double> ends = file.dataset("/local_stencil").read_all();
  for (const double end : ends)
    if (!(std::abs(end) <= 4096) || end != std::floor(end))
      throw Error("{}: /local_stencil holds {}, expected offsets", file.path(), end);
  if (ends.empty() || ends.size() % 2 != 0)
    throw Error("{}: /local_stencil has {} numbers, expected from and to of each direction", file.path(),
                ends.size());
  for (std::size_t k = 0; k < ends.size(); k += 2)
    inputs.stencil.push_back({static_cast<int>(ends[k]), static_cast<int>(ends[k + 1])});
  return inputs;
}

NetworkInputs baseline_inputs(const std::string& path) { return read_inputs(h5::File::open(path)); }

bool is_baseline(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || file_kind(path) != FileKind::hdf5) return false;
  const h5::File file = h5::File::open(path);
  return file.has_attribute("/", "mac_kind") && file.string_attribute("/", "mac_kind") == baseline_file_kind;
}

std::unique_ptr<ClosureModel> load_baseline(const std::string& path, const System& system, std::string name,
                                            const std::vector<std::string>& given) {
  std::string kind;
  {
    const h5::File file = h5::File::open(path);
    const Experiment fitted = read_provenance(file, baseline_file_kind);
    const bool any_length = read_inputs(file).is_local();
    if (fitted.system->name() != system.name() ||
        (!any_length && fitted.system->resolved_names() != system.resolved_names()))
      throw UsageError("{}: is a closure for {} with the variables {}, the data are of {} with {}", path,
                       fitted.system->name(), fmt::join(fitted.system->resolved_names(), " "), system.name(),
                       fmt::join(system.resolved_names(), " "));
    kind = file.string_attribute("/", "baseline");
    if (name.empty()) name = file.string_attribute("/", "model");
  }
  for (const BaselineKind& known : baseline_kinds())
    if (known.file_kind == kind) return known.load(path, system, given, std::move(name));
  throw Error("{}: holds a model of kind {}, which this version does not know", path, kind);
}

}  // namespace mac
