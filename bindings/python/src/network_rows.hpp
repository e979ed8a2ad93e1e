// What the network of a closure reads in a rollout from Python, where that is not the state alone: some variables or
// features of them, parameters and forcing from outside, the neighbourhood of every site of a lattice.
#pragma once

#include <mac/runtime.hpp>
#include <memory>

#include "closure.hpp"

namespace mac::python {

/// Numbers from outside along a rollout.
struct GivenArrays {
  std::vector<std::string> names;
  Array values;  // (columns, closure steps + 1, names)
};

class NetworkRows {
 public:
  /// Null for a network that reads the resolved variables, all of them and nothing else. The system is that of the
  /// right-hand side, or null for a function: then it is the one that the closure was trained for, on a lattice of any
  /// length. Throws UsageError that names what is missing.
  static std::unique_ptr<NetworkRows> of(const Closure& closure, std::shared_ptr<const System> system,
                                         std::size_t variables, std::size_t columns,
                                         const GivenArrays& given);
  virtual ~NetworkRows() = default;

  virtual std::size_t rows() const = 0;                  // of the network for a column
  virtual std::vector<std::size_t> targets() const = 0;  // the equation of each closure component
  virtual runtime::CouplingRows coupling_rows() = 0;     // refers to this object
  virtual void at_closure_step(std::size_t n) = 0;       // whose numbers from outside are read from now on
};

}  // namespace mac::python
