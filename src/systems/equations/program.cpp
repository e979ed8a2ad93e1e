#include "systems/equations/program.hpp"

#include <algorithm>
#include <atomic>
#include <map>

#include "systems/equations/join.hpp"

namespace mac::equations {

namespace {

bool is_elementwise(Op op) {
  return op != Op::constant && op != Op::input && op != Op::gather && op != Op::merge && op != Op::segments;
}

/// Nodes that the outputs need, each after what it is made of, near to where it is used.
std::vector<Node> ordered(const Graph& graph, const std::vector<Output>& outputs) {
  std::vector<Node> order;
  std::vector<bool> seen(graph.size());
  struct Visit {
    Node node;
    int next;
  };
  std::vector<Visit> stack;
  for (const Output& output : outputs) {
    stack.push_back({output.node, 0});
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const NodeData& data = graph[visit.node];
      if (visit.next == 0 && seen[static_cast<std::size_t>(visit.node)]) {
        stack.pop_back();
        continue;
      }
      seen[static_cast<std::size_t>(visit.node)] = true;
      const Node arguments[] = {data.a, data.b, data.c};
      if (visit.next < 3) {
        const Node argument = arguments[visit.next++];
        if (argument != none && !seen[static_cast<std::size_t>(argument)]) stack.push_back({argument, 0});
        continue;
      }
      order.push_back(visit.node);
      stack.pop_back();
    }
  }
  return order;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

bool is_contiguous(const std::vector<std::int32_t>& places) {
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i] != places[0] + static_cast<std::int32_t>(i)) return false;
  return true;
}

/// How often each index stands in a row, if all are alike: 0 0 0 1 1 1 2 2 2.
std::int32_t repeats(const std::vector<std::int32_t>& index, std::int32_t from) {
  const auto n = static_cast<std::int32_t>(index.size());
  if (from < 1 || n % from != 0) return 0;
  const std::int32_t each = n / from;
  for (std::int32_t i = 0; i < n; ++i)
    if (index[static_cast<std::size_t>(i)] != i / each) return 0;
  return each;
}

/// (from, length) of neighbours that are gathered together.
std::vector<std::int32_t> runs_of(const std::vector<std::int32_t>& index) {
  std::vector<std::int32_t> runs;
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (i > 0 && index[i] == index[i - 1] + 1)
      ++runs.back();
    else
      runs.insert(runs.end(), {index[i], 1});
  }
  return runs;
}

void append(std::vector<Run>& runs, const Run& run) {
  if (run.n == 0) return;
  if (!runs.empty() && runs.back().from + runs.back().n == run.from &&
      runs.back().to + runs.back().n == run.to)
    runs.back().n += run.n;
  else
    runs.push_back(run);
}

/// Places in a work space, taken and given back by their size: whole blocks for an array.
class Places {
 public:
  explicit Places(std::size_t begin) : end_(begin) {}
  std::size_t take(std::size_t n) {
    const std::size_t size = room(n);
    auto& spare = spare_[size];
    if (!spare.empty()) {
      const std::size_t at = spare.back();
      spare.pop_back();
      return at;
    }
    end_ += size;
    return end_ - size;
  }
  void give(std::size_t at, std::size_t n) { spare_[room(n)].push_back(at); }
  std::size_t end() const { return end_; }

 private:
  static std::size_t room(std::size_t n) { return n == 1 ? 1 : (n + block - 1) / block * block; }

  std::size_t end_;
  std::map<std::size_t, std::vector<std::size_t>> spare_;
};

}  // namespace

