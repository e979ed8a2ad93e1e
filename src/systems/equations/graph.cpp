#include "systems/equations/graph.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mac::equations {

double apply(Op op, double a, double b, double c) {
  switch (op) {
    case Op::neg:
      return -a;
    case Op::exp:
      return std::exp(a);
    case Op::log:
      return std::log(a);
    case Op::log10:
      return std::log10(a);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::cbrt:
      return std::cbrt(a);
    case Op::sin:
      return std::sin(a);
    case Op::cos:
      return std::cos(a);
    case Op::tan:
      return std::tan(a);
    case Op::asin:
      return std::asin(a);
    case Op::acos:
      return std::acos(a);
    case Op::atan:
      return std::atan(a);
    case Op::sinh:
      return std::sinh(a);
    case Op::cosh:
      return std::cosh(a);
    case Op::tanh:
      return std::tanh(a);
    case Op::abs:
      return std::abs(a);
    case Op::sign:
      return a > 0 ? 1.0 : a < 0 ? -1.0 : a;  // NaN stays NaN
    case Op::floor:
      return std::floor(a);
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return a / b;
    case Op::pow:
      return std::pow(a, b);
    case Op::atan2:
      return std::atan2(a, b);
    case Op::min:
      return b < a || std::isnan(b) ? b : a;
    case Op::max:
      return b > a || std::isnan(b) ? b : a;
    case Op::less:
      return a < b ? 1 : 0;
    case Op::less_equal:
      return a <= b ? 1 : 0;
    case Op::equal:
      return a == b ? 1 : 0;
    case Op::not_equal:
      return a != b ? 1 : 0;
    case Op::select:
      return a != 0 ? b : c;
    case Op::mul_add:
      return a * b + c;
    case Op::mul_sub:
      return a * b - c;
    case Op::sub_mul:
      return c - a * b;
    case Op::constant:
    case Op::input:
    case Op::gather:
    case Op::merge:
    case Op::segments:
    case Op::chain:
      break;
  }
  return std::nan("");
}

Node Graph::add(const NodeData& data) {
  const Key key{data.op, data.a, data.b, data.c, data.size, data.list, data.ring};
  const auto [place, fresh] = known_.try_emplace(key, static_cast<Node>(nodes_.size()));
  if (fresh) nodes_.push_back(data);
  return place->second;
}

Node Graph::constant(double value) { return constants({value}); }

Node Graph::constants(std::vector<double> values) {
  if (std::ranges::all_of(values, [&](double value) {
        return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(values.front());
      }))
    values.resize(1);
  std::vector<std::uint64_t> bits;
  for (const double value : values) bits.push_back(std::bit_cast<std::uint64_t>(value));
  const auto [place, fresh] =
      known_values_.try_emplace(std::move(bits), static_cast<std::int32_t>(values_.size()));
  const auto size = static_cast<std::int32_t>(values.size());
  if (fresh) values_.push_back(std::move(values));
  return add({Op::constant, none, none, none, size, place->second, -1});
}

std::optional<double> Graph::number(Node node) const {
  if (!is_constant(node) || (*this)[node].size != 1) return std::nullopt;
  return values(node).front();
}

Node Graph::input(std::int32_t ring, const Indices& index) {
  const std::int32_t length = rings_[static_cast<std::size_t>(ring)].length;
  const auto n = static_cast<std::int32_t>(index.size());
  if (std::ranges::count(index, -1) == n) return constant(0);
  if (std::ranges::find(index, -1) != index.end()) {
    Indices inside(index);
    for (std::int32_t& i : inside) i = i < 0 ? index.front() < 0 ? 0 : index.front() : i;
    Indices which;
    for (std::int32_t i = 0; i < n; ++i) which.push_back(index[static_cast<std::size_t>(i)] < 0 ? -1 : i);
    const Node all = input(ring, inside);
    const Node wide = (*this)[all].size == 1 ? gather(all, Indices(index.size(), 0)) : all;
    return merge(wide, constant(0), which);
  }
  if (std::ranges::all_of(index, [&](std::int32_t i) { return i == index.front(); }))
    return add({Op::input, none, none, none, 1, index.front(), ring});
  bool around = n <= length;  // a run of neighbours, perhaps around the ring's end
  for (std::int32_t i = 0; around && i < n; ++i)
    around = index[static_cast<std::size_t>(i)] == (index.front() + i) % length;
  if (around) return add({Op::input, none, none, none, n, index.front(), ring});
  const auto [low, high] = std::ranges::minmax(index);
  Indices range, offsets;
  for (std::int32_t i = low; i <= high; ++i) range.push_back(i);
  for (const std::int32_t i : index) offsets.push_back(i - low);
  return gather(input(ring, range), offsets);
}

