#include "systems/equations/random_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "systems/equations/build.hpp"

namespace mac::equations {

namespace {

/// What is going to be evaluated, before it is.
void expect_work(std::size_t parts, const Expression& e, const Here& here) {
  if (here.work + parts > most_terms) throw TextError(e.at, "the initial state has too many terms");
}
void count_work(std::size_t parts, const Expression& e, Here& here) {
  expect_work(parts, e, here);
  here.work += parts;
}

/// Index arithmetic with the indices of this point as parameters.
long whole(const Expression& e, Here& here) {
  count_work(parts(e), e, here);
  std::map<std::string, double> names = here.model.parameters;
  for (const auto& [name, value] : here.index) names[name] = static_cast<double>(value);
  return whole_constant(e, names);
}

double variable(const Variable& found, const Expression& e, Here& here) {
  const Lattice& lattice = found.lattice;
  if (e.arguments.size() != lattice.indices.size())
    throw TextError(e.at, fmt::format("{} has {} indices, here are {}", lattice.name, lattice.indices.size(),
                                      e.arguments.size()));
  std::vector<long> point;
  for (const Expression& argument : e.arguments) point.push_back(whole(argument, here));
  const std::int32_t position = lattice.position(point);
  if (position == -1) return 0;
  if (position < 0) throw TextError(e.at, fmt::format("{} has no such point", lattice.name));
  if (found.offset + position >= here.set)
    throw TextError(e.at, fmt::format("{} is not set before this variable is", lattice.name_of(position)));
  return here.state[static_cast<std::size_t>(found.offset + position)];
}

double name(const Expression& e, Here& here) {
  if (const auto index = here.index.find(e.name); index != here.index.end() && e.arguments.empty())
    return static_cast<double>(index->second);
  if (const Variable* found = here.model.find(e.name)) return variable(*found, e, here);
  return constant_value(e, here.model.parameters);  // a parameter, or the error
}

double sum(const Expression& e, Here& here) {
  long first = 0, last = -1;
  if (e.arguments.size() == 3) {
    first = whole(e.arguments[0], here);
    last = whole(e.arguments[1], here);
  } else {
    const Lattice& range =
        range_of(here.model, e.name, e.at, fmt::format("; write sum({} = 1..N, ...)", e.name));
    first = range.first[0];
    last = first + range.count[0] - 1;
  }
  expect_work(static_cast<std::size_t>(std::max(0L, last - first + 1)), e, here);
  const auto before = here.index;
  double total = 0;
  for (long k = first; k <= last; ++k) {
    here.index[e.name] = k;
    total += random_value(e.arguments.back(), here);
  }
  here.index = before;
  return total;
}

}  // namespace

double random_value(const Expression& e, Here& here) {
  count_work(1, e, here);
  if (e.kind == Expression::Kind::number) return e.value;
  if (e.kind == Expression::Kind::reference) return name(e, here);
  if (e.kind == Expression::Kind::sum) return sum(e, here);
  if (e.name == "where" && e.arguments.size() == 3)
    return random_value(e.arguments[random_value(e.arguments[0], here) != 0 ? 1 : 2], here);
  Expression numbers = {e.kind, e.value, e.name, {}, e.at};
  for (const Expression& argument : e.arguments) {
    const double value = random_value(argument, here);
    numbers.arguments.push_back({Expression::Kind::number, value, {}, {}, argument.at});
  }
  if (e.name != "uniform" && e.name != "normal") return constant_value(numbers, here.model.parameters);
  if (e.arguments.size() != 2)
    throw TextError(e.at, e.name == "uniform" ? "uniform has two arguments, uniform(low, high)"
                                              : "normal has two arguments, normal(mean, deviation)");
  const double first = numbers.arguments[0].value, second = numbers.arguments[1].value;
  if (e.name == "uniform") {
    if (!(first <= second)) throw TextError(e.at, "the lower bound comes first");
    return here.random.uniform(first, second);
  }
  if (!(second >= 0)) throw TextError(e.at, "a deviation is not negative");
  return first + second * here.random.normal();
}

}  // namespace mac::equations
