// Random images of a trajectory under the symmetries of its system: as good as new data, for free.
#pragma once

#include <mac/random.hpp>
#include <mac/system.hpp>
#include <vector>

namespace mac {

class Augmentation {
 public:
  explicit Augmentation(const System& system);

  /// Draws one group element and applies it to all rows of one trajectory: resolved (states, d), closure
  /// (closures, c).
  void apply(RandomStream& random, double* resolved, std::size_t states, double* closure,
             std::size_t closures) const;

 private:
  std::vector<Symmetry> symmetries_;
  std::size_t modes_, d_, c_;
};

}  // namespace mac
