#include "systems/equations/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/nearest.hpp"

namespace mac::equations {

namespace {

constexpr Function known_functions[] = {
    {"exp", Op::exp, 1},     {"log", Op::log, 1},     {"log10", Op::log10, 1}, {"sqrt", Op::sqrt, 1},
    {"cbrt", Op::cbrt, 1},   {"sin", Op::sin, 1},     {"cos", Op::cos, 1},     {"tan", Op::tan, 1},
    {"asin", Op::asin, 1},   {"acos", Op::acos, 1},   {"atan", Op::atan, 1},   {"sinh", Op::sinh, 1},
    {"cosh", Op::cosh, 1},   {"tanh", Op::tanh, 1},   {"abs", Op::abs, 1},     {"sign", Op::sign, 1},
    {"floor", Op::floor, 1}, {"atan2", Op::atan2, 2}, {"pow", Op::pow, 2},     {"min", Op::min, 0},
    {"max", Op::max, 0}};

constexpr Function operators[] = {{"unary -", Op::neg, 1}, {"+", Op::add, 2},       {"-", Op::sub, 2},
                                  {"*", Op::mul, 2},       {"/", Op::div, 2},       {"^", Op::pow, 2},
                                  {"**", Op::pow, 2},      {"<", Op::less, 2},      {"<=", Op::less_equal, 2},
                                  {"==", Op::equal, 2},    {"!=", Op::not_equal, 2}};

// Calls of value() inside each other, through formulas and the quantities they name: each takes some of the stack.
constexpr int most_nested = 2000;

long floor_div(long a, long b) { return a / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0); }

/// A whole number in double that an index can be.
long to_whole(double value, std::size_t at, std::string_view what) {
  if (std::abs(value) > 1e9 || value != std::floor(value))
    throw TextError(at, fmt::format("{} is {}, but an index is a whole number", what, value));
  return static_cast<long>(value);
}

/// Index arithmetic; leaf(e) gives the value of a name.
template <class Leaf>
long whole_value(const Expression& e, const Leaf& leaf) {
  const auto checked = [&](double value) { return to_whole(value, e.at, "this"); };
  if (e.kind == Expression::Kind::number) return checked(e.value);
  if (e.kind == Expression::Kind::reference) {
    if (!e.arguments.empty()) throw TextError(e.at, fmt::format("{}[ ] is no whole number", e.name));
    return leaf(e);
  }
  if (e.kind == Expression::Kind::call) {
    std::vector<long> with;
    for (const Expression& argument : e.arguments) with.push_back(whole_value(argument, leaf));
    const auto as_double = [&](std::size_t i) { return static_cast<double>(with[i]); };
    if (e.name == "unary -") return -with[0];
    if (e.name == "+") return checked(as_double(0) + as_double(1));
    if (e.name == "-") return checked(as_double(0) - as_double(1));
    if (e.name == "*") return checked(as_double(0) * as_double(1));
    if (e.name == "//" || e.name == "%") {
      if (with[1] == 0) throw TextError(e.at, "a division by zero");
      const long quotient = floor_div(with[0], with[1]);
      return e.name == "%" ? with[0] - quotient * with[1] : quotient;
    }
    if (e.name == "/")
      throw TextError(e.at, "an index is a whole number: write // for a division without rest");
    if (e.name == "^") return checked(std::pow(as_double(0), as_double(1)));
    if ((e.name == "min" || e.name == "max") && !with.empty())
      return e.name == "min" ? *std::ranges::min_element(with) : *std::ranges::max_element(with);
  }
  throw TextError(e.at, "an index is made of whole numbers, + - * // and %");
}

}  // namespace

std::size_t parts(const Expression& e) {
  std::size_t count = 1;
  for (const Expression& argument : e.arguments) count += parts(argument);
  return count;
}

std::span<const Function> functions() { return known_functions; }

long whole_constant(const Expression& e, const std::map<std::string, double>& parameters) {
  return whole_value(e, [&](const Expression& name) {
    const auto parameter = parameters.find(name.name);
    if (parameter == parameters.end())
      throw TextError(name.at, fmt::format("there is no parameter {}", name.name));
    return to_whole(parameter->second, name.at, name.name);
  });
}

double constant_value(const Expression& e, const std::map<std::string, double>& parameters) {
  Model model;
  model.parameters = parameters;
  Graph graph({});
  const Node node = Builder(model, graph, View::full).scalar(e);
  return *graph.number(node);
}

Builder::Builder(const Model& model, Graph& graph, View view, const std::vector<double>& means)
    : model_(model), graph_(graph), view_(view), means_(means) {}

void Builder::count_work(std::size_t points, std::size_t at) {
  work_ += points;
  if (work_ > model_.work_allowed) throw TextError(at, "the equations have too many terms");
}