Node Graph::gather(Node a, const Indices& index) {
  const NodeData from = (*this)[a];
  const auto n = static_cast<std::int32_t>(index.size());
  if (from.size == 1 && n == 1) return a;
  if (is_constant(a)) {
    std::vector<double> picked;
    for (const std::int32_t i : index)
      picked.push_back(values(a)[from.size == 1 ? 0 : static_cast<std::size_t>(i)]);
    return constants(std::move(picked));
  }
  bool identity = n == from.size;
  for (std::int32_t i = 0; identity && i < n; ++i) identity = index[static_cast<std::size_t>(i)] == i;
  if (identity) return a;
  const auto [place, fresh] = known_lists_.try_emplace(index, static_cast<std::int32_t>(lists_.size()));
  if (fresh) lists_.push_back(index);
  return add({Op::gather, a, none, none, n, place->second, -1});
}

Node Graph::merge(Node a, Node b, const Indices& index) {
  if (is_constant(a) && is_constant(b)) {
    std::vector<double> picked;
    for (const std::int32_t i : index)
      picked.push_back(i >= 0 ? values(a)[static_cast<std::size_t>(i)]
                              : values(b)[static_cast<std::size_t>(-1 - i)]);
    return constants(std::move(picked));
  }
  const auto [place, fresh] = known_lists_.try_emplace(index, static_cast<std::int32_t>(lists_.size()));
  if (fresh) lists_.push_back(index);
  return add({Op::merge, a, b, none, static_cast<std::int32_t>(index.size()), place->second, -1});
}

Node Graph::segments(Node a, const Indices& bounds) {
  const std::size_t n = bounds.size() - 1;
  if (bounds.back() == 0) return constant(0);
  if (n == 1 && bounds.back() == 1) return a;
  if ((*this)[a].size == 1 && bounds.back() != 1) {  // the same number in all terms
    std::vector<double> terms;
    for (std::size_t i = 0; i < n; ++i) terms.push_back(bounds[i + 1] - bounds[i]);
    return apply(Op::mul, constants(std::move(terms)), a);
  }
  if (is_constant(a)) {
    std::vector<double> sums(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::int32_t j = bounds[i]; j < bounds[i + 1]; ++j)
        sums[i] += values(a)[static_cast<std::size_t>(j)];
    return constants(std::move(sums));
  }
  const auto [place, fresh] = known_lists_.try_emplace(bounds, static_cast<std::int32_t>(lists_.size()));
  if (fresh) lists_.push_back(bounds);
  return add({Op::segments, a, none, none, static_cast<std::int32_t>(n), place->second, -1});
}

