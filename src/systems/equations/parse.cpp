#include "systems/equations/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace mac::equations {

namespace {

// A tree deeper than this is no equation of anybody's; its walk would need that much of the stack.
constexpr int deepest = 200;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Token {
  enum class Kind { number, name, symbol, end_of_line, end } kind = Kind::end;
  std::string_view text;
  std::size_t at = 0;
  double value = 0;
};

constexpr std::array<std::string_view, 8> long_symbols{"**", "//", "..", "<=", ">=", "==", "!=", "&&"};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> tokens() {
    std::vector<Token> found;
    while (true) {
      skip_blanks();
      const std::size_t at = at_;
      if (at == text_.size()) {
        found.push_back({Token::Kind::end, {}, at});
        return found;
      }
      const char c = text_[at];
      if (c == '\n' || c == ';') {
        ++at_;
        found.push_back({Token::Kind::end_of_line, text_.substr(at, 1), at});
      } else if (is_letter(c)) {
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
        found.push_back({Token::Kind::name, text_.substr(at, at_ - at), at});
      } else if (is_digit(c) || (c == '.' && at + 1 < text_.size() && is_digit(text_[at + 1]))) {
        found.push_back(number());
      } else {
        found.push_back(symbol());
      }
    }
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || c == '\r')
        ++at_;
      else
        return;
    }
  }

  Token number() {
    const std::size_t at = at_;
    const auto digits = [&] {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    };
    digits();
    // The dots of 1..N are not its decimal point.
    if (at_ < text_.size() && text_[at_] == '.' && text_.substr(at_, 2) != "..") {
      ++at_;
      digits();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      std::size_t after = at_ + 1;
      if (after < text_.size() && (text_[after] == '+' || text_[after] == '-')) ++after;
      if (after < text_.size() && is_digit(text_[after])) {
        at_ = after;
        digits();
      }
    }
    const std::string_view spelt = text_.substr(at, at_ - at);
    double value = 0;
    const auto end = std::from_chars(spelt.data(), spelt.data() + spelt.size(), value);
    if (end.ec != std::errc() || !std::isfinite(value))
      throw TextError(at, fmt::format("the number {} is too large or too small", spelt));
    if (at_ < text_.size() && is_letter(text_[at_]))
      throw TextError(at_, fmt::format("the number {} runs into a name; write {} * ...", spelt, spelt));
    return {Token::Kind::number, spelt, at, value};
  }

  Token symbol() {
    const std::size_t at = at_;
    for (const std::string_view known : long_symbols)
      if (text_.substr(at, 2) == known) {
        if (known == "&&") throw TextError(at, "write \"and\" for &&");
        at_ += 2;
        return {Token::Kind::symbol, text_.substr(at, 2), at};
      }
    if (std::string_view("+-*/^%()[],=<>").find(text_[at]) == std::string_view::npos) {
      if (text_[at] == '!') throw TextError(at, "write \"not\" for !");
      if (text_[at] == '|') throw TextError(at, "write \"or\" for |");
      if (text_[at] == '{' || text_[at] == '}') throw TextError(at, "write ( ) for { }");
      const auto code = static_cast<unsigned char>(text_[at]);
      throw TextError(at, code >= 0x80 ? std::string("a character outside ASCII")
                                       : fmt::format("the character {:?} has no meaning here",
                                                     std::string(1, text_[at])));
    }
    ++at_;
    return {Token::Kind::symbol, text_.substr(at, 1), at};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// Whether name =, name[...] = or name/dt = begins here.
bool begins_statement(const std::vector<Token>& tokens, std::size_t at) {
  if (tokens[at].kind != Token::Kind::name) return false;
  ++at;
  if (tokens[at].text == "[")
    while (tokens[at].kind != Token::Kind::end && tokens[at].kind != Token::Kind::end_of_line &&
           tokens[at++].text != "]")
      continue;
  if (tokens[at].text == "/" && tokens[at + 1].text == "dt") at += 2;
  return tokens[at].text == "=";
}

/// A text of several statements goes on in the next line inside parentheses and after an operator; one formula
/// does everywhere.
std::vector<Token> joined_lines(const std::vector<Token>& tokens, bool one_formula) {
  std::vector<Token> result;
  int open = 0;
  bool operand_expected = false;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (token.kind == Token::Kind::end_of_line && token.text != ";") {
      const bool after_parenthesis = !result.empty() && result.back().text == "(";  // sum(j = ...
      if (one_formula) continue;
      if ((open > 0 || operand_expected) && (after_parenthesis || !begins_statement(tokens, i + 1))) continue;
      open = 0;
    }
    if (token.text == "(" || token.text == "[") ++open;
    if (token.text == ")" || token.text == "]") open = std::max(0, open - 1);
    operand_expected = (token.kind == Token::Kind::symbol && token.text != ")" && token.text != "]") ||
                       token.text == "and" || token.text == "or" || token.text == "not";
    result.push_back(token);
  }
  return result;
}