Builder::Points Builder::points_of(const Lattice& lattice, const Expression& left, const Indices& at) const {
  Points points;
  points.count = at.size();
  for (std::size_t i = 0; i < left.arguments.size(); ++i) {
    const Expression& index = left.arguments[i];
    if (index.kind != Expression::Kind::reference || model_.parameters.contains(index.name)) continue;
    auto& values = points.index[index.name];
    for (const std::int32_t p : at) values.push_back(lattice.point(p)[i]);
  }
  return points;
}

Node Builder::rate(const Equation& equation) {
  saw_hidden = false;
  const Lattice& lattice = model_.variables[equation.variable].lattice;
  return value(equation.statement.right, points_of(lattice, equation.statement.left, equation.points));
}

Node Builder::scalar(const Expression& expression) {
  saw_hidden = false;
  return value(expression, Points{});
}

Node Builder::values(const Expression& expression, const Lattice& lattice, const Expression& left) {
  Indices all;
  for (std::int32_t p = 0; p < lattice.size; ++p) all.push_back(p);
  return value(expression, points_of(lattice, left, all));
}

Node Builder::value(const Expression& e, const Points& points) {
  count_work(points.count, e.at);
  struct Deeper {
    int& depth;
    ~Deeper() { --depth; }
  } const deeper{depth_};
  if (++depth_ > most_nested) throw TextError(e.at, "quantities follow from each other too deeply");
  switch (e.kind) {
    case Expression::Kind::number:
      return graph_.constant(e.value);
    case Expression::Kind::reference:
      return reference(e, points);
    case Expression::Kind::sum:
      return sum(e, points);
    case Expression::Kind::call:
      break;
  }
  return e.name == "where" ? where(e, points) : call(e, points);
}

Node Builder::call(const Expression& e, const Points& points) {
  const auto expect = [&](std::size_t count) {
    if (e.arguments.size() != count)
      throw TextError(e.at,
                      fmt::format("{} has {} argument{}, here {} {}", e.name, count, count == 1 ? "" : "s",
                                  e.arguments.size() == 1 ? "is" : "are", e.arguments.size()));
  };
  std::vector<Node> with;
  const auto evaluate = [&] {
    for (const Expression& argument : e.arguments) with.push_back(value(argument, points));
  };
  if (e.name == ">" || e.name == ">=") {
    evaluate();
    return graph_.apply(e.name == ">" ? Op::less : Op::less_equal, with[1], with[0]);
  }
  if (e.name == "and" || e.name == "or" || e.name == "not") {
    evaluate();
    const Node zero = graph_.constant(0);
    for (Node& node : with) node = graph_.apply(Op::not_equal, node, zero);
    if (e.name == "not") return graph_.apply(Op::equal, with[0], zero);
    return graph_.apply(e.name == "and" ? Op::min : Op::max, with[0], with[1]);
  }
  if (e.name == "%" || e.name == "//") {
    evaluate();
    const Node quotient = graph_.apply(Op::floor, graph_.apply(Op::div, with[0], with[1]));
    if (e.name == "//") return quotient;
    return graph_.apply(Op::sub, with[0], graph_.apply(Op::mul, quotient, with[1]));
  }
  for (const Function& known : operators)
    if (e.name == known.name) {
      evaluate();
      return graph_.apply(known.op, with[0], with.size() > 1 ? with[1] : none);
    }
  for (const Function& known : known_functions) {
    if (e.name != known.name) continue;
    if (known.arguments > 0) {
      expect(static_cast<std::size_t>(known.arguments));
      evaluate();
      return graph_.apply(known.op, with[0], with.size() > 1 ? with[1] : none);
    }
    if (e.arguments.size() < 2) throw TextError(e.at, fmt::format("{} has two or more arguments", e.name));
    evaluate();
    Node result = with[0];
    for (std::size_t i = 1; i < with.size(); ++i) result = graph_.apply(known.op, result, with[i]);
    return result;
  }
  if (e.name == "uniform" || e.name == "normal")
    throw TextError(e.at, fmt::format("{} is for initial states", e.name));
  if (model_.find(e.name) || model_.definitions.contains(e.name))
    throw TextError(e.at, fmt::format("{0} is no function; an index stands in brackets, {0}[k]", e.name));
  std::vector<std::string> names{"sum", "where"};
  for (const Function& known : known_functions) names.emplace_back(known.name);
  throw TextError(e.at, fmt::format("there is no function {}{}", e.name, suggestion(e.name, names)));
}