Program::Program(const Graph& graph, const std::vector<Output>& outputs, std::size_t output_size, bool keep)
    : id_(next_id()),
      constants_{0},
      output_size_(output_size) {  // what an operation without a second operand points to
  std::vector<Node> order = ordered(graph, outputs);
  std::map<Node, NodeData> data;
  for (const Node node : order) data[node] = graph[node];
  std::map<Node, Chain> chains;
  if (!keep) {
    const std::map<Node, int> uses = count_uses(graph, order, outputs);
    join_products(graph, order, uses, data);
    chains = make_chains(graph, order, uses);
  }
  const auto arguments_of = [&](Node node) {
    std::vector<Node> arguments{data[node].a, data[node].b, data[node].c};
    if (const auto chain = chains.find(node); chain != chains.end()) {
      arguments = {chain->second.start};
      for (const Chain::Step& step : chain->second.steps) arguments.push_back(step.operand);
    }
    std::erase(arguments, none);
    return arguments;
  };
  std::map<Node, std::size_t> places;
  for (const Node node : order) {
    if (data[node].op != Op::constant) continue;
    places[node] = constants_.size();
    constants_.insert(constants_.end(), graph.values(node).begin(), graph.values(node).end());
  }
  constants_.resize((constants_.size() + block - 1) / block * block);
  work_size_ = constants_.size();

  // Rings, with the neighbours that somebody reads.
  for (const Ring& ring : graph.rings())
    input_size_ = std::max(input_size_, static_cast<std::size_t>(ring.begin + ring.length));
  std::map<std::int32_t, Padded> rings;
  const auto start = [&](const NodeData& input) {  // of the inputs in their ring, perhaps before its begin
    const Ring& ring = graph.rings()[static_cast<std::size_t>(input.ring)];
    return input.list + input.size > ring.length && 2 * input.list > ring.length ? input.list - ring.length
                                                                                 : input.list;
  };
  for (const Node node : order) {
    const NodeData& input = data[node];
    if (input.op != Op::input) continue;
    const Ring& ring = graph.rings()[static_cast<std::size_t>(input.ring)];
    Padded& padded = rings
                         .try_emplace(input.ring, Padded{static_cast<std::size_t>(ring.begin),
                                                         static_cast<std::size_t>(ring.length), 0, 0, 0})
                         .first->second;
    padded.before = std::max(padded.before, static_cast<std::size_t>(std::max(0, -start(input))));
    padded.after = std::max(padded.after,
                            static_cast<std::size_t>(std::max(0, start(input) + input.size - ring.length)));
  }
  for (auto& [index, padded] : rings) {
    padded.at = work_size_;
    work_size_ += padded.before + padded.length + padded.after;
    rings_.push_back(padded);
    const std::size_t ring = padded.at + padded.before, last = padded.begin + padded.length - padded.before;
    append(tape_.inputs, {padded.begin, ring, padded.length});
    append(tape_.inputs, {last, padded.at, padded.before});
    append(tape_.inputs, {padded.begin, ring + padded.length, padded.after});
  }

  // The instruction after which a node is no longer needed.
  std::map<Node, std::size_t> last_use;
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const Node argument : arguments_of(order[i])) last_use[argument] = i;
  const std::map<Node, std::size_t> read = last_use;
  std::map<Node, int> output_count;
  for (const Output& output : outputs) {
    last_use[output.node] = order.size();
    ++output_count[output.node];
  }

  // Arrays that nobody else reads go to the output at once, single numbers in its order, so that they are copied
  // there together.
  std::map<Node, std::size_t> direct, single;
  std::map<std::size_t, Node> single_at;
  for (const Output& output : outputs) {
    const NodeData& result = data.at(output.node);
    if (keep || result.op == Op::input || result.op == Op::constant ||
        static_cast<std::size_t>(result.size) != output.places.size())
      continue;
    const auto first = static_cast<std::size_t>(output.places.front());
    if (result.size == 1)
      single_at[first] = output.node;
    else if (output_count[output.node] == 1 && read.count(output.node) == 0 &&
             output.places.size() % block == 0 && is_contiguous(output.places))
      direct[output.node] = first;
  }
  for (const auto& [at, node] : single_at)
    if (single.try_emplace(node, work_size_).second) ++work_size_;
  Places free(work_size_);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Node node = order[at];
    const NodeData& is = data[node];
    const auto size = static_cast<std::size_t>(is.size);
    if (is.op == Op::constant) continue;
    if (is.op == Op::input) {
      const Padded& padded = rings.at(is.ring);
      places[node] =
          padded.at + static_cast<std::size_t>(static_cast<std::int32_t>(padded.before) + start(is));
      continue;
    }
    Instruction instruction;
    instruction.op = is.op;
    instruction.n = size;
    std::vector<Node> arguments = arguments_of(node);
    const auto chain = chains.find(node);
    if (chain != chains.end()) {
      instruction.op = Op::chain;
      instruction.a = places.at(chain->second.start);
      instruction.arrays = size > 1 ? 1 : 0;
      instruction.b = chain->second.steps.size();
    } else {
      const Node operands[] = {is.a, is.b, is.c};
      std::size_t* const fields[] = {&instruction.a, &instruction.b, &instruction.c};
      for (std::size_t i = 0; i < 3; ++i) {
        if (operands[i] == none) continue;
        *fields[i] = places.at(operands[i]);
        if (graph[operands[i]].size > 1)
          instruction.arrays = static_cast<std::uint8_t>(instruction.arrays | 1U << i);
      }
    }
    std::ranges::sort(arguments);
    arguments.erase(std::unique(arguments.begin(), arguments.end()), arguments.end());
    const auto give_back = [&] {
      if (keep) return;
      for (const Node argument : arguments) {
        if (last_use[argument] != at) continue;
        const Op op = data.at(argument).op;
        if (op == Op::input || op == Op::constant) continue;
        free.give(places.at(argument), static_cast<std::size_t>(graph[argument].size));
      }
    };
    // Elementwise, the result may take the place of an argument.
    if (is_elementwise(is.op)) give_back();
    instruction.to_output = direct.contains(node);
    instruction.out = instruction.to_output   ? direct.at(node)
                      : single.contains(node) ? single.at(node)
                                              : free.take(size);
    places[node] = instruction.out;
    if (!is_elementwise(is.op)) give_back();
    if (chain != chains.end()) {
      std::vector<std::int32_t> links;
      for (const Chain::Step& step : chain->second.steps) {
        const bool number = size > 1 && step.operand != none && graph[step.operand].size == 1;
        links.push_back(code_of(step.link, number));
        links.push_back(step.operand == none ? 0 : static_cast<std::int32_t>(places.at(step.operand)));
      }
      lists_.push_back(std::make_unique<const std::vector<std::int32_t>>(std::move(links)));
      instruction.list = lists_.back()->data();
    } else if (is.list >= 0) {
      std::vector<std::int32_t> list = graph.indices(node);
      if (is.op == Op::gather) {
        const std::int32_t each = repeats(list, graph[is.a].size);
        std::vector<std::int32_t> runs = each > 0 ? std::vector<std::int32_t>() : runs_of(list);
        if (each > 0) {
          instruction.b = repeated;
          instruction.c = static_cast<std::size_t>(each);
        } else if (runs.size() <= list.size() / 2) {
          instruction.b = by_runs;
          instruction.c = runs.size() / 2;
          list = std::move(runs);
        }
      }
      lists_.push_back(std::make_unique<const std::vector<std::int32_t>>(std::move(list)));
      instruction.list = lists_.back()->data();
    }
    instruction.code = code_of(instruction.op, instruction.arrays);
    tape_.instructions.push_back(instruction);
  }
  work_size_ = free.end() + block - 1;
  for (const Output& output : outputs) {
    if (direct.contains(output.node)) continue;
    const Copy copy{places.at(output.node), data.at(output.node).size, output.places};
    for (std::size_t i = 0; i < copy.places.size(); ++i)
      if (!keep)
        append(tape_.outputs,
               {copy.from + (copy.n == 1 ? 0 : i), static_cast<std::size_t>(copy.places[i]), 1});
    copies_.push_back(copy);
  }
}

void Program::prepare(double* work) const { std::ranges::copy(constants_, work); }

void Program::run(const double* input, double* output, double* work) const {
  equations::run(tape_, input, work, output);
}

}  // namespace mac::equations
