// The parts of a split's HDF5 group that data files and rollout files share.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace mac {

/// The group "/name" with the trajectories' labels and the saved times.
void create_split_group(h5::File& file, const std::string& name, const std::vector<std::string>& labels,
                        const std::vector<double>& time, std::string_view time_unit);

/// On a closure that is NaN where nobody knows it.
inline constexpr const char* masked_attribute = "masked";

/// "/name/dataset" (trajectories, times, variables), compressed in chunks of one trajectory.
h5::Dataset create_series(h5::File& file, const std::string& name, const std::string& dataset,
                          std::size_t trajectories, std::size_t times,
                          const std::vector<std::string>& variables);

/// "/name/parameters" (trajectories, parameters).
h5::Dataset create_parameters(h5::File& file, const std::string& name, std::size_t trajectories,
                              const std::vector<std::string>& parameters);

/// "/name/dataset"; Error naming both shapes if it has another than expected.
h5::Dataset open_series(const h5::File& file, const std::string& name, const std::string& dataset,
                        const std::vector<std::size_t>& expected);

/// Throws Error unless the times of a split are finite and follow each other by `step`, the experiment's.
void check_times(const std::string& file, const std::string& split, const std::vector<double>& time,
                 double step);

}  // namespace mac
