// From trees to graphs: every expression is evaluated for all points of its lattice at once.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "systems/equations/model.hpp"

namespace mac::equations {

/// Which of the two models: all variables are inputs, or the resolved ones alone.
enum class View { full, reduced };

class Builder {
 public:
  /// `means` (hidden variables, in order of the state) stand for those that are reduced to their mean.
  Builder(const Model& model, Graph& graph, View view, const std::vector<double>& means = {});

  /// The rate of an equation's points, (points) or one number for all of them.
  Node rate(const Equation& equation);
  /// A quantity for all points of its lattice.
  Node quantity(const Definition& definition);
  /// An expression without free indices: one number.
  Node scalar(const Expression& expression);
  /// An expression for all points of a lattice.
  Node values(const Expression& expression, const Lattice& lattice, const Expression& left);

  /// Whether the last expression looked at a hidden variable.
  bool saw_hidden = false;

 private:
  /// Points at which an expression is evaluated, and what each index is at them.
  struct Points {
    std::size_t count = 1;
    std::map<std::string, std::vector<long>> index;
  };
  using Indices = Graph::Indices;

  Node value(const Expression& e, const Points& points);
  Node call(const Expression& e, const Points& points);
  Node where(const Expression& e, const Points& points);
  Node sum(const Expression& e, const Points& points);
  Node reference(const Expression& e, const Points& points);
  Node variable(const Variable& variable, const Expression& e, const Points& points);
  Node hidden(const Variable& variable, const Expression& e, const Points& points);
  Node quantity(const Definition& definition, const Expression& e, const Points& points);
  Points points_of(const Lattice& lattice, const Expression& left, const Indices& at) const;
  Indices positions(const Lattice& lattice, const Expression& e, const Points& points, bool zeros);
  std::vector<long> whole(const Expression& e, const Points& points);
  Points some_of(const Points& points, const std::vector<std::size_t>& which, std::size_t at);
  Node pick(Node whole, const Indices& positions);
  void count_work(std::size_t points, std::size_t at);

  const Model& model_;
  Graph& graph_;
  View view_;
  const std::vector<double>& means_;
  struct Known {
    Node node;
    bool saw_hidden;
  };
  std::map<std::string, Known> known_;        // quantities
  std::vector<std::string> being_evaluated_;  // quantities, to find those that need themselves
  std::size_t work_ = 0;
  int depth_ = 0;
};

/// A number or a whole number that depends on parameters alone; throws TextError.
double constant_value(const Expression& e, const std::map<std::string, double>& parameters);
long whole_constant(const Expression& e, const std::map<std::string, double>& parameters);

/// Functions by name: their operation and number of arguments (0: two or more).
struct Function {
  const char* name;
  Op op;
  int arguments;
};
std::span<const Function> functions();

/// How many numbers, names and operations an expression has.
std::size_t parts(const Expression& e);

}  // namespace mac::equations