Builder::Points Builder::some_of(const Points& points, const std::vector<std::size_t>& which,
                                 std::size_t at) {
  Points some;
  some.count = which.size();
  count_work(which.size() * points.index.size(), at);
  for (const auto& [name, values] : points.index) {
    auto& chosen = some.index[name];
    for (const std::size_t i : which) chosen.push_back(values[i]);
  }
  return some;
}

Node Builder::where(const Expression& e, const Points& points) {
  if (e.arguments.size() != 3)
    throw TextError(e.at, "where has a condition and two values, where(x > 0, a, b)");
  const Node condition = value(e.arguments[0], points);
  if (!graph_.is_constant(condition)) {
    const Node yes = value(e.arguments[1], points), no = value(e.arguments[2], points);
    return graph_.apply(Op::select, condition, yes, no);
  }
  // Known now: each value is evaluated where it is taken, so X[k-1] need not exist where it is not.
  std::vector<std::size_t> true_at, false_at;
  Indices index;
  for (std::size_t i = 0; i < points.count; ++i) {
    const std::vector<double>& holds = graph_.values(condition);
    auto& chosen = holds[holds.size() == 1 ? 0 : i] != 0 ? true_at : false_at;
    index.push_back(static_cast<std::int32_t>(chosen.size()));
    if (&chosen == &false_at) index.back() = -1 - index.back();
    chosen.push_back(i);
  }
  if (false_at.empty()) return value(e.arguments[1], points);
  if (true_at.empty()) return value(e.arguments[2], points);
  const auto wide = [&](const Expression& part, const std::vector<std::size_t>& at) {
    const Node node = value(part, some_of(points, at, part.at));
    return graph_[node].size == 1 && at.size() > 1 ? graph_.gather(node, Indices(at.size(), 0)) : node;
  };
  const Node yes = wide(e.arguments[1], true_at), no = wide(e.arguments[2], false_at);
  // A number for many points stays one number among the constants.
  for (std::int32_t& i : index)
    if (i >= 0 && graph_[yes].size == 1)
      i = 0;
    else if (i < 0 && graph_[no].size == 1)
      i = -1;
  return graph_.merge(yes, no, index);
}

Node Builder::sum(const Expression& e, const Points& points) {
  const Expression& body = e.arguments.back();
  std::vector<long> first, last;
  if (e.arguments.size() == 3) {
    first = whole(e.arguments[0], points);
    last = whole(e.arguments[1], points);
  } else {
    const Lattice& lattice =
        range_of(model_, e.name, e.at, fmt::format("; write sum({} = 1..N, ...)", e.name));
    first.assign(points.count, lattice.first[0]);
    last.assign(points.count, lattice.first[0] + lattice.count[0] - 1);
  }
  Points inner;
  std::vector<std::size_t> outer;
  std::vector<long> values;
  Indices bounds{0};
  for (std::size_t i = 0; i < points.count; ++i) {
    const long terms = std::max(0L, last[i] - first[i] + 1);
    count_work(static_cast<std::size_t>(terms), e.at);
    for (long k = first[i]; k <= last[i]; ++k) {
      outer.push_back(i);
      values.push_back(k);
    }
    bounds.push_back(static_cast<std::int32_t>(outer.size()));
  }
  inner = some_of(points, outer, e.at);
  inner.index[e.name] = std::move(values);
  if (outer.empty()) return graph_.constant(0);
  return graph_.segments(value(body, inner), bounds);
}

std::vector<long> Builder::whole(const Expression& e, const Points& points) {
  count_work(points.count * parts(e) / 8, e.at);  // much cheaper than what it is for, unless it is long
  std::vector<long> result(points.count);
  for (std::size_t i = 0; i < points.count; ++i)
    result[i] = whole_value(e, [&](const Expression& name) {
      if (const auto index = points.index.find(name.name); index != points.index.end())
        return index->second[i];
      if (const auto parameter = model_.parameters.find(name.name); parameter != model_.parameters.end())
        return to_whole(parameter->second, name.at, name.name);
      throw TextError(name.at, fmt::format("there is no index {} here", name.name));
    });
  return result;
}