class Parser {
 public:
  Parser(std::string_view text, bool one_formula)
      : tokens_(joined_lines(Lexer(text).tokens(), one_formula)) {}

  std::vector<Statement> statements() {
    std::vector<Statement> found;
    while (true) {
      while (now().kind == Token::Kind::end_of_line) ++next_;
      if (now().kind == Token::Kind::end) return found;
      found.push_back(statement());
      if (now().kind != Token::Kind::end && now().kind != Token::Kind::end_of_line)
        fail(fmt::format("expected an operator or the end of the line, not {}", described(now())));
    }
  }

  Expression whole_expression() {
    Expression found = expression();
    if (now().kind != Token::Kind::end)
      fail(fmt::format("expected an operator or the end, not {}", described(now())));
    return found;
  }

  Declaration declaration() {
    Declaration found;
    const Token name = take_name("the name of a variable");
    found.name = name.text;
    found.at = name.at;
    if (accept("[")) {
      do {
        IndexRange range;
        const Token index = take_name("the name of an index");
        range.name = index.text;
        if (std::ranges::find(found.indices, range.name, &IndexRange::name) != found.indices.end())
          throw TextError(index.at, fmt::format("the index {} is there twice", range.name));
        found.indices.push_back(std::move(range));
      } while (accept(","));
      expect("]");
    }
    std::size_t said = 0;
    IndexRange* last = nullptr;
    while (accept(",")) {
      const Token word = take_name("an index and its range, or cyclic, bounded, zero, mirror or ring");
      if (now().text == "=") {
        const auto index = std::ranges::find(found.indices, word.text, &IndexRange::name);
        if (index == found.indices.end())
          throw TextError(word.at, fmt::format("{} has no index {}", found.name, word.text));
        ++next_;
        index->first = expression();
        expect("..");
        index->last = expression();
        last = &*index;
        ++said;
      } else {
        set_edge(found, last, word);
      }
    }
    if (now().kind != Token::Kind::end) fail(fmt::format("expected a comma, not {}", described(now())));
    for (const IndexRange& range : found.indices)
      if (range.last.at == 0)
        throw TextError(found.at, fmt::format("the index {0} of {1} has no range; write {1}[{0}], {0} = 1..N",
                                              range.name, found.name));
    return found;
  }

 private:
  static void set_edge(Declaration& declaration, IndexRange* range, const Token& word) {
    if (!range)
      throw TextError(
          word.at, fmt::format("\"{}\" stands after an index's range, k = 1..N, {}", word.text, word.text));
    if (word.text == "cyclic")
      range->edge = Edge::cyclic;
    else if (word.text == "bounded")
      range->edge = Edge::bounded;
    else if (word.text == "zero")
      range->edge = Edge::zero;
    else if (word.text == "mirror")
      range->edge = Edge::mirror;
    else if (word.text == "ring")
      declaration.ring = true;
    else
      throw TextError(word.at,
                      fmt::format("\"{}\" is none of cyclic, bounded, zero, mirror, ring", word.text));
  }

