// Expressions of initial states: numbers, one point after the other, with random draws.
#pragma once

#include <mac/random.hpp>
#include <map>

#include "systems/equations/model.hpp"

namespace mac::equations {

/// For one number of an initial state: some seconds. More is a slip in the range of a sum.
inline constexpr std::size_t most_terms = 2'000'000;

/// What names mean at one point of a lattice.
struct Here {
  const Model& model;
  std::map<std::string, long> index;
  std::span<const double> state;  // variables that are set already
  std::int32_t set;               // how many numbers of the state are
  RandomStream& random;
  std::size_t work = 0;  // parts of the expression that were evaluated, each as often as it was
};

/// uniform(low, high) and normal(mean, deviation) draw; everything else is as in equations. Throws TextError.
double random_value(const Expression& e, Here& here);

}  // namespace mac::equations
