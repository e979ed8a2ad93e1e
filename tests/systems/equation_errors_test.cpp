// What a user can get wrong in a text of equations: every message names it and points at the character.
#include <gtest/gtest.h>

#include <mac/error.hpp>

#include "systems/make.hpp"

namespace mac {
namespace {

struct Mistake {
  const char* rate;      // of x
  const char* sentence;  // part of the message
  const char* at;        // the text from the caret on begins like this; empty: at the end of the line
};

/// dx = RATE with the parameters a, N = 4, the resolved x and u[i], the hidden q and w[i] and a quantity e2.
std::string system_of(const std::string& rate) {
  return "kind = 'equations'\nparameters = { a = 2, N = 4, half = 0.5 }\n"
         "resolved = ['x', 'u[i], i = 1..N']\nhidden = ['q', 'w[k,l], k = 1..N, cyclic, l = 0..1']\n"
         "equations = '''\ne2 = 2*x\ndx = " +
         rate +
         "\ndu[i] = q*u[i]\ndq = x\ndw[k,l] = -w[k,l]\n'''\n"
         "initial = { x = 1, u = 0, q = 0, w = 0 }\nreduced = { q = 0, w = 0 }\n";
}

std::string message_of(const std::string& table) {
  try {
    test::make(table);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

/// What stands in the message's second line from the character on that the third line's caret is below.
std::string pointed_at(const std::string& message) {
  const std::size_t first = message.find('\n'), second = message.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) return "no caret";
  const std::string line = message.substr(first + 1, second - first - 1);
  const std::size_t caret = message.substr(second + 1).find('^');
  return caret < line.size() ? line.substr(caret) : "";
}

const Mistake mistakes[] = {
    // characters and numbers
    {"x $ 2", "the character \"$\" has no meaning here", "$ 2"},
    {"x @ y", "has no meaning here", "@ y"},
    {"x ? 1 : 0", "has no meaning here", "? 1"},
    {"x·a", "a character outside ASCII", "·a"},
    {"2x", "the number 2 runs into a name; write 2 * ...", "x"},
    {"3.5a + x", "the number 3.5 runs into a name", "a + x"},
    {"1e999*x", "too large", "1e999"},
    {"{x}", "write ( ) for { }", "{x}"},
    {"x && q", "write \"and\" for &&", "&& q"},
    {"x | q", "write \"or\" for |", "| q"},
    {"!x", "write \"not\" for !", "!x"},
    {"neg()", "there is no function neg", "neg()"},
    {"neg(x, q)", "there is no function neg", "neg(x, q)"},
    {"u[neg()]", "an index is made of whole numbers", "neg()"},
    // structure
    {"", "expected a number, a name or a parenthesis", ""},
    {"*x", "expected a number, a name or a parenthesis, not \"*\"", "*x"},
    {"x / / q", "expected a number, a name or a parenthesis, not \"/\"", "/ q"},
    {"x q", "expected an operator or the end of the line, not \"q\"", "q"},
    {"x 2", "expected an operator or the end of the line, not \"2\"", "2"},
    {"(x + q", "this parenthesis is not closed", "(x + q"},
    {"sin(x + q", "this parenthesis is not closed", "(x + q"},
    {"u[1 + q", "this parenthesis is not closed", "[1 + q"},
    {"x + q)", "expected an operator or the end of the line, not \")\"", ")"},
    {"()", "expected a number, a name or a parenthesis, not \")\"", ")"},
    {"x = 2", "a comparison is written ==", "= 2"},
    {"x < q < 2", "comparisons do not chain", "< 2"},
    {"x, q", "expected an operator or the end of the line, not \",\"", ", q"},
    {"not", "expected a number, a name or a parenthesis", ""},
    {"and x", "expected a number, a name or a parenthesis, not \"and\"", "and x"},
    // names
    {"y + q", "there is no parameter, variable or quantity y", "y + q"},
    {"ee2 + q", "there is no parameter, variable or quantity ee2; did you mean \"e2\"?", "ee2"},
    {"X + q", "there is no parameter, variable or quantity X", "X"},
    {"x + Q", "there is no parameter, variable or quantity Q", "Q"},
    {"sinus(x)", "there is no function sinus", "sinus"},
    {"sqr(x)", "there is no function sqr; did you mean \"sqrt\"?", "sqr"},
    {"sin + q", "sin is a function, sin(...)", "sin + q"},
    {"x(1)", "x is no function; an index stands in brackets, x[k]", "x(1)"},
    {"u(1)", "u is no function", "u(1)"},
    {"a[1]*q", "a is a parameter, it has no index", "a[1]"},
    {"pi[1]*q", "pi is a number, it has no index", "pi[1]"},
    {"i*q", "there is no parameter, variable or quantity i", "i*q"},
    {"uniform(0, 1)*q", "uniform is for initial states", "uniform"},
    // arguments
    {"sin()", "sin has 1 argument, here are 0", "sin()"},
    {"sin(x, q)", "sin has 1 argument, here are 2", "sin(x"},
    {"pow(x)", "pow has 2 arguments, here is 1", "pow(x)"},
    {"min(x)", "min has two or more arguments", "min(x)"},
    {"where(x > 1, q)", "where has a condition and two values", "where"},
    {"sin(x,)", "expected a number, a name or a parenthesis, not \")\"", ")"},
    {"max(, x)", "expected a number, a name or a parenthesis, not \",\"", ", x)"},
    // indices
    {"u + q", "u has 1 index, here are 0", "u + q"},
    {"x[1] + q", "x has 0 indices, here is 1", "x[1]"},
    {"w[1] + q", "w has 2 indices, here is 1", "w[1]"},
    {"u[1,2] + q", "u has 1 index, here are 2", "u[1,2]"},
    {"u[0] + q", "u[0] does not exist", "u[0]"},
    {"u[N+1] + q", "u[5] does not exist", "u[N+1]"},
    {"w[1,2] + q", "w[1,2] does not exist", "w[1,2]"},
    {"u[x] + q", "there is no index x here", "x] + q"},
    {"u[half] + q", "half is 0.5, but an index is a whole number", "half]"},
    {"u[1.5] + q", "this is 1.5, but an index is a whole number", "1.5]"},
    {"u[N/2] + q", "write // for a division without rest", "/2]"},
    {"u[1//0] + q", "a division by zero", "//0]"},
    {"u[sin(1)] + q", "an index is made of whole numbers", "sin(1)]"},
    {"u[u[1]] + q", "u[ ] is no whole number", "u[1]]"},
    {"u[] + q", "expected a number, a name or a parenthesis, not \"]\"", "] + q"},
    // sums
    {"sum(j, q)", "the index j is not that of a variable; write sum(j = 1..N, ...)", "sum(j, q)"},
    {"sum(i, u[i-1])*q", "u[0] does not exist", "u[i-1]"},
    {"sum(q)", "a sum is written sum(j, ...) or sum(j = 1..J, ...)", ")"},
    {"sum(2, q)", "expected the index that the sum runs over, not \"2\"", "2, q"},
    {"sum(i = 1, q)", "expected \"..\", not \",\"", ", q)"},
    {"sum(i = 1..x, q)", "there is no index x here", "x, q"},
    {"sum(i = 1..1e9, i)*q", "the equations have too many terms", "sum("},
    {"sum(i = 1..9000000, u[1+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0+0])*q",
     "the equations have too many terms", "+0]"},
};

TEST(EquationErrors, NameWhatIsWrongAndPointAtIt) {
  EXPECT_GE(std::size(mistakes), 60u);
  EXPECT_EQ(message_of(system_of("a*x + q")), "no error");
  for (const Mistake& mistake : mistakes) {
    const std::string message = message_of(system_of(mistake.rate));
    EXPECT_NE(message.find("test.toml:5: equations: line 2: "), std::string::npos) << mistake.rate << "\n"
                                                                                   << message;
    EXPECT_NE(message.find(mistake.sentence), std::string::npos) << mistake.rate << "\n" << message;
    const std::string at = pointed_at(message);
    EXPECT_EQ(at.substr(0, std::string_view(mistake.at).size()), mistake.at) << mistake.rate << "\n"
                                                                             << message;
    EXPECT_EQ(at.empty(), std::string_view(mistake.at).empty()) << mistake.rate << "\n" << message;
  }
}

TEST(EquationErrors, OfDeepTextsAreNoCrash) {
  const auto repeated = [](const std::string& text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  EXPECT_NE(message_of(system_of(repeated("(", 100'000) + "x")).find("nests too deeply"), std::string::npos);
  EXPECT_NE(message_of(system_of(repeated("-", 100'000) + "x")).find("nests too deeply"), std::string::npos);
  EXPECT_NE(message_of(system_of(repeated("2^", 100'000) + "x")).find("nests too deeply"), std::string::npos);
  EXPECT_NE(message_of(system_of(repeated("x + ", 100'000) + "x")).find("too long"), std::string::npos);
  EXPECT_NE(message_of(system_of(repeated("sin(", 500) + "x")).find("nests too deeply"), std::string::npos);
}

TEST(EquationErrors, OfQuantitiesThatFollowFromEachOtherTooDeeplyAreNoCrash) {
  std::string quantities = "e98 = q";
  for (int k = 97; k > 2; --k) {
    quantities += "\ne" + std::to_string(k) + " = e" + std::to_string(k + 1);
    for (int i = 0; i < 195; ++i) quantities += " + x";
  }
  EXPECT_NE(message_of(system_of("e3\n" + quantities)).find("follow from each other too deeply"),
            std::string::npos);
}

TEST(EquationErrors, OfLinesWithoutAnEndTakeNoTimeThatGrowsWithTheirSquare) {
  std::string lines = "x + (\n";
  for (int i = 0; i < 100'000; ++i) lines += "a[\n";
  EXPECT_NE(message_of(system_of(lines)), "no error");  // nine seconds once
}

/// RESOLVED beside a hidden q, with more equations and w[i] as q begins.
std::string lattices_of(const std::string& resolved, const std::string& equations,
                        const std::string& q = "0") {
  return "kind = 'equations'\nresolved = [" + resolved + "]\nhidden = ['q']\nequations = '''\n" + equations +
         "\ndq = -q\n'''\ninitial = { u = 1, v = 1, y = 1, z = 1, q = '" + q + "' }\nreduced = { q = 0 }\n";
}

TEST(EquationErrors, OfAnIndexWithTwoRangesSayThatThereAreTwo) {
  const std::string resolved = "'u[i], i = 1..3, cyclic', 'v[i], i = 1..5, cyclic', 'y', 'z'";
  const std::string rates = "\ndv[k] = -v[k]\ndy = q\ndz = q\ndu[k] = q";
  EXPECT_EQ(message_of(lattices_of(resolved, rates)), "no error");
  for (const std::string& message :
       {message_of(lattices_of(resolved, "flux[i] = u[i]" + rates + " + flux[k]")),
        message_of(lattices_of(resolved, rates + " + sum(i, u[i])")),
        message_of(lattices_of(resolved, rates, "sum(i, 2)"))})
    EXPECT_NE(message.find("variables differ in the range of i"), std::string::npos) << message;
}

TEST(EquationErrors, OfWhatWouldTakeAllMemoryComeBeforeItIsTaken) {
  std::string nested = "q*u[i]";
  for (int k = 0; k < 95; ++k) nested = "sum(a" + std::to_string(k) + " = 1..1, " + nested + ")";
  const std::string four =
      "'u[i], i = 1..600000', 'v[j], j = 1..600000', 'y[k], k = 1..600000', 'z[l], l = 1..600000'";
  const std::string rates = "\ndv[j] = q\ndy[k] = q\ndz[l] = q\ndu[i] = ";
  EXPECT_NE(message_of(lattices_of(four, rates + nested)).find("the equations have too many terms"),
            std::string::npos);
  // 600,000^4 is more than a number of 64 bits counts.
  EXPECT_NE(message_of(lattices_of(four, "p[i,j,k,l] = 1" + rates + "q")).find("p has too many points"),
            std::string::npos);
}

struct TableMistake {
  const char* from;  // of a sound table,
  const char* to;    // replaced by this
  const char* sentence;
};

constexpr const char* sound = R"(kind = 'equations'
parameters = { a = 2, N = 4 }
resolved = ['u[i], i = 1..N, cyclic']
hidden = ['w[i], i = 1..N, cyclic', 'q']
equations = '''
du[i] = w[i] - u[i] + q
dw[i] = u[i-1] - a*w[i]
dq = -q
'''
initial = { u = 'normal(0, 1)', w = 0, q = 0 }
reduced = { w = 'u[i]/a', q = 'drop' }
)";

const TableMistake table_mistakes[] = {
    {"dq = -q", "", "there is no equation for dq; write dq = ..."},
    {"dq = -q", "dq = -q\ndq = q", "dq has an equation already"},
    {"dq = -q", "dq = -q\ndu[5] = 0", "u has no point with this index"},
    {"dq = -q", "dq = -q\nu = 3", "u is a variable: give its rate of change, du = ..."},
    {"dq = -q", "dq = -q\na = 3", "a is a parameter, it has its value already"},
    {"dq = -q", "dq = -q\nr = s\ns = r", "needs itself"},
    {"dq = -q", "dq = -q\nr = 1\nr = 2", "r is defined twice"},
    {"dq = -q", "dq/dt = -q\ndz/dt = 1", "dz is the rate of no variable"},
    {"dq = -q", "dq = -q\nsin = 1", "the name sin is taken"},
    {"dq = -q", "dq = -q\nr[z] = 1", "the index z is not that of a variable"},
    {"dq = -q", "dq = -r\nr = r + 1", "r needs itself"},
    {"du[i] =", "du =", "u has 1 indices, here are 0"},
    {"du[i] =", "du[i,i] =", "u has 1 indices, here are 2"},
    {"w[i] - u[i] + q", "u[i]", "no equation of a resolved variable mentions a hidden one"},
    {"'u[i], i = 1..N, cyclic'", "'u[i]'", "the index i of u has no range; write u[i], i = 1..N"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], i = 1..N, round'", "\"round\" is none of cyclic, bounded"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], cyclic'", "\"cyclic\" stands after an index's range"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], i = N..1'", "the range 4..1 of i is empty"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], i = 1..M'", "there is no parameter M"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], j = 1..N'", "u has no index j"},
    {"'u[i], i = 1..N, cyclic'", "'u[i], i = 1..1e9'", "u has too many points"},
    {"'u[i], i = 1..N, cyclic'", "'u[i,i], i = 1..N'", "the index i is there twice"},
    {"'u[i], i = 1..N, cyclic'", "'exp'", "the name exp is taken"},
    {"'u[i], i = 1..N, cyclic'", "'2u'", "the number 2 runs into a name"},
    {"'q']", "'q', 'z[k], k = 1..4e6']", "z and those before have too many points"},
    {"'q']", "'q', 'u']", "u is declared twice"},
    {"'q']", "'q', 'a']", "a is a parameter"},
    {"['w[i], i = 1..N, cyclic', 'q']", "[]", "without hidden variables there is nothing to close"},
    {"resolved = ['u[i], i = 1..N, cyclic']", "resolved = []", "needs a variable"},
    {"a = 2,", "exp = 2, a = 2,", "the name is taken"},
    {"a = 2,", "\"b c\" = 2, a = 2,", "parameters.b c"},
    {"w = 0,", "", "does not say how w begins"},
    {"w = 0,", "w = 'sum(k = 1..999999999, k)',", "the initial state has too many terms"},
    {"w = 0,", "w = 'normal(0)',", "normal has two arguments"},
    {"w = 0,", "w = 'normal(0, -1)',", "a deviation is not negative"},
    {"w = 0,", "w = 'u[',", "expected a number"},
    {"w = 0,", "w = 'q',", "q is not set before this variable is"},
    {"w = 0,", "w = [1, 2],", "has 2 elements, expected 4 numbers"},
    {"w = 0,", "w = 0, z = 1,", "is no variable"},
    {"'u[i]/a'", "'u[j]'", "there is no index j here"},
    {"'u[i]/a'", "'w[i]'", "the reduced w needs itself"},
    {"q = 'drop' }", "q = 'drop', u = 0 }", "u: is no hidden variable"},
    {"q = 'drop' }", "q = [0, 1] }", "has 2 elements, expected 1 numbers"},
    {"kind = 'equations'", "kind = 'equation'", "did you mean \"equations\"?"},
    {"kind = 'equations'", "kind = 'equations'\nname = 'burgers'", "is a system of the program"},
    {"kind = 'equations'", "kind = 'equations'\nperiod = 2", "which no equation mentions"},
    {"kind = 'equations'", "kind = 'equations'\nsymmetries = ['mirror']",
     "\"mirror\" is no symmetry; there are fourier_translation, fourier_reflection, cyclic_shift, "
     "reflection"},
    {"kind = 'equations'", "kind = 'equations'\nsymmetries = ['cyclic_shift', 'cyclic_shift']",
     "\"cyclic_shift\" is there twice"},
    {"a*w[i]\n", "a*w[i]\ndu[2] = w[2]\n", "no error"},
};

TEST(EquationErrors, OfTheTableNameTheKey) {
  EXPECT_EQ(message_of(sound), "no error");
  for (const TableMistake& mistake : table_mistakes) {
    std::string table = sound;
    table.replace(table.find(mistake.from), std::string_view(mistake.from).size(), mistake.to);
    const std::string message = message_of(table);
    EXPECT_NE(message.find(mistake.sentence), std::string::npos) << mistake.to << "\n" << message;
  }
}

TEST(EquationErrors, SayWhyASymmetryDoesNotFit) {
  std::string table = sound;
  table += "symmetries = ['cyclic_shift']\n";
  EXPECT_EQ(message_of(table), "no error");
  table.replace(table.find("- u[i]"), 6, "- i*u[i]");
  EXPECT_NE(message_of(table).find("the rates of a shifted state are not the shifted rates"),
            std::string::npos);
}

struct Symmetric {
  const char *variables, *rates, *symmetry, *sentence;  // null: it has the symmetry
};

constexpr const char* two_modes = "'a[k], k = 1..2', 'b[k], k = 1..2'";

// q is hidden.
const Symmetric symmetric[] = {
    {two_modes, "da[k] = k*b[k] + q\ndb[k] = -k*a[k] + q", "fourier_translation", nullptr},
    {two_modes, "da[k] = k*b[k] + q\ndb[k] = -2*k*a[k] + q", "fourier_translation",
     "the rates of a turned state are not the turned rates (at a1)"},
    // Mode 2 turns twice as far as mode 1: the square of mode 1 may drive it, and not the other way round.
    {two_modes, "da[1] = q\ndb[1] = q\nda[2] = a[1]^2 - b[1]^2 + q\ndb[2] = 2*a[1]*b[1] + q",
     "fourier_translation", nullptr},
    {two_modes, "da[2] = q\ndb[2] = q\nda[1] = a[2]^2 - b[2]^2 + q\ndb[1] = 2*a[2]*b[2] + q",
     "fourier_translation", "the rates of a turned state are not the turned rates (at a1)"},
    {two_modes, "da[k] = a[k]*b[k] + q\ndb[k] = a[k]^2 + q", "fourier_reflection", nullptr},
    {two_modes, "da[k] = k*b[k] + q\ndb[k] = -k*a[k] + q", "fourier_reflection",
     "the rates of a reflected state are not the reflected rates (at a1)"},
    {two_modes, "da[k] = -a[k] + q\ndb[k] = -b[k]", "fourier_translation",
     "not every resolved variable has a closure in its equation"},
    {"'x', 'y', 'z'", "dx = q\ndy = q\ndz = q", "fourier_reflection", "but 3 is an odd number"},
    {"'x', 'y'", "dx = y\ndy = -x^3 + q", "reflection", nullptr},
    {"'x', 'y'", "dx = y\ndy = -x^2 + q", "reflection", "are not the reflected rates (at y)"},
    {"'x', 'y'", "dx = y\ndy = -sqrt(-x^2 - y^2) + q", "reflection",
     "at no state of normal or positive random numbers are the rates finite"}};

TEST(EquationErrors, SayWhetherRatesHaveTheSymmetryOfTheirStates) {
  for (const Symmetric& of : symmetric) {
    const auto message = [&](const std::string& reduced) {
      std::string initial = "q = 1";
      for (const std::string name : {"a", "b", "x", "y", "z"})
        if (std::string(of.variables).find("'" + name) != std::string::npos) initial += ", " + name + " = 1";
      return message_of(std::string("kind = 'equations'\nresolved = [") + of.variables +
                        "]\nhidden = ['q']\nequations = \"\"\"\n" + of.rates +
                        "\ndq = -q\n\"\"\"\ninitial = { " + initial + " }\nsymmetries = ['" + of.symmetry +
                        "']\nreduced = { q = '" + reduced + "' }\n");
    };
    if (!of.sentence) {
      EXPECT_EQ(message("drop"), "no error") << of.rates;
      EXPECT_NE(message("mean").find("has to be out of the reduced model, \"drop\""), std::string::npos)
          << message("mean");  // the mean of what the symmetry moves would break it
      continue;
    }
    EXPECT_NE(message("drop").find(std::string(of.symmetry) + " does not fit: "), std::string::npos)
        << message("drop");
    EXPECT_NE(message("drop").find(of.sentence), std::string::npos) << message("drop");
  }
}

}  // namespace
}  // namespace mac
