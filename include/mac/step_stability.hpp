// Whether RK4 can take the reduced equations over one closure step at all: known before anything is trained.
#pragma once

#include <mac/data.hpp>
#include <optional>
#include <string>

namespace mac {

struct StepStability {
  double largest = 0;         // |lambda| dt, the largest over the states and the decaying modes
  double unstable_share = 0;  // of the states with a decaying mode that RK4 amplifies
};

/// Eigenvalues lambda of the reduced Jacobian at up to 64 states spread over the training data (else another
/// split), against RK4's region of stability, which ends at |lambda| dt = 2.78 on the negative real axis.
/// None without equations.
std::optional<StepStability> step_stability(const System& system, const DataFile& data);

/// The warning where the step is beyond it.
std::optional<std::string> stability_warning(const System& system, const DataFile& data);

}  // namespace mac