  Statement statement() {
    Statement found;
    found.left = reference(take_name("a name and ="));
    if (now().text == "/" && tokens_[next_ + 1].text == "dt") {
      found.over_dt = true;
      next_ += 2;
    }
    if (now().text == "==") fail("an equation has one =");
    expect("=");
    found.right = expression();
    return found;
  }

  // ---- expressions, from what binds least to what binds most

  Expression expression() {
    Deeper deeper(*this);
    Expression left = conjunction();
    while (now().kind == Token::Kind::name && now().text == "or")
      left = binary(std::move(left), "or", &Parser::conjunction);
    return left;
  }
  Expression conjunction() {
    Expression left = negation();
    while (now().kind == Token::Kind::name && now().text == "and")
      left = binary(std::move(left), "and", &Parser::negation);
    return left;
  }
  Expression negation() {
    if (now().kind != Token::Kind::name || now().text != "not") return comparison();
    Deeper deeper(*this);
    const std::size_t at = tokens_[next_++].at;
    return call("not", at, {negation()});
  }
  Expression comparison() {
    Expression left = sum();
    for (const char* symbol : {"<", "<=", ">", ">=", "==", "!="})
      if (now().kind == Token::Kind::symbol && now().text == symbol) {
        left = binary(std::move(left), symbol, &Parser::sum);
        for (const char* second : {"<", "<=", ">", ">=", "==", "!="})
          if (now().kind == Token::Kind::symbol && now().text == second)
            fail("comparisons do not chain; write a < b and b < c");
        return left;
      }
    if (now().text == "=") fail("a comparison is written ==");
    return left;
  }
  Expression sum() {
    Expression left = product();
    while (now().text == "+" || now().text == "-")
      left = binary(std::move(left), std::string(now().text), &Parser::product);
    return left;
  }
  Expression product() {
    Expression left = sign();
    while (now().text == "*" || now().text == "/" || now().text == "//" || now().text == "%")
      left = binary(std::move(left), std::string(now().text), &Parser::sign);
    return left;
  }
  Expression sign() {
    if (now().kind != Token::Kind::symbol || (now().text != "-" && now().text != "+")) return power();
    Deeper deeper(*this);
    const Token token = tokens_[next_++];
    if (token.text == "+") return sign();
    return call("unary -", token.at, {sign()});  // no name that a text can call
  }
  Expression power() {
    Expression base = primary();
    if (now().text != "^" && now().text != "**") return base;
    Deeper deeper(*this);
    const std::size_t at = tokens_[next_++].at;
    std::vector<Expression> arguments;
    arguments.push_back(std::move(base));
    arguments.push_back(sign());  // 2^-3, and 2^3^2 = 2^(3^2)
    return call("^", at, std::move(arguments));
  }

  Expression primary() {
    const Token token = now();
    if (token.kind == Token::Kind::number) {
      ++next_;
      return {Expression::Kind::number, token.value, {}, {}, token.at};
    }
    if (token.kind == Token::Kind::name && !is_word(token.text)) {
      ++next_;
      return now().text == "(" ? call_of(token) : reference(token);
    }
    if (accept("(")) {
      open_.push_back(token.at);
      Expression inner = expression();
      close(")");
      return inner;
    }
    fail(fmt::format("expected a number, a name or a parenthesis, not {}", described(token)));
  }

  Expression reference(const Token& name) {
    Expression found{Expression::Kind::reference, 0, std::string(name.text), {}, name.at};
    open_.push_back(now().at);
    if (!accept("[")) {
      open_.pop_back();
      return found;
    }
    do {
      found.arguments.push_back(expression());
    } while (accept(","));
    close("]");
    return measured(std::move(found));
  }

  Expression call_of(const Token& name) {
    open_.push_back(now().at);
    expect("(");
    Expression found{Expression::Kind::call, 0, std::string(name.text), {}, name.at};
    if (name.text == "sum") {
      found.kind = Expression::Kind::sum;
      found.name = take_name("the index that the sum runs over").text;
      if (accept("=")) {
        found.arguments.push_back(expression());
        expect("..");
        found.arguments.push_back(expression());
      }
      if (now().text != ",") fail("a sum is written sum(j, ...) or sum(j = 1..J, ...)");
      ++next_;
      found.arguments.push_back(expression());
    } else if (now().text != ")") {
      do {
        found.arguments.push_back(expression());
      } while (accept(","));
    }
    close(")");
    return measured(std::move(found));
  }

