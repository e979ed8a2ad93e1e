// A graph as a list of instructions on arrays, and its exact gradient.
//
// An evaluation copies the inputs into a work space (each ring with as many neighbours on either side as
// somebody reads, so that a shifted ring is a pointer), then runs the instructions one after the other, each a
// loop over its array. The gradient runs them forwards, keeping everything, and backwards.
//
// Sums and products of arrays are taken `block` numbers at a time, the last ones together with what happens to
// lie behind them: an array in the work space has room for that, and nobody reads what comes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "systems/equations/graph.hpp"

namespace mac::equations {

/// Node -> outputs [first, first + count); a node of one number fills them all.
struct Output {
  Node node = none;
  std::vector<std::int32_t> places;
};

/// Operands are places in the work space; the result's may be one of the outputs.
struct Instruction {
  Op op = Op::constant;
  std::uint8_t arrays = 0;  // which operands are arrays: bit 0 for a, 1 for b, 2 for c
  bool to_output = false;
  std::uint32_t code = 0;  // op and arrays in one number, for run()
  std::size_t n = 0;
  std::size_t a = 0, b = 0, c = 0, out = 0;
  const std::int32_t* list = nullptr;  // indices of a gather or merge, bounds of segments, links of a chain
};
/// What run() does in place comes first, without gaps; the others are one case.
constexpr std::uint32_t code_of(Op op, std::uint32_t arrays) {
  constexpr Op in_place[] = {Op::chain,    Op::add,     Op::sub,     Op::mul, Op::div,
                             Op::mul_add,  Op::mul_sub, Op::sub_mul, Op::neg, Op::gather,
                             Op::segments, Op::merge,   Op::sin,     Op::cos};
  std::uint32_t rank = 0;
  for (const Op known : in_place) {
    if (known == op) return rank * 8 + arrays;
    ++rank;
  }
  return rank * 8;
}
/// A chain takes its first operand through one link after the other, x + b, x - b, b - x, ..., with x in a register:
/// what is written for few numbers takes longer than to compute them. A link is two numbers of the list, its kind
/// (twice, and 1 more if b is a single number beside an array) and the place of b. Instruction::b counts the links.
enum class Link : std::int32_t { add, sub, sub_from, mul, div, divide, neg };
constexpr std::int32_t code_of(Link link, bool number) {
  return 2 * static_cast<std::int32_t>(link) + (number ? 1 : 0);
}
// How a gather says what it takes, in b; c has the repetitions or the number of runs.
enum GatherMode : std::size_t { by_index = 0, repeated = 1, by_runs = 2 };

inline constexpr std::size_t block = 8;

/// n numbers that lie together on either side.
struct Run {
  std::size_t from, to, n;
};

/// What an evaluation does: inputs to the work space, instructions, results to the output (machine.cpp).
struct Tape {
  std::vector<Run> inputs;
  std::vector<Instruction> instructions;
  std::vector<Run> outputs;
};
void run(const Tape& tape, const double* input, double* work, double* output);

/// Zeros at the beginning of a cache line.
class WorkSpace {
 public:
  WorkSpace() = default;
  explicit WorkSpace(std::size_t n) : lines_((n + 7) / 8) {}
  double* data() { return lines_.empty() ? nullptr : lines_.front().numbers; }

 private:
  struct alignas(64) Line {
    double numbers[8] = {};
  };
  std::vector<Line> lines_;
};

class Program {
 public:
  /// `keep`: every node has its own place, as the gradient needs; otherwise places are used again, and
  /// operations whose results nobody else needs are joined.
  Program(const Graph& graph, const std::vector<Output>& outputs, std::size_t output_size, bool keep);

  std::uint64_t id() const { return id_; }  // of this program alone, in this process
  std::size_t work_size() const { return work_size_; }
  std::size_t input_size() const { return input_size_; }
  std::size_t output_size() const { return output_size_; }

  /// Fills in the constants of a work space of work_size() numbers (gradient: 2 work_size()), once.
  void prepare(double* work) const;
  /// work is a prepared work space. Of a program that does not keep.
  void run(const double* input, double* output, double* work) const;
  /// gradient += (d output / d input)^T adjoint. Of a program that keeps.
  void add_gradient(const double* input, const double* adjoint, double* gradient, double* work) const;

 private:
  /// Inputs in the work space: `before` neighbours around the ring's end, the ring, `after` neighbours.
  struct Padded {
    std::size_t begin, length, before, after, at;
  };
  struct Copy {
    std::size_t from;
    std::int32_t n;  // 1: one number for all places
    std::vector<std::int32_t> places;
  };

  void execute_backwards(const Instruction& i, const double* work, double* adjoints) const;

  std::uint64_t id_;
  std::vector<double> constants_;                                        // the first of the work space
  std::vector<std::unique_ptr<const std::vector<std::int32_t>>> lists_;  // where instructions point to
  std::vector<Padded> rings_;
  Tape tape_;
  std::vector<Copy> copies_;
  std::size_t work_size_ = 0, input_size_ = 0, output_size_ = 0;
};

}  // namespace mac::equations