// Signs move outwards, where the next sum takes them in: (-a)*b - c + d becomes d - (a*b + c), with the same
// roundings (the sign of a zero may change).
std::optional<Node> Graph::simplified(Op op, Node a, Node b) {
  const double no_number = std::nan("");  // equal to nothing
  const double left = number(a).value_or(no_number);
  const double right = b == none ? no_number : number(b).value_or(no_number);
  const auto wide = [&](Node node, Node other) { return (*this)[node].size >= (*this)[other].size; };
  const NodeData of_a = (*this)[a], of_b = b == none ? NodeData() : (*this)[b];
  const bool minus_a = of_a.op == Op::neg, minus_b = of_b.op == Op::neg;
  const auto minus = [&](Node node) { return apply(Op::neg, node); };
  switch (op) {
    case Op::add:
      if (left == 0.0 && wide(b, a)) return b;
      if (right == 0.0 && wide(a, b)) return a;
      if (of_a.op == Op::sub && of_a.b == b) return of_a.a;  // as below
      if (of_b.op == Op::sub && of_b.b == a) return of_b.a;
      if (minus_a && minus_b) return minus(apply(Op::add, of_a.a, of_b.a));
      if (minus_a) return apply(Op::sub, b, of_a.a);
      if (minus_b) return apply(Op::sub, a, of_b.a);
      break;
    case Op::sub:
      if (right == 0.0 && wide(a, b)) return a;
      if (left == 0.0 && wide(b, a)) return minus(b);
      if (a == b) return constant(0);
      // What a sum has beyond one of its terms: the closure of most equations, without cancellation.
      if (of_a.op == Op::add && of_a.a == b) return of_a.b;
      if (of_a.op == Op::add && of_a.b == b) return of_a.a;
      if (of_a.op == Op::sub && of_a.a == b) return minus(of_a.b);
      if (of_b.op == Op::add && of_b.a == a) return minus(of_b.b);
      if (of_b.op == Op::add && of_b.b == a) return minus(of_b.a);
      if (of_b.op == Op::sub && of_b.a == a) return of_b.b;
      if (minus_a && minus_b) return apply(Op::sub, of_b.a, of_a.a);
      if (minus_a) return minus(apply(Op::add, of_a.a, b));
      if (minus_b) return apply(Op::add, a, of_b.a);
      break;
    case Op::mul:
      if (left == 1.0) return b;
      if (right == 1.0) return a;
      if (left == -1.0) return minus(b);
      if (right == -1.0) return minus(a);
      if (minus_a && minus_b) return apply(Op::mul, of_a.a, of_b.a);
      if (minus_a)
        return is_constant(b) ? apply(Op::mul, of_a.a, minus(b)) : minus(apply(Op::mul, of_a.a, b));
      if (minus_b)
        return is_constant(a) ? apply(Op::mul, minus(a), of_b.a) : minus(apply(Op::mul, a, of_b.a));
      break;
    case Op::div:
      if (right == 1.0) return a;
      if (minus_a)
        return is_constant(b) ? apply(Op::div, of_a.a, minus(b)) : minus(apply(Op::div, of_a.a, b));
      break;
    case Op::neg:
      if (minus_a) return of_a.a;
      if (of_a.op == Op::mul && is_constant(of_a.a)) return apply(Op::mul, minus(of_a.a), of_a.b);
      if (of_a.op == Op::mul && is_constant(of_a.b)) return apply(Op::mul, of_a.a, minus(of_a.b));
      if (of_a.op == Op::div && is_constant(of_a.b)) return apply(Op::div, of_a.a, minus(of_a.b));
      break;
    case Op::pow:
      if (right == 1.0) return a;
      if (right == 2.0) return apply(Op::mul, a, a);
      if (right == 3.0) return apply(Op::mul, apply(Op::mul, a, a), a);
      if (right == 4.0) return apply(Op::mul, apply(Op::mul, a, a), apply(Op::mul, a, a));
      if (right == -1.0) return apply(Op::div, constant(1), a);
      if (right == 0.5) return apply(Op::sqrt, a);
      break;
    default:
      break;
  }
  return std::nullopt;
}

Node Graph::apply(Op op, Node a, Node b, Node c) {
  std::int32_t size = 1;
  bool all_constant = true;
  for (const Node argument : {a, b, c}) {
    if (argument == none) continue;
    size = std::max(size, (*this)[argument].size);
    all_constant = all_constant && is_constant(argument);
  }
  if (all_constant) {
    const auto at = [&](Node node, std::size_t i) {
      if (node == none) return 0.0;
      return values(node)[(*this)[node].size == 1 ? 0 : i];
    };
    std::vector<double> results;
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i)
      results.push_back(equations::apply(op, at(a, i), at(b, i), at(c, i)));
    return constants(std::move(results));
  }
  if (const auto simple = simplified(op, a, b)) return *simple;
  // f(gather x) = gather f(x), where x has fewer elements than are gathered from it.
  const auto spread = [&](Node node) {
    return node != none && (*this)[node].op == Op::gather && 2 * (*this)[(*this)[node].a].size <= size;
  };
  if (c == none && spread(a) && (b == none || number(b))) {
    const NodeData of = (*this)[a];
    return gather(apply(op, of.a, b), Indices(lists_[static_cast<std::size_t>(of.list)]));
  }
  if (c == none && b != none && number(a) && spread(b)) {
    const NodeData of = (*this)[b];
    return gather(apply(op, a, of.a), Indices(lists_[static_cast<std::size_t>(of.list)]));
  }
  return add({op, a, b, c, size, -1, -1});
}

}  // namespace mac::equations