  Expression binary(Expression left, const std::string& symbol, Expression (Parser::*operand)()) {
    const std::size_t at = tokens_[next_++].at;
    std::vector<Expression> arguments;
    arguments.push_back(std::move(left));
    arguments.push_back((this->*operand)());
    return call(symbol, at, std::move(arguments));
  }

  static Expression call(std::string name, std::size_t at, std::vector<Expression> arguments) {
    return measured({Expression::Kind::call, 0, std::move(name), std::move(arguments), at});
  }
  /// A chain a + b + c ... is a tree as deep as it is long.
  static Expression measured(Expression expression) {
    for (const Expression& argument : expression.arguments)
      expression.depth = std::max(expression.depth, argument.depth + 1);
    if (expression.depth > deepest)
      throw TextError(expression.at, "the expression is too long; give parts of it names");
    return expression;
  }

  // ---- tokens

  /// Parentheses, signs and powers nest; their depth is bounded.
  struct Deeper {
    explicit Deeper(Parser& of) : parser(of) {
      if (++parser.depth_ > deepest) parser.fail("the expression nests too deeply");
    }
    ~Deeper() { --parser.depth_; }
    Parser& parser;
  };

  const Token& now() const { return tokens_[next_]; }
  static bool is_word(std::string_view name) { return name == "and" || name == "or" || name == "not"; }

  bool accept(std::string_view symbol) {
    if (now().kind != Token::Kind::symbol || now().text != symbol) return false;
    ++next_;
    return true;
  }
  void close(std::string_view symbol) {
    if (!accept(symbol)) {
      if (now().kind == Token::Kind::end || now().kind == Token::Kind::end_of_line)
        throw TextError(open_.back(), "this parenthesis is not closed");
      fail(fmt::format("expected an operator or \"{}\", not {}", symbol, described(now())));
    }
    open_.pop_back();
  }
  void expect(std::string_view symbol) {
    if (accept(symbol)) return;
    fail(fmt::format("expected \"{}\", not {}", symbol, described(now())));
  }
  Token take_name(std::string_view what) {
    if (now().kind != Token::Kind::name || is_word(now().text))
      fail(fmt::format("expected {}, not {}", what, described(now())));
    return tokens_[next_++];
  }
  static std::string described(const Token& token) {
    if (token.kind == Token::Kind::end) return "the end";
    if (token.kind == Token::Kind::end_of_line) return "the end of the line";
    return fmt::format("\"{}\"", token.text);
  }
  [[noreturn]] void fail(const std::string& sentence) const { throw TextError(now().at, sentence); }

  std::vector<Token> tokens_;
  std::vector<std::size_t> open_;  // places of the parentheses around what is being read
  std::size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string pointed(std::string_view text, const TextError& error) {
  const std::size_t at = std::min(error.at, text.size());
  const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');
  constexpr std::size_t around = 70;  // of a long line
  const std::size_t from = at - begin > around ? at - around : begin, to = std::min(end, at + around);
  std::string caret;
  for (std::size_t i = from; i < at; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;  // within a character of UTF-8
    caret += text[i] == '\t' ? '\t' : ' ';
  }
  const bool lines = text.find('\n') != std::string_view::npos;
  return fmt::format("{}{}\n    {}\n    {}^", lines ? fmt::format("line {}: ", line) : "", error.what(),
                     text.substr(from, to - from), caret);
}

std::vector<Statement> parse_statements(std::string_view text) { return Parser(text, false).statements(); }
Expression parse_expression(std::string_view text) { return Parser(text, true).whole_expression(); }
Declaration parse_declaration(std::string_view text) { return Parser(text, true).declaration(); }

}  // namespace mac::equations