Node Builder::reference(const Expression& e, const Points& points) {
  const auto without_index = [&](const char* what) {
    if (!e.arguments.empty()) throw TextError(e.at, fmt::format("{} is {}, it has no index", e.name, what));
  };
  if (const auto index = points.index.find(e.name); index != points.index.end()) {
    without_index("an index");
    return graph_.constants({index->second.begin(), index->second.end()});
  }
  if (const auto parameter = model_.parameters.find(e.name); parameter != model_.parameters.end()) {
    without_index("a parameter");
    return graph_.constant(parameter->second);
  }
  if (const Variable* found = model_.find(e.name)) return variable(*found, e, points);
  if (const auto found = model_.definitions.find(e.name); found != model_.definitions.end())
    return quantity(found->second, e, points);
  if (e.name == "pi") {
    without_index("a number");
    return graph_.constant(std::numbers::pi);
  }
  for (const Function& known : known_functions)
    if (e.name == known.name) throw TextError(e.at, fmt::format("{0} is a function, {0}(...)", e.name));
  if (e.name == "t") throw TextError(e.at, "there is no time here");
  std::vector<std::string> names;
  for (const auto& [name, value] : model_.parameters) names.push_back(name);
  for (const Variable& known : model_.variables) names.push_back(known.lattice.name);
  for (const auto& [name, definition] : model_.definitions) names.push_back(name);
  throw TextError(e.at, fmt::format("there is no parameter, variable or quantity {}{}", e.name,
                                    suggestion(e.name, names)));
}

Builder::Indices Builder::positions(const Lattice& lattice, const Expression& e, const Points& points,
                                    bool zeros) {
  if (e.arguments.size() != lattice.indices.size())
    throw TextError(e.at, fmt::format("{} has {} ind{}, here {} {}", e.name, lattice.indices.size(),
                                      lattice.indices.size() == 1 ? "ex" : "ices",
                                      e.arguments.size() == 1 ? "is" : "are", e.arguments.size()));
  std::vector<std::vector<long>> at;
  for (const Expression& argument : e.arguments) at.push_back(whole(argument, points));
  Indices found(points.count);
  std::vector<long> point(at.size());
  for (std::size_t i = 0; i < points.count; ++i) {
    for (std::size_t j = 0; j < at.size(); ++j) point[j] = at[j][i];
    found[i] = lattice.position(point);
    if (found[i] == -2 || (found[i] == -1 && !zeros))
      throw TextError(e.at, fmt::format("{}[{}] does not exist; declare the index cyclic, zero or mirror, or "
                                        "give the edge an equation of its own",
                                        e.name, fmt::join(point, ",")));
  }
  return found;
}

Node Builder::variable(const Variable& found, const Expression& e, const Points& points) {
  if (!found.resolved) saw_hidden = true;
  if (!found.resolved && view_ == View::reduced) return hidden(found, e, points);
  const auto v = static_cast<std::int32_t>(&found - model_.variables.data());
  return graph_.input(v, positions(found.lattice, e, points, true));
}

Node Builder::pick(Node whole, const Indices& positions) {
  const bool one = graph_[whole].size == 1;
  if (std::ranges::find(positions, -1) == positions.end())
    return one ? whole : graph_.gather(whole, positions);
  Indices which;
  for (const std::int32_t p : positions) which.push_back(p < 0 ? -1 : one ? 0 : p);
  return graph_.merge(whole, graph_.constant(0), which);
}

Node Builder::hidden(const Variable& found, const Expression& e, const Points& points) {
  const std::string key = "hidden " + found.lattice.name;
  if (!known_.contains(key)) {
    const Reduction& reduction = model_.reductions.at(found.lattice.name);
    Node node = none;
    if (reduction.kind == Reduction::Kind::values) {
      node = graph_.constants(reduction.values);
    } else if (reduction.kind == Reduction::Kind::mean) {
      const auto from = means_.begin() + (found.offset - model_.resolved_size);
      node = graph_.constants({from, from + found.lattice.size});
    } else {
      if (std::ranges::find(being_evaluated_, key) != being_evaluated_.end())
        throw TextError(e.at, fmt::format("the reduced {} needs itself", found.lattice.name));
      being_evaluated_.push_back(key);
      node = values(reduction.expression, found.lattice, reduction.left);
      being_evaluated_.pop_back();
    }
    known_.emplace(key, Known{node, true});
  }
  return pick(known_.at(key).node, positions(found.lattice, e, points, true));
}

Node Builder::quantity(const Definition& definition, const Expression& e, const Points& points) {
  const Node whole = quantity(definition);
  return pick(whole, positions(definition.lattice, e, points, true));
}

Node Builder::quantity(const Definition& definition) {
  const std::string& name = definition.lattice.name;
  auto known = known_.find(name);
  if (known == known_.end()) {
    if (std::ranges::find(being_evaluated_, name) != being_evaluated_.end())
      throw TextError(definition.statement.left.at, fmt::format("{} needs itself", name));
    const bool before = saw_hidden;
    saw_hidden = false;
    being_evaluated_.push_back(name);
    const Node node = values(definition.statement.right, definition.lattice, definition.statement.left);
    being_evaluated_.pop_back();
    known = known_.emplace(name, Known{node, saw_hidden}).first;
    saw_hidden = before;
  }
  saw_hidden = saw_hidden || known->second.saw_hidden;
  return known->second.node;
}

}  // namespace mac::equations
