#include "systems/equations/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/nearest.hpp"
#include "systems/equations/build.hpp"

namespace mac::equations {

namespace {

/// "d" and a variable: the rate of change of which one?
const Variable* rate_of(const Model& model, const Statement& statement) {
  const std::string& name = statement.left.name;
  if (name.size() < 2 || name[0] != 'd') return nullptr;
  return model.find(name.substr(1));
}

bool is_plain_name(const Expression& e) {
  return e.kind == Expression::Kind::reference && e.arguments.empty();
}

void check_new_name(const Model& model, const std::string& name, std::size_t at) {
  if (is_reserved(name))
    throw TextError(at, fmt::format("the name {} is taken: it means something here", name));
  if (model.parameters.contains(name))
    throw TextError(at, fmt::format("{} is a parameter, it has its value already", name));
  if (model.find(name))
    throw TextError(at, fmt::format("{0} is a variable: give its rate of change, d{0} = ...", name));
  if (model.definitions.contains(name)) throw TextError(at, fmt::format("{} is defined twice", name));
}

void add_definition(Model& model, Statement statement) {
  const Expression& left = statement.left;
  check_new_name(model, left.name, left.at);
  if (statement.over_dt) {
    std::vector<std::string> names;
    for (const Variable& variable : model.variables) names.push_back("d" + variable.lattice.name);
    throw TextError(left.at,
                    fmt::format("{} is the rate of no variable{}", left.name, suggestion(left.name, names)));
  }
  Definition definition;
  Lattice& lattice = definition.lattice;
  lattice.name = left.name;
  std::int64_t size = 1;
  for (const Expression& index : left.arguments) {
    if (!is_plain_name(index)) throw TextError(index.at, "a quantity is defined for an index, flux[k] = ...");
    const Lattice& range =
        range_of(model, index.name, index.at, "; a quantity needs an index with one range");
    if (std::ranges::find(lattice.indices, index.name) != lattice.indices.end())
      throw TextError(index.at, fmt::format("the index {} is there twice", index.name));
    lattice.indices.push_back(index.name);
    lattice.first.push_back(range.first[0]);
    lattice.count.push_back(range.count[0]);
    lattice.edges.push_back(range.edges[0]);
    size *= range.count[0];
    if (size > most_points) throw TextError(left.at, fmt::format("{} has too many points", left.name));
  }
  lattice.size = static_cast<std::int32_t>(size);
  definition.statement = std::move(statement);
  model.definitions.emplace(lattice.name, std::move(definition));
}

/// dX[k] is for all points of X, dX[1] for one, dY[k, 1] for a row.
Equation make_equation(const Model& model, std::size_t variable, Statement statement) {
  const Lattice& lattice = model.variables[variable].lattice;
  const Expression& left = statement.left;
  if (left.arguments.size() != lattice.indices.size())
    throw TextError(left.at, fmt::format("{} has {} indices, here are {}", lattice.name,
                                         lattice.indices.size(), left.arguments.size()));
  std::vector<std::optional<long>> fixed;
  std::set<std::string> free;
  for (const Expression& index : left.arguments) {
    if (is_plain_name(index) && !model.parameters.contains(index.name)) {
      if (!free.insert(index.name).second)
        throw TextError(index.at, fmt::format("the index {} is there twice", index.name));
      fixed.emplace_back();
    } else {
      fixed.emplace_back(whole_constant(index, model.parameters));
    }
  }
  Equation equation{std::move(statement), variable, {}};
  for (std::int32_t p = 0; p < lattice.size; ++p) {
    const std::vector<long> point = lattice.point(p);
    bool here = true;
    for (std::size_t i = 0; i < point.size(); ++i) here = here && (!fixed[i] || *fixed[i] == point[i]);
    if (here) equation.points.push_back(p);
  }
  if (equation.points.empty())
    throw TextError(equation.statement.left.at, fmt::format("{} has no point with this index", lattice.name));
  return equation;
}

std::size_t fixed_indices(const Equation& equation, const Model& model) {
  std::size_t fixed = 0;
  for (const Expression& index : equation.statement.left.arguments)
    fixed += is_plain_name(index) && !model.parameters.contains(index.name) ? 0 : 1;
  return fixed;
}

}  // namespace

std::int32_t Lattice::position(std::span<const long> point) const {
  long at = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    long k = point[i] - first[i];
    const long n = count[i];
    if ((k < 0 || k >= n) && !ring) {
      switch (edges[i]) {
        case Edge::cyclic:
          k = ((k % n) + n) % n;
          break;
        case Edge::zero:
          return -1;
        case Edge::mirror:  // the edge itself is the mirror: -1 is 0, n is n - 1
          k = ((k % (2 * n)) + 2 * n) % (2 * n);
          if (k >= n) k = 2 * n - 1 - k;
          break;
        case Edge::bounded:
          return -2;
      }
    }
    at = at * n + k;
  }
  if (ring) at = ((at % size) + size) % size;
  return static_cast<std::int32_t>(at);
}

