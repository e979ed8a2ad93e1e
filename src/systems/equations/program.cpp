#include "systems/equations/program.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

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

/// A node that is computed at the end of others which nobody else needs.
struct Chain {
  struct Step {
    Link link;
    Node operand;
  };
  Node start = none;
  std::vector<Step> steps;
};

constexpr std::int32_t longest_chained =
    64;  // longer arrays: what each operation costs on its own no longer counts

std::map<Node, int> count_uses(const Graph& graph, const std::vector<Node>& order,
                               const std::vector<Output>& outputs) {
  std::map<Node, int> uses;
  for (const Output& output : outputs) ++uses[output.node];
  for (const Node node : order)
    for (const Node argument : {graph[node].a, graph[node].b, graph[node].c})
      if (argument != none) ++uses[argument];
  return uses;
}

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

/// a*b + c for products that nobody else needs.
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
    append(inputs_, {padded.begin, ring, padded.length});
    append(inputs_, {last, padded.at, padded.before});
    append(inputs_, {padded.begin, ring + padded.length, padded.after});
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
    arguments.erase(std::ranges::unique(arguments).begin(), arguments.end());
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
    instructions_.push_back(instruction);
  }
  work_size_ = free.end() + block - 1;
  for (const Output& output : outputs) {
    if (direct.contains(output.node)) continue;
    const Copy copy{places.at(output.node), data.at(output.node).size, output.places};
    for (std::size_t i = 0; i < copy.places.size(); ++i)
      append(outputs_, {copy.from + (copy.n == 1 ? 0 : i), static_cast<std::size_t>(copy.places[i]), 1});
    copies_.push_back(copy);
  }
}

void Program::append(std::vector<Run>& runs, const Run& run) {
  if (run.n == 0) return;
  if (!runs.empty() && runs.back().from + runs.back().n == run.from &&
      runs.back().to + runs.back().n == run.to)
    runs.back().n += run.n;
  else
    runs.push_back(run);
}

/// Few numbers are copied without a call, which a plain loop would become.
void Program::copy(const std::vector<Run>& runs, const double* from, double* to) {
  for (const Run& run : runs) {
    const double* const source = from + run.from;
    double* const target = to + run.to;
    if (run.n > 32) {
      std::copy_n(source, run.n, target);
      continue;
    }
    std::size_t i = 0;
    for (; i + 2 <= run.n; i += 2) {
      std::memcpy(target + i, source + i, 2 * sizeof(double));
      asm volatile("" ::: "memory");
    }
    if (i < run.n) target[i] = source[i];
  }
}

void Program::prepare(double* work) const { std::ranges::copy(constants_, work); }

void Program::run(const double* input, double* output, double* work) const {
  copy(inputs_, input, work);
  run_instructions(instructions_.data(), instructions_.size(), work, output);
  copy(outputs_, work, output);
}

namespace {

struct Slopes {
  double a = 0, b = 0, c = 0;
};

/// Partial derivatives of an operation with the value f. At a kink the side that the value is taken from
/// counts; comparisons, signs and floors are flat.
Slopes slopes(Op op, double a, double b, double f) {
  switch (op) {
    case Op::neg:
      return {-1};
    case Op::exp:
      return {f};
    case Op::log:
      return {1 / a};
    case Op::log10:
      return {1 / (a * std::log(10.0))};
    case Op::sqrt:
      return {0.5 / f};
    case Op::cbrt:
      return {1 / (3 * f * f)};
    case Op::sin:
      return {std::cos(a)};
    case Op::cos:
      return {-std::sin(a)};
    case Op::tan:
      return {1 + f * f};
    case Op::asin:
      return {1 / std::sqrt(1 - a * a)};
    case Op::acos:
      return {-1 / std::sqrt(1 - a * a)};
    case Op::atan:
      return {1 / (1 + a * a)};
    case Op::sinh:
      return {std::cosh(a)};
    case Op::cosh:
      return {std::sinh(a)};
    case Op::tanh:
      return {1 - f * f};
    case Op::abs:
      return {a < 0 ? -1.0 : a > 0 ? 1.0 : 0.0};
    case Op::add:
      return {1, 1};
    case Op::sub:
      return {1, -1};
    case Op::mul:
      return {b, a};
    case Op::div:
      return {1 / b, -f / b};
    case Op::pow:
      // b may be a constant, and then a may be negative.
      return {b == 0 ? 0 : b * std::pow(a, b - 1), a > 0 ? f * std::log(a) : 0};
    case Op::atan2:
      return {b / (a * a + b * b), -a / (a * a + b * b)};
    case Op::min:
      return b < a ? Slopes{0, 1} : Slopes{1, 0};
    case Op::max:
      return b > a ? Slopes{0, 1} : Slopes{1, 0};
    case Op::select:
      return a != 0 ? Slopes{0, 1, 0} : Slopes{0, 0, 1};
    default:
      return {};
  }
}

}  // namespace

