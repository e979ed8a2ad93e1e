// Equations as text, read into trees.
//
//   statement    name = expression,  dX[k] = expression,  dX[k]/dt = expression;  one a line
//   declaration  X[k], k = 1..N, cyclic
//   expression   numbers, names, X[k-1], + - * / ^, < <= > >= == !=, and or not, functions, sum(j, ...),
//                sum(j = 1..J, ...); inside [ ] whole numbers with + - * // %
//
// # begins a comment. A line goes on inside parentheses and after an operator.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mac::equations {

/// What is wrong with a text, and at which byte of it.
class TextError : public std::runtime_error {
 public:
  TextError(std::size_t place, const std::string& sentence) : std::runtime_error(sentence), at(place) {}
  std::size_t at;
};

/// "line 3: sentence", then that line of the text and a caret below the character.
std::string pointed(std::string_view text, const TextError& error);

struct Expression {
  enum class Kind {
    number,     // value
    reference,  // name, or name[arguments]
    call,       // name(arguments); operators are calls of "+", "unary -", "<", ...
    sum,        // over the index `name`: arguments are {body}, or {first, last, body}
  };
  Kind kind = Kind::number;
  double value = 0;
  std::string name;
  std::vector<Expression> arguments;
  std::size_t at = 0;  // where in the text
  int depth = 0;       // of the tree below
};

/// name[indices] = value
struct Statement {
  Expression left;  // a reference
  bool over_dt = false;
  Expression right;
};

enum class Edge { bounded, cyclic, zero, mirror };

struct IndexRange {
  std::string name;
  Expression first, last;
  Edge edge = Edge::bounded;
};

/// X[k], k = 1..N, cyclic
struct Declaration {
  std::string name;
  std::vector<IndexRange> indices;
  bool ring = false;  // the last index runs on into the one before it, all around
  std::size_t at = 0;
};

std::vector<Statement> parse_statements(std::string_view text);
Expression parse_expression(std::string_view text);
Declaration parse_declaration(std::string_view text);

}  // namespace mac::equations