std::vector<long> Lattice::point(std::int32_t position) const {
  std::vector<long> result(indices.size());
  long rest = position;
  for (std::size_t i = indices.size(); i-- > 0;) {
    result[i] = first[i] + rest % count[i];
    rest /= count[i];
  }
  return result;
}

std::string Lattice::name_of(std::int32_t position) const {
  return name + fmt::format("{}", fmt::join(point(position), "_"));
}

const Variable* Model::find(const std::string& name) const {
  for (const Variable& variable : variables)
    if (variable.lattice.name == name) return &variable;
  return nullptr;
}

const Lattice& range_of(const Model& model, const std::string& index, std::size_t at,
                        std::string_view otherwise) {
  const auto range = model.index_ranges.find(index);
  if (range == model.index_ranges.end())
    throw TextError(at, fmt::format("the index {} is not that of a variable{}", index, otherwise));
  if (range->second.count[0] < 0)
    throw TextError(at, fmt::format("variables differ in the range of {}{}", index, otherwise));
  return range->second;
}

bool is_reserved(const std::string& name) {
  for (const Function& function : functions())
    if (name == function.name) return true;
  for (const char* word : {"sum", "where", "pi", "t", "dt", "uniform", "normal", "and", "or", "not"})
    if (name == word) return true;
  return false;
}

Lattice make_lattice(const Declaration& declaration, const std::map<std::string, double>& parameters) {
  Lattice lattice;
  lattice.name = declaration.name;
  lattice.ring = declaration.ring;
  if (is_reserved(lattice.name))
    throw TextError(declaration.at,
                    fmt::format("the name {} is taken: it means something here", lattice.name));
  std::int64_t size = 1;
  for (const IndexRange& range : declaration.indices) {
    if (is_reserved(range.name) || parameters.contains(range.name))
      throw TextError(declaration.at, fmt::format("the index {} has the name of something else", range.name));
    const long first = whole_constant(range.first, parameters), last = whole_constant(range.last, parameters);
    if (last < first)
      throw TextError(range.first.at,
                      fmt::format("the range {}..{} of {} is empty", first, last, range.name));
    lattice.indices.push_back(range.name);
    lattice.first.push_back(first);
    if (static_cast<double>(last) - static_cast<double>(first) >= static_cast<double>(most_points))
      throw TextError(range.first.at, fmt::format("{} has too many points", lattice.name));
    lattice.count.push_back(last - first + 1);
    lattice.edges.push_back(range.edge);
    size *= lattice.count.back();
    if (size > most_points)
      throw TextError(range.first.at, fmt::format("{} has too many points", lattice.name));
  }
  lattice.size = static_cast<std::int32_t>(size);
  return lattice;
}

void add_statements(Model& model, const std::string& text) {
  std::vector<std::vector<Equation>> of(model.variables.size());
  for (Statement& statement : parse_statements(text)) {
    const Variable* variable = rate_of(model, statement);
    if (!variable) {
      add_definition(model, std::move(statement));
      continue;
    }
    const auto v = static_cast<std::size_t>(variable - model.variables.data());
    of[v].push_back(make_equation(model, v, std::move(statement)));
  }
  // A point belongs to the equation that names most of its indices: dX[1] goes before dX[k].
  for (std::size_t v = 0; v < of.size(); ++v) {
    const Lattice& lattice = model.variables[v].lattice;
    std::vector<int> owner(static_cast<std::size_t>(lattice.size), -1);
    for (std::size_t e = 0; e < of[v].size(); ++e)
      for (const std::int32_t p : of[v][e].points) {
        int& owned = owner[static_cast<std::size_t>(p)];
        const std::size_t fixed = fixed_indices(of[v][e], model);
        if (owned >= 0 && fixed_indices(of[v][static_cast<std::size_t>(owned)], model) == fixed)
          throw TextError(of[v][e].statement.left.at,
                          fmt::format("d{} has an equation already", lattice.name_of(p)));
        if (owned < 0 || fixed_indices(of[v][static_cast<std::size_t>(owned)], model) < fixed)
          owned = static_cast<int>(e);
      }
    const auto missing = std::ranges::find(owner, -1);
    if (missing != owner.end()) {
      const auto p = static_cast<std::int32_t>(missing - owner.begin());
      throw TextError(
          text.size(),
          fmt::format("there is no equation for d{}; write d{}{} = ...", lattice.name_of(p), lattice.name,
                      lattice.indices.empty() ? "" : fmt::format("[{}]", fmt::join(lattice.indices, ","))));
    }
    for (std::size_t e = 0; e < of[v].size(); ++e) {
      std::erase_if(of[v][e].points, [&](std::int32_t p) {
        return owner[static_cast<std::size_t>(p)] != static_cast<int>(e);
      });
      if (!of[v][e].points.empty()) model.equations.push_back(std::move(of[v][e]));
    }
  }
}

}  // namespace mac::equations
