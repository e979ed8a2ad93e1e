// Writing data files whose closures are not known everywhere.
#pragma once

#include <mac/data.hpp>
#include <set>

namespace mac {

/// As write_data of mac/data.hpp; closures of the splits `masked` are NaN where nobody knows them.
void write_data(const Experiment& experiment, const std::vector<SplitArrays>& splits, const std::string& path,
                const std::set<std::string>& masked);

}  // namespace mac
