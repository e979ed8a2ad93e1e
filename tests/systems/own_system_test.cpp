// Systems that a program of its own brings along, and data without equations.
#include <gtest/gtest.h>

#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/own_system.hpp>

#include "support/files.hpp"
#include "systems/make.hpp"

namespace mac {
namespace {

/// dx/dt = -a x^2 + q, dq/dt = x - q; resolved: x, closure: q.
struct Relaxation {
  double a;
  explicit Relaxation(const ConfigTable& table) : a(table.number_or("a", 1)) {}
  std::vector<std::string> resolved_names() const { return {"x"}; }
  std::vector<std::size_t> closure_targets() const { return {0}; }
  std::size_t full_size() const { return 2; }
  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    dydt[0] = -a * y[0] * y[0];
  }
  void full_rhs(const double* z, double* rate) const {
    reduced_rhs(z, rate);
    rate[0] += z[1];
    rate[1] = z[0] - z[1];
  }
  void sample(RandomStream& random, std::span<double> z) const {
    z[0] = random.uniform(0, 1);
    z[1] = 0.25;
  }
};

struct ClosureBeyondItsVariables : Relaxation {
  using Relaxation::Relaxation;
  std::vector<std::size_t> closure_targets() const { return {1}; }
};

void register_once() {
  static const bool done = [] {
    register_system<Relaxation>("relaxation");
    register_system<ClosureBeyondItsVariables>("beyond");
    return true;
  }();
  static_cast<void>(done);
}

TEST(OwnSystem, IsMadeByNameWithItsParameters) {
  register_once();
  const auto system = test::make("name = 'relaxation'\na = 3");
  EXPECT_EQ(system->name(), "relaxation");
  EXPECT_EQ(system->closure_names(), std::vector<std::string>{"C_x"});
  const double y = 2, adjoint = 1;
  double rate = 0, gradient = 0;
  system->reduced_rhs(&y, &rate);
  EXPECT_EQ(rate, -12);
  system->reduced_rhs_vjp(&y, &adjoint, &gradient);
  EXPECT_EQ(gradient, -12);  // d(-3 y^2)/dy at 2, exactly
}

TEST(OwnSystem, HasAsClosureWhatTheReducedModelMisses) {
  register_once();
  const auto system = test::make("name = 'relaxation'");
  const auto solver = system->make_solver(0.01);
  solver->start(std::vector<double>{0.5, 0.25});
  double closure = 0, x = 0;
  solver->closure(std::span(&closure, 1));
  solver->resolved(std::span(&x, 1));
  EXPECT_EQ(closure, 0.25);
  EXPECT_EQ(x, 0.5);
}

TEST(OwnSystem, IsGeneratedFromAnExperiment) {
  register_once();
  const test::ScratchFolder folder;
  const Experiment experiment = Experiment::parse(
      "[system]\nname = 'relaxation'\n[data]\ndt = 0.1\n[data.test]\ntrajectories = 3\nhorizon = 1\n",
      "own.toml");
  generate(experiment, folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  std::vector<double> closure(11);
  data.split("test").read_closure(2, 0, 11, closure.data());
  EXPECT_EQ(closure[0], 0.25);
  EXPECT_NE(closure[10], 0.25);
}

TEST(OwnSystem, CannotTakeANameTwiceOrCloseAVariableItDoesNotHave) {
  register_once();
  EXPECT_THROW(register_system<Relaxation>("burgers"), UsageError);
  EXPECT_THROW(register_system<Relaxation>("relaxation"), UsageError);
  EXPECT_THROW(test::make("name = 'beyond'"), UsageError);
}

TEST(Recorded, HasNamesButNoEquations) {
  const auto system = test::make("name = 'recorded'\nresolved = ['u', 'v', 'w']\ntargets = ['w', 'u']");
  EXPECT_EQ(system->closure_names(), (std::vector<std::string>{"C_w", "C_u"}));
  EXPECT_EQ(system->closure_targets()[0], 2u);
  EXPECT_FALSE(system->has_equations());
  double y[3] = {}, rate[3];
  EXPECT_THROW(system->reduced_rhs(y, rate), UsageError);
  EXPECT_THROW(system->make_solver(0.1), UsageError);
}

TEST(Recorded, RefusesVariablesThatAreNotThere) {
  EXPECT_THROW(test::make("name = 'recorded'\nresolved = []"), UsageError);
  EXPECT_THROW(test::make("name = 'recorded'\nresolved = ['u']\ntargets = ['v']"), UsageError);
  EXPECT_THROW(test::make("name = 'recorded'\nresolved = ['u']\ntargets = []"), UsageError);
}

}  // namespace
}  // namespace mac
