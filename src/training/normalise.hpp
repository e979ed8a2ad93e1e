// Scales of the network's input and output, from the training data alone. Paper, Data Normalization
// (apdx_data_normalization): max_abs for Burgers' equation and KdV, mean_std for Lorenz '96 and the power grid.
#pragma once

#include <mac/data.hpp>
#include <mac/model.hpp>
#include <mac/training_plan.hpp>

#include "coupling/input_map.hpp"

namespace mac {

/// Components that the system's symmetries turn into each other (a Fourier mode, a ring) share a number.
std::vector<std::size_t> symmetry_groups(const System& system, std::size_t components);

/// Error that says which number of the split is not finite, if one is.
void check_finite(const DataSplit& split, const System& system);

/// The network's scales, one a feature and one an output, shared by the sites; and those of the resolved variables,
/// which errors are measured in. Where the network reads all resolved variables, the two are the same.
struct FittedScales {
  Normalisation network;
  std::vector<double> resolved;  // (d)
};

/// From the first `times` saved times of every trajectory of the split; the closure is that of the target.
/// What is given from outside has mean and standard deviation for its scale, whatever the scaling.
/// One pass over the file: memory is one trajectory. Numbers that are not finite are an Error.
FittedScales fit_scales(const DataSplit& train, const System& system, const InputMap& inputs, Scaling scaling,
                        Target target, std::size_t times);

}  // namespace mac
