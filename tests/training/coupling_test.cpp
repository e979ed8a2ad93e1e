// The adjoint of a coupled step against difference quotients of the step itself.
#include <gtest/gtest.h>

#include <mac/coupling.hpp>

#include "training/systems.hpp"

namespace mac::test {
namespace {

struct Inputs {
  std::vector<double> y, closure, previous;
};

struct Case {
  std::string system;
  HeldClosure held;
  bool first;  // the first step of a rollout, without a previous prediction
};

class CoupledStep : public testing::TestWithParam<Case> {};

TEST_P(CoupledStep, HasTheAdjointOfItsDerivative) {
  const auto [name, held, first] = GetParam();
  const auto system = system_named(name);
  const double dt = 1e-2;
  RandomStream random(3, Purpose::noise, 0);
  const std::size_t d = system->resolved_size(), c = system->closure_size();
  Inputs in{normal_values(d, 0.5, random), normal_values(c, 0.5, random), normal_values(c, 0.5, random)};
  const std::vector<double> weights = normal_values(d, 1, random);
  const bool is_first = first;
  const HeldClosure how = held;

  const auto value = [&] {  // weights . y after the step
    std::vector<double> y = in.y;
    coupled_step(*system, dt, how, in.closure.data(), is_first ? nullptr : in.previous.data(), y.data());
    double sum = 0;
    for (std::size_t i = 0; i < d; ++i) sum += weights[i] * y[i];
    return sum;
  };
  Inputs gradient{std::vector<double>(d), std::vector<double>(c), std::vector<double>(c)};
  coupled_step_adjoint(*system, dt, how, in.closure.data(), is_first ? nullptr : in.previous.data(),
                       in.y.data(), weights.data(), gradient.y.data(), gradient.closure.data(),
                       is_first ? nullptr : gradient.previous.data());

  const auto check = [&](std::vector<double> Inputs::*array) {
    for (std::size_t i = 0; i < (in.*array).size(); ++i) {
      double& input = (in.*array)[i];
      const double here = input, h = 1e-3;
      const auto at = [&](double offset) {
        input = here + offset;
        const double result = value();
        input = here;
        return result;
      };
      const double quotient = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      // h^4 times fifth derivatives, and rounding 1e-16/h.
      EXPECT_NEAR((gradient.*array)[i], quotient, 1e-10) << "input " << i;
    }
  };
  check(&Inputs::y);
  check(&Inputs::closure);
  check(&Inputs::previous);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& system : all_systems)
    for (const Hold hold : {Hold::zero, Hold::linear})
      for (const Target target : {Target::instant, Target::mean})
        for (const bool first : {false, true}) all.push_back({system, {hold, target}, first});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Systems, CoupledStep, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return c.system + "_" + std::string(to_string(c.held.hold)) + "_" + std::string(to_string(c.held.target)) +
         (c.first ? "_first" : "");
});

}  // namespace
}  // namespace mac::test
