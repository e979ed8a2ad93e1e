// Operations whose results nobody else needs become one instruction: what is written and read again for few numbers
// takes longer than to compute them.
#pragma once

#include <map>
#include <vector>

#include "systems/equations/program.hpp"

namespace mac::equations {

/// A node that is computed at the end of others which nobody else needs.
struct Chain {
  struct Step {
    Link link;
    Node operand;
  };
  Node start = none;
  std::vector<Step> steps;
};

/// How often each node is an argument or an output.
std::map<Node, int> count_uses(const Graph& graph, const std::vector<Node>& order,
                               const std::vector<Output>& outputs);

/// Sums and products of single numbers and short arrays, one after the other. Takes what is joined out of the order.
std::map<Node, Chain> make_chains(const Graph& graph, std::vector<Node>& order,
                                  const std::map<Node, int>& uses);

/// a*b + c of longer arrays, in data.
void join_products(const Graph& graph, std::vector<Node>& order, const std::map<Node, int>& uses,
                   std::map<Node, NodeData>& data);

}  // namespace mac::equations
