// What every HDF5 file of the program says about itself.
#pragma once

#include <mac/experiment.hpp>
#include <string>

#include "io/hdf5.hpp"

namespace mac {

/// Root attributes: kind ("data", "rollout"), the experiment, its seed, the program that wrote the file; and
/// what the system's variables are, for programs that do not know the system. No date: the same experiment gives the same bytes, and the file system keeps the date anyway.
void write_provenance(h5::File& file, const std::string& kind, const Experiment& experiment);

/// The experiment in a file of the given kind; Error if the file is of another kind or not ours.
Experiment read_provenance(const h5::File& file, const std::string& kind);

}  // namespace mac
