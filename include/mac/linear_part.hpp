// Systems that declare the linear part of their reduced equations,
//
//   R^(y) = L y + N(y)
//
// where stiffness lies in L: ETDRK4 takes L exactly (mac/reduced_step.hpp). A system derives from LinearPart beside
// System.
#pragma once

#include <mac/system.hpp>
#include <vector>

namespace mac {

class LinearPart {
 public:
  virtual ~LinearPart() = default;
  /// L, (d, d) row by row; empty: none.
  virtual std::vector<double> linear_part() const = 0;
};

/// L of a system; empty where it declares none.
inline std::vector<double> linear_part_of(const System& system) {
  const auto* const declared = dynamic_cast<const LinearPart*>(&system);
  return declared ? declared->linear_part() : std::vector<double>();
}

}  // namespace mac
