#include "systems/read_lattices.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace mac {

namespace {

const std::vector<std::string> edge_choices{"periodic", "nearest", "zero",
                                            "mirror"};  // in the order of the enum

/// u and u7, T and T3_12
bool is_numbered(const std::string& variable, const std::string& name) {
  return variable.size() > name.size() && variable.starts_with(name) &&
         std::all_of(variable.begin() + static_cast<std::ptrdiff_t>(name.size()), variable.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '_'; });
}

std::vector<std::size_t> read_variables(const ConfigTable& entry, const std::string& name,
                                        const std::vector<std::string>& resolved_names) {
  std::vector<std::size_t> variables;
  if (!entry.has("variables")) {
    for (std::size_t v = 0; v < resolved_names.size(); ++v)
      if (is_numbered(resolved_names[v], name)) variables.push_back(v);
    if (variables.empty())
      entry.fail("",
                 fmt::format("no resolved variable is called {0} and a number; say variables = [...]", name));
    return variables;
  }
  for (const std::string& variable : entry.strings("variables")) {
    const auto found = std::ranges::find(resolved_names, variable);
    if (found == resolved_names.end())
      entry.fail("variables", fmt::format("\"{}\" is no resolved variable", variable));
    variables.push_back(static_cast<std::size_t>(found - resolved_names.begin()));
    if (std::ranges::count(variables, variables.back()) > 1)
      entry.fail("variables", fmt::format("\"{}\" is at two sites", variable));
  }
  return variables;
}

std::vector<std::size_t> read_extents(const ConfigTable& entry, std::size_t sites) {
  if (!entry.has("extents")) return {sites};
  std::vector<std::size_t> extents;
  std::size_t product = 1;
  for (const double number : entry.numbers("extents")) {
    if (!(number >= 1 && number <= 1e9) || number != std::floor(number))
      entry.fail("extents", fmt::format("has a {}, expected whole numbers from 1 on", number));
    extents.push_back(static_cast<std::size_t>(number));
    product *= extents.back();
  }
  if (extents.empty() || extents.size() > 3)
    entry.fail("extents", "expected those of one to three directions");
  if (product != sites)
    entry.fail("extents", fmt::format("make {} sites, but there are {} variables", product, sites));
  return extents;
}

std::vector<Lattice::Edge> read_edges(const ConfigTable& entry, std::size_t directions) {
  std::vector<std::string> names{"nearest"};
  if (entry.has("edges"))
    names = entry.holds_list("edges") ? entry.strings("edges")
                                      : std::vector<std::string>{entry.choice("edges", edge_choices)};
  if (names.size() != 1 && names.size() != directions)
    entry.fail("edges", fmt::format("are {}, expected one, or one for each of the {} directions",
                                    names.size(), directions));
  std::vector<Lattice::Edge> edges;
  for (std::size_t k = 0; k < directions; ++k) {
    const auto found = std::ranges::find(edge_choices, names[std::min(k, names.size() - 1)]);
    if (found == edge_choices.end())
      entry.fail("edges", fmt::format("has \"{}\", expected {}", names[k], fmt::join(edge_choices, ", ")));
    edges.push_back(static_cast<Lattice::Edge>(found - edge_choices.begin()));
  }
  return edges;
}

}  // namespace

std::vector<Lattice> read_lattices(const ConfigTable& table, const std::vector<std::string>& resolved_names) {
  std::vector<Lattice> lattices;
  for (const std::string& name : table.keys()) {
    const ConfigTable entry = table.table(name);
    Lattice lattice;
    lattice.name = name;
    lattice.variables = read_variables(entry, name, resolved_names);
    lattice.extents = read_extents(entry, lattice.variables.size());
    lattice.edges = read_edges(entry, lattice.extents.size());
    lattice.length_keys = {"resolved", "targets", "lattices"};
    lattices.push_back(std::move(lattice));
  }
  return lattices;
}

}  // namespace mac