void Program::execute_backwards(const Instruction& i, const double* work, double* adjoints) const {
  // Null for constants.
  const auto adjoint = [&](std::size_t place) {
    return place >= constants_.size() ? adjoints + place : nullptr;
  };
  const double* const d_out = adjoint(i.out);
  double* const d_a = adjoint(i.a);
  const std::size_t n = i.n;
  if (i.op == Op::gather) {
    if (!d_a) return;
    if (i.b == repeated) {
      for (std::size_t k = 0; k < n; ++k) d_a[k / i.c] += d_out[k];
    } else if (i.b == by_runs) {
      const double* from = d_out;
      for (std::size_t r = 0; r < 2 * i.c; r += 2)
        for (std::int32_t k = 0; k < i.list[r + 1]; ++k) d_a[i.list[r] + k] += *from++;
    } else {
      for (std::size_t k = 0; k < n; ++k) d_a[i.list[k]] += d_out[k];
    }
    return;
  }
  if (i.op == Op::segments) {
    for (std::size_t k = 0; d_a && k < n; ++k)
      for (std::int32_t j = i.list[k]; j < i.list[k + 1]; ++j) d_a[j] += d_out[k];
    return;
  }
  double* const d_b = adjoint(i.b);
  if (i.op == Op::merge) {
    for (std::size_t k = 0; k < n; ++k) {
      if (i.list[k] >= 0 && d_a) d_a[i.list[k]] += d_out[k];
      if (i.list[k] < 0 && d_b) d_b[-1 - i.list[k]] += d_out[k];
    }
    return;
  }
  double* const d_c = i.op == Op::select ? adjoint(i.c) : nullptr;
  const bool two = i.op >= Op::add;
  const double *a = work + i.a, *b = work + i.b, *f = work + i.out;
  const std::size_t along_a = i.arrays & 1 ? 1 : 0, along_b = i.arrays & 2 ? 1 : 0,
                    along_c = i.arrays & 4 ? 1 : 0;
  for (std::size_t k = 0; k < n; ++k) {
    if (d_out[k] == 0) continue;  // a slope may be infinite where nobody looks
    const Slopes slope = slopes(i.op, a[k * along_a], b[k * along_b], f[k]);
    if (d_a) d_a[k * along_a] += d_out[k] * slope.a;
    if (two && d_b) d_b[k * along_b] += d_out[k] * slope.b;
    if (d_c) d_c[k * along_c] += d_out[k] * slope.c;
  }
}

void Program::add_gradient(const double* input, const double* adjoint, double* gradient, double* work) const {
  copy(inputs_, input, work);
  run_instructions(instructions_.data(), instructions_.size(), work, nullptr);
  double* const adjoints = work + work_size_;
  std::fill_n(adjoints, work_size_, 0.0);
  for (const Copy& copy : copies_) {
    double* const to = adjoints + copy.from;  // what falls on constants is never read
    for (std::size_t i = 0; i < copy.places.size(); ++i) to[copy.n == 1 ? 0 : i] += adjoint[copy.places[i]];
  }
  for (std::size_t i = instructions_.size(); i-- > 0;) execute_backwards(instructions_[i], work, adjoints);
  for (const Padded& ring : rings_) {
    const double* const from = adjoints + ring.at;
    for (std::size_t q = 0; q < ring.before + ring.length + ring.after; ++q)
      gradient[ring.begin + (q + ring.length - ring.before) % ring.length] += from[q];
  }
}

}  // namespace mac::equations
