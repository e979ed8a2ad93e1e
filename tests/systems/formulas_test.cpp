// Expressions of the time that data give from outside, [data.given].
#include "systems/equations/formulas.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <numbers>

namespace mac {
namespace {

std::string study(const std::string& given, const std::string& system = "viscosity = 0.25\n") {
  return "[system]\nname = \"burgers\"\ngrid = 32\n" + system +
         "[data]\ndt = 1e-3\nstride = 10\n[data.test]\ntrajectories = 2\nhorizon = 0.1\n[data.given]\n" +
         given;
}

double value(const std::string& formula, double t, std::vector<double> parameters = {}) {
  const std::string system =
      parameters.empty() ? "viscosity = 0.25\n" : "viscosity = { uniform = [0.1, 0.5] }\n";
  const Experiment experiment = Experiment::parse(study("f = \"" + formula + "\"", system), "study.toml");
  double out = 0;
  experiment.data.formulas->evaluate(std::span(&t, 1), parameters, &out, 1);
  return out;
}

TEST(Formulas, AreExpressionsOfTheTime) {
  EXPECT_EQ(value("t", 3.5), 3.5);
  EXPECT_EQ(value("sin(2*pi*t/5)", 1.25), std::sin(2 * std::numbers::pi * 1.25 / 5));
  EXPECT_EQ(value("where(t < 2, 1, 1 + (t - 2)^2)", 1.5), 1);
  EXPECT_EQ(value("where(t < 2, 1, 1 + (t - 2)^2)", 3.5), 3.25);
  EXPECT_EQ(value("sum(k = 1..3, k*t)", 2), 12);
  EXPECT_EQ(value("7", 100), 7);
}

TEST(Formulas, NameNumbersOfTheSystemAndOfTheTrajectory) {
  EXPECT_EQ(value("viscosity*t + modes", 2), 3.5) << "modes is 3 unless the experiment says otherwise";
  EXPECT_EQ(value("viscosity*t", 2, {0.4}), 0.8) << "that of the trajectory where it varies";
}

TEST(Formulas, ComeAfterParametersAndForcingInAlphabeticalOrder) {
  const Experiment experiment = Experiment::parse(
      study("wind = \"sin(t)\"\nsun = \"cos(t)\"", "viscosity = { uniform = [0.1, 0.5] }\n"), "study.toml");
  EXPECT_EQ(experiment.data.input_names(), (std::vector<std::string>{"viscosity", "sun", "wind"}));
  EXPECT_EQ(experiment.data.formulas_text(), "sun = cos(t), wind = sin(t)");
  double out[4];
  const double times[] = {0.5, 1}, parameters[] = {0.2};
  experiment.data.formulas->evaluate(times, parameters, out, 2);
  EXPECT_EQ(out[0], std::cos(0.5));
  EXPECT_EQ(out[1], std::sin(0.5));
  EXPECT_EQ(out[2], std::cos(1.0));
  EXPECT_EQ(out[3], std::sin(1.0));
}

TEST(Formulas, SayWhatIsWrongAndPointAtIt) {
  const struct {
    const char *given, *part;
  } cases[] = {
      {"wind = \"sin(2*t\"",
       "study.toml:12: data.given.wind: this parenthesis is not closed\n    sin(2*t\n       ^"},
      {"wind = \"sin(viscosty*t)\"",
       "there is no parameter, variable or quantity viscosty; did you mean \"viscosity\"?\n    "
       "sin(viscosty*t)\n        ^"},
      {"wind = \"t[1]\"", "\n    t[1]\n    ^"},
      {"wind = \"2*normal(0, 1)\"", "\n    2*normal(0, 1)\n      ^"},
      {"wind = \"sin t\"", "expected an operator or the end, not \"t\"\n    sin t\n        ^"},
      {"wind = true", "data.given.wind: is"},
      {"wind = \"\"", "data.given.wind"},
      {"phi1 = \"t\"", "\"phi1\" is the name of something else, too"},
  };
  for (const auto& one : cases) {
    std::string said;
    try {
      Experiment::parse(study(one.given), "study.toml");
    } catch (const UsageError& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(one.part), std::string::npos) << one.given << ": " << said;
  }
  try {
    value("1/t", 0);
    ADD_FAILURE() << "1/0 was taken";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "the given f = \"1/t\" is inf at t = 0");
  }
}

}  // namespace
}  // namespace mac
