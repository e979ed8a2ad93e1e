// Right-hand sides as a graph of operations on arrays, each operation once.
//
// A node is one number, or an array with a number for each point of a lattice. Equations on a lattice become
// few nodes with long arrays, whatever the lattice's size: that is what makes their evaluation fast.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

namespace mac::equations {

enum class Op : std::uint8_t {
  constant,  // numbers of the graph's own
  input,     // input[first], input[first + 1], ..., around the ring [begin, begin + length) of inputs
  gather,    // a[index[i]]
  merge,     // a[index[i]], or b[-1 - index[i]] where the index is negative
  segments,  // sums of a over [index[i], index[i + 1])
  // one number from one, two or three
  neg,
  exp,
  log,
  log10,
  sqrt,
  cbrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  abs,
  sign,
  floor,
  add,
  sub,
  mul,
  div,
  pow,
  atan2,
  min,
  max,
  less,
  less_equal,
  equal,
  not_equal,
  select,  // a != 0 ? b : c
  // what the program makes of a product and a sum, each rounded: a*b + c, a*b - c, c - a*b
  mul_add,
  mul_sub,
  sub_mul,
  chain,  // several sums and products one after the other (program.hpp)
};

/// f of one number each; unused arguments are ignored.
double apply(Op op, double a, double b, double c);

using Node = std::int32_t;
inline constexpr Node none = -1;

struct NodeData {
  Op op = Op::constant;
  Node a = none, b = none, c = none;
  std::int32_t size = 1;
  std::int32_t list = -1;  // its indices or constants in the graph's lists; of an input: first
  std::int32_t ring = -1;  // of an input: which
};

/// A run of inputs that are neighbours in a circle: one variable.
struct Ring {
  std::int32_t begin = 0, length = 0;
};

class Graph {
 public:
  using Indices = std::vector<std::int32_t>;

  explicit Graph(std::vector<Ring> rings) : rings_(std::move(rings)) {}

  Node constant(double value);
  Node constants(std::vector<double> values);
  /// Inputs index[i], counted from the ring's begin; -1 is the number 0.
  Node input(std::int32_t ring, const Indices& index);
  Node gather(Node a, const Indices& index);
  Node merge(Node a, Node b, const Indices& index);
  Node segments(Node a, const Indices& bounds);
  Node apply(Op op, Node a, Node b = none, Node c = none);

  const NodeData& operator[](Node node) const { return nodes_[static_cast<std::size_t>(node)]; }
  std::size_t size() const { return nodes_.size(); }
  const std::vector<Ring>& rings() const { return rings_; }
  const Indices& indices(Node node) const { return lists_[static_cast<std::size_t>((*this)[node].list)]; }
  const std::vector<double>& values(Node node) const {
    return values_[static_cast<std::size_t>((*this)[node].list)];
  }
  bool is_constant(Node node) const { return (*this)[node].op == Op::constant; }
  /// The number, if the node is one constant.
  std::optional<double> number(Node node) const;

 private:
  Node add(const NodeData& data);
  std::optional<Node> simplified(Op op, Node a, Node b);

  std::vector<Ring> rings_;
  std::vector<NodeData> nodes_;
  std::vector<Indices> lists_;
  std::vector<std::vector<double>> values_;
  std::map<Indices, std::int32_t> known_lists_;
  std::map<std::vector<std::uint64_t>, std::int32_t> known_values_;  // by their bits: -0 is not 0
  using Key = std::tuple<Op, Node, Node, Node, std::int32_t, std::int32_t, std::int32_t>;
  std::map<Key, Node> known_;
};

}  // namespace mac::equations
