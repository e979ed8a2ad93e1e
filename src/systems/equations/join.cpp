#include "systems/equations/join.hpp"

#include <algorithm>
#include <optional>

namespace mac::equations {

namespace {

constexpr std::int32_t longest_chained =
    64;  // longer arrays: what each operation costs on its own no longer counts

/// x op b, or, turned, b op x
std::optional<Link> link_of(Op op, bool turned) {
  switch (op) {
    case Op::add:
      return Link::add;
    case Op::mul:
      return Link::mul;
    case Op::sub:
      return turned ? Link::sub_from : Link::sub;
    case Op::div:
      return turned ? Link::divide : Link::div;
    case Op::neg:
      return Link::neg;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::map<Node, int> count_uses(const Graph& graph, const std::vector<Node>& order,
                               const std::vector<Output>& outputs) {
  std::map<Node, int> uses;
  for (const Output& output : outputs) ++uses[output.node];
  for (const Node node : order)
    for (const Node argument : {graph[node].a, graph[node].b, graph[node].c})
      if (argument != none) ++uses[argument];
  return uses;
}

std::map<Node, Chain> make_chains(const Graph& graph, std::vector<Node>& order,
                                  const std::map<Node, int>& uses) {
  std::map<Node, Chain> chains;
  std::vector<bool> joined(graph.size());
  for (const Node node : order) {
    const NodeData& is = graph[node];
    if (!link_of(is.op, false) || is.size > longest_chained) continue;
    if (is.op == Op::div && is.size > 1) continue;  // what lies behind an array may be 0
    const auto ends = [&](Node argument) {
      return argument != none && graph[argument].size == is.size && uses.at(argument) == 1 &&
             chains.contains(argument);
    };
    const bool turned = !ends(is.a) && (ends(is.b) || graph[is.a].size != is.size);
    const Node before = turned ? is.b : is.a;
    Chain chain{before, {}};
    if (ends(before)) {
      chain = std::move(chains.at(before));
      chains.erase(before);
      joined[static_cast<std::size_t>(before)] = true;
    }
    chain.steps.push_back({*link_of(is.op, turned), turned ? is.a : is.b});
    chains.emplace(node, std::move(chain));
  }
  std::erase_if(chains, [](const auto& entry) { return entry.second.steps.size() < 2; });
  std::erase_if(order, [&](Node node) { return joined[static_cast<std::size_t>(node)]; });
  return chains;
}

void join_products(const Graph& graph, std::vector<Node>& order, const std::map<Node, int>& uses,
                   std::map<Node, NodeData>& data) {
  std::vector<Node> joined;
  for (const Node node : order) {
    NodeData& sum = data.at(node);
    if ((sum.op != Op::add && sum.op != Op::sub) || sum.size <= longest_chained) continue;
    const auto join = [&](Node product, Node other, Op op) {
      if (data.at(product).op != Op::mul || uses.at(product) != 1 || data.at(product).size != sum.size ||
          graph[other].size != sum.size)
        return false;
      NodeData factors = data.at(product);
      if (graph[factors.b].size != sum.size) std::swap(factors.a, factors.b);
      if (graph[factors.b].size != sum.size) return false;
      sum = {op, factors.a, factors.b, other, sum.size, -1, -1};
      joined.push_back(product);
      return true;
    };
    const Node a = sum.a, b = sum.b;
    if (join(b, a, sum.op == Op::add ? Op::mul_add : Op::sub_mul)) continue;
    join(a, b, sum.op == Op::add ? Op::mul_add : Op::mul_sub);
  }
  std::erase_if(order, [&](Node node) { return std::ranges::find(joined, node) != joined.end(); });
}

}  // namespace mac::equations
