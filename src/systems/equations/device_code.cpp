// Arrays come apart: every number that an output needs is computed once, under a name of its own. What only says where a
// number is (inputs, gathers, merges, constants) is no operation. A compiler keeps the numbers in registers.
#include "systems/equations/device_code.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "systems/reduced_equations.hpp"

namespace mac::equations {

namespace {

struct TooMany {};

/// Up to so many functions are compiled in their places, which is faster to run. Of more the compiler would need a tenth of
/// a second each: they are called.
constexpr std::size_t most_inlined = 16;

std::string literal(double value) {
  if (std::isnan(value)) return "(0.0 / 0.0)";
  if (std::isinf(value)) return value > 0 ? "(1.0 / 0.0)" : "(-1.0 / 0.0)";
  const std::string digits = fmt::format("{:#}", value);  // the shortest that reads back as the same number
  return std::signbit(value) ? "(" + digits + ")" : digits;
}

/// The operation in C++, {0}, {1} and {2} being its operands.
const char* pattern(Op op) {
  switch (op) {
    case Op::neg:
      return "-{0}";
    case Op::exp:
      return "function::exp<Scalar>({0})";
    case Op::log:
      return "function::log<Scalar>({0})";
    case Op::log10:
      return "function::log10<Scalar>({0})";
    case Op::sqrt:
      return "function::sqrt<Scalar>({0})";
    case Op::cbrt:
      return "function::cbrt<Scalar>({0})";
    case Op::sin:
      return "function::sin<Scalar>({0})";
    case Op::cos:
      return "function::cos<Scalar>({0})";
    case Op::tan:
      return "function::tan<Scalar>({0})";
    case Op::asin:
      return "function::asin<Scalar>({0})";
    case Op::acos:
      return "function::acos<Scalar>({0})";
    case Op::atan:
      return "function::atan<Scalar>({0})";
    case Op::sinh:
      return "function::sinh<Scalar>({0})";
    case Op::cosh:
      return "function::cosh<Scalar>({0})";
    case Op::tanh:
      return "function::tanh<Scalar>({0})";
    case Op::abs:
      return "absolute<Scalar>({0})";
    case Op::sign:
      return "sign<Scalar>({0})";
    case Op::floor:
      return "inlined::floor<Scalar>({0})";
    case Op::add:
      return "{0} + {1}";
    case Op::sub:
      return "{0} - {1}";
    case Op::mul:
      return "{0} * {1}";
    case Op::div:
      return "{0} / {1}";
    case Op::pow:
      return "function::pow<Scalar>({0}, {1})";
    case Op::atan2:
      return "function::atan2<Scalar>({0}, {1})";
    case Op::min:
      return "least<Scalar>({0}, {1})";
    case Op::max:
      return "greatest<Scalar>({0}, {1})";
    case Op::less:
      return "truth<Scalar>({0} < {1})";
    case Op::less_equal:
      return "truth<Scalar>({0} <= {1})";
    case Op::equal:
      return "truth<Scalar>({0} == {1})";
    case Op::not_equal:
      return "truth<Scalar>({0} != {1})";
    case Op::select:
      return "choose<Scalar>({0}, {1}, {2})";
    case Op::constant:
    case Op::input:
    case Op::gather:
    case Op::merge:
    case Op::segments:
    case Op::mul_add:
    case Op::mul_sub:
    case Op::sub_mul:
    case Op::chain:
      break;
  }
  return nullptr;  // is no operation on single numbers, or one that only a Program has
}

class Code {
 public:
  explicit Code(const Graph& graph) : graph_(graph) {}

  /// What stands for number i of a node; its operations are appended to lines() first.
  std::string number(Node node, std::int32_t i) {
    const NodeData& of = graph_[node];
    if (of.size == 1) i = 0;
    const auto at = static_cast<std::size_t>(i);
    switch (of.op) {
      case Op::constant:
        return literal(graph_.values(node)[at]);
      case Op::input: {
        const Ring& ring = graph_.rings()[static_cast<std::size_t>(of.ring)];
        return fmt::format("y[{}]", ring.begin + ((of.list + i) % ring.length + ring.length) % ring.length);
      }
      case Op::gather:
        return number(of.a, graph_.indices(node)[at]);
      case Op::merge: {
        const std::int32_t from = graph_.indices(node)[at];
        return from >= 0 ? number(of.a, from) : number(of.b, -1 - from);
      }
      default:
        break;
    }
    if (const auto known = names_.find({node, i}); known != names_.end()) return known->second;
    const std::string value = of.op == Op::segments ? sum(of.a, graph_.indices(node), at) : operation(of, i);
    count(1);
    std::string name = fmt::format("n{}", names_.size());
    lines_ += fmt::format("  const Scalar {} = {};\n", name, value);
    return names_.emplace(std::pair(node, i), std::move(name)).first->second;
  }
  const std::string& lines() const { return lines_; }
  /// Which of the namespaces in device_functions.hpp.
  const char* functions() const { return functions_ > most_inlined ? "called" : "inlined"; }

 private:
  std::string operation(const NodeData& of, std::int32_t i) {
    const std::string a = number(of.a, i), b = of.b == none ? "" : number(of.b, i),
                      c = of.c == none ? "" : number(of.c, i);
    const std::string_view expression = pattern(of.op);
    if (expression.starts_with("function::")) ++functions_;
    return fmt::format(fmt::runtime(expression), a, b, c);
  }
  std::string sum(Node of, const Graph::Indices& bounds, std::size_t segment) {
    std::string terms;
    for (std::int32_t j = bounds[segment]; j < bounds[segment + 1]; ++j) {
      terms += (terms.empty() ? "" : " + ") + number(of, j);
      count(1);
    }
    return terms.empty() ? "0.0" : terms;
  }
  void count(std::size_t operations) {
    operations_ += operations;
    if (operations_ > WrittenEquations::most_operations) throw TooMany();
  }

  const Graph& graph_;
  std::map<std::pair<Node, std::int32_t>, std::string> names_;
  std::string lines_;
  std::size_t operations_ = 0, functions_ = 0;
};

}  // namespace

std::optional<std::string> device_code(const Graph& graph, const std::vector<Output>& outputs,
                                       std::size_t variables) {
  Code code(graph);
  std::string rates;
  try {
    for (const Output& output : outputs)
      for (std::size_t i = 0; i < output.places.size(); ++i)
        rates += fmt::format("  rate[{}] = {};\n", output.places[i],
                             code.number(output.node, static_cast<std::int32_t>(i)));
  } catch (const TooMany&) {
    return std::nullopt;
  }
  return fmt::format(
      "#include \"systems/equations/device_functions.hpp\"\n"
      "namespace mac::written {{\n"
      "inline constexpr int variables = {};\n"
      "template <class Scalar>\n"
      "MAC_HOST_DEVICE void rates(const Scalar* y, Scalar* rate) {{\n"
      "  namespace function = {};\n{}{}}}\n"
      "}}  // namespace mac::written\n",
      variables, code.functions(), code.lines(), rates);
}

}  // namespace mac::equations
