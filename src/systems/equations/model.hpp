// What a text says of a system: its variables on their lattices, its equations, and what is done with the
// hidden variables where they are not resolved.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "systems/equations/graph.hpp"
#include "systems/equations/parse.hpp"

namespace mac::equations {

/// Numbers that all variables have together, or one quantity: more is a slip in a range.
inline constexpr std::int32_t most_points = 4'000'000;
/// Elements that the terms of all equations may have together: more is a slip in a range.
inline constexpr std::size_t most_work = 20'000'000;

/// A variable, or a quantity that a statement names: one number for each point of its lattice.
struct Lattice {
  std::string name;
  std::vector<std::string> indices;
  std::vector<long> first, count;  // of each index
  std::vector<Edge> edges;
  bool ring = false;
  std::int32_t size = 1;

  /// Position of the point with these indices; -1 where it counts as zero, -2 where there is none.
  std::int32_t position(std::span<const long> point) const;
  /// The indices of the point at a position.
  std::vector<long> point(std::int32_t position) const;
  /// "X", "X3", "Y2_5"
  std::string name_of(std::int32_t position) const;
};

struct Variable {
  Lattice lattice;
  bool resolved = false;
  std::int32_t offset = 0;  // in the full state, where resolved variables come first
};

/// The statement in the text `source` of the experiment's key, for messages.
struct Source {
  std::string key, text;
};

struct Equation {
  Statement statement;
  std::size_t variable = 0;          // whose rate it is
  std::vector<std::int32_t> points;  // of the lattice, in order
};

struct Definition {
  Lattice lattice;
  Statement statement;
};

/// How a hidden variable enters the reduced model.
struct Reduction {
  enum class Kind { mean, values, expression } kind = Kind::mean;
  std::vector<double> values;  // (1) or (size)
  Expression left, expression;
  Source source;
};

struct Model {
  std::map<std::string, double> parameters;
  std::vector<Variable> variables;  // resolved ones first
  std::vector<Equation> equations;  // every point of every variable once
  std::map<std::string, Definition> definitions;
  /// Of an index's name: a lattice of that index alone; its count is -1 where variables differ in the range.
  std::map<std::string, Lattice> index_ranges;
  std::map<std::string, Reduction> reductions;  // by hidden variable
  Source source;                                // of equations and definitions
  std::int32_t resolved_size = 0, full_size = 0;
  std::size_t work_allowed = most_work;

  const Variable* find(const std::string& name) const;
};

/// The parts of [system] that make a model; throws TextError for what is wrong in `source.text`.
void add_statements(Model& model, const std::string& text);
/// The lattice of the index alone; throws TextError for one that no variable has, or several with other ranges.
const Lattice& range_of(const Model& model, const std::string& index, std::size_t at,
                        std::string_view otherwise);
/// A lattice from a declaration.
Lattice make_lattice(const Declaration& declaration, const std::map<std::string, double>& parameters);

/// Names that no parameter, variable or quantity may have: functions, pi, t and words.
bool is_reserved(const std::string& name);

}  // namespace mac::equations
