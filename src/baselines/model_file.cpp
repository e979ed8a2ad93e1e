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

bool is_baseline(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || file_kind(path) != FileKind::hdf5) return false;
  const h5::File file = h5::File::open(path);
  return file.has_attribute("/", "mac_kind") && file.string_attribute("/", "mac_kind") == baseline_file_kind;
}

std::unique_ptr<ClosureModel> load_baseline(const std::string& path, const System& system, std::string name) {
  std::string kind;
  {
    const h5::File file = h5::File::open(path);
    const Experiment fitted = read_provenance(file, baseline_file_kind);
    if (fitted.system->name() != system.name() || fitted.system->resolved_names() != system.resolved_names())
      throw UsageError("{}: is a closure for {} with the variables {}, the data are of {} with {}", path,
                       fitted.system->name(), fmt::join(fitted.system->resolved_names(), " "), system.name(),
                       fmt::join(system.resolved_names(), " "));
    kind = file.string_attribute("/", "baseline");
    if (name.empty()) name = file.string_attribute("/", "model");
  }
  for (const BaselineKind& known : baseline_kinds())
    if (known.file_kind == kind) return known.load(path, std::move(name));
  throw Error("{}: holds a model of kind {}, which this version does not know", path, kind);
}

}  // namespace mac
