// The file that every fitted baseline lives in: HDF5 with the experiment it was fitted for, and as attributes
// "baseline", what it is ("wilks"), and "model", its name in files and tables.
#pragma once

#include <mac/experiment.hpp>
#include <string>
#include <vector>

#include "data/provenance.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"

namespace mac {

inline constexpr const char* baseline_file_kind = "baseline";

/// Writes the file atomically; `fill(file)` adds what the model consists of.
template <class Fill>
void write_baseline(const std::string& path, const std::string& kind, const std::string& name,
                    const Experiment& experiment, Fill&& fill) {
  AtomicFile target(path);
  h5::File file = h5::File::create(target);
  write_provenance(file, baseline_file_kind, experiment);
  file.set_attribute("/", "baseline", kind);
  file.set_attribute("/", "model", name);
  fill(file);
  file.close();
  target.commit();
}

/// A baseline file of the given kind; Error where it is something else.
h5::File open_baseline(const std::string& path, const std::string& kind);

/// What a baseline reads, where it is not all resolved variables as they are.
void write_inputs(h5::File& file, const NetworkInputs& inputs);
NetworkInputs read_inputs(const h5::File& file);

/// /coefficients, `count` finite numbers.
std::vector<double> read_coefficients(const h5::File& file, std::size_t count);

}  // namespace mac
