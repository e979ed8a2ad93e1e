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

/// dx/dt = -5 x + cos(w t) q, dq/dt = x - q, with everything that may be said of a system.
struct Forced {
  explicit Forced(const ConfigTable&) {}
  std::vector<std::string> resolved_names() const { return {"x"}; }
  std::vector<std::size_t> closure_targets() const { return {0}; }
  std::size_t full_size() const { return 2; }
  template <class Scalar>
  void reduced_rhs(const Scalar& t, const Scalar* y, Scalar* dydt) const {
    using std::cos;
    dydt[0] = -5.0 * y[0] + 0.5 * cos(M_PI * t);
  }
  void full_rhs(double t, const double* z, double* rate) const {
    rate[0] = -5 * z[0] + std::cos(M_PI * t) * z[1];
    rate[1] = z[0] - z[1];
  }
  void sample(RandomStream& random, std::span<double> z) const { z[0] = random.uniform(0, 1), z[1] = 0.25; }
  double period() const { return 2; }
  std::size_t warmup_steps() const { return 3; }
  std::string time_unit() const { return "s"; }
  double largest_stable_dt() const { return 0.5; }
  std::vector<double> linear_part() const { return {-5}; }
  std::vector<Diagnostic> diagnostics(std::span<const double> z) const {
    return {{"sum", z[0] + z[1], true}};
  }
  std::unique_ptr<InitialCondition> initial(const ConfigTable& table) const {
    struct At final : InitialCondition {
      double x;
      explicit At(double value) : x(value) {}
      void sample(std::size_t, RandomStream&, std::span<double> z) const override { z[0] = x, z[1] = 7; }
      std::optional<std::size_t> count() const override { return 1; }
    };
    return std::make_unique<At>(table.number("x"));
  }
};
/// The same with time as it is.
struct Aperiodic {
  explicit Aperiodic(const ConfigTable& table) : is(table) {}
  Forced is;
  std::vector<std::string> resolved_names() const { return {"x"}; }
  std::vector<std::size_t> closure_targets() const { return {0}; }
  std::size_t full_size() const { return 2; }
  template <class Scalar>
  void reduced_rhs(const Scalar& t, const Scalar* y, Scalar* dydt) const {
    is.reduced_rhs(t, y, dydt);
  }
  void full_rhs(double t, const double* z, double* rate) const { is.full_rhs(t, z, rate); }
  void sample(RandomStream& random, std::span<double> z) const { is.sample(random, z); }
};

struct ClosureBeyondItsVariables : Relaxation {
  using Relaxation::Relaxation;
  std::vector<std::size_t> closure_targets() const { return {1}; }
};

void register_once() {
  static const bool done = [] {
    register_system<Relaxation>("relaxation");
    register_system<ClosureBeyondItsVariables>("beyond");
    register_system<Forced>("forced");
    register_system<Aperiodic>("aperiodic");
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

TEST(OwnSystem, SaysWhatItsHooksSay) {
  register_once();
  const auto system = test::make("name = 'forced'");
  EXPECT_EQ(system->resolved_names(), (std::vector<std::string>{"x", "t_cos", "t_sin"}));
  EXPECT_EQ(system->full_size(), 4u);
  EXPECT_EQ(system->warmup_steps(), 3u);
  EXPECT_EQ(system->time_unit(), "s");
  EXPECT_EQ(system->largest_stable_dt(), 0.5);
  EXPECT_EQ(linear_part_of(*system), (std::vector<double>{-5, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto state = test::sample(*system, *test::initial(*system, "x = 3"), 0);
  EXPECT_EQ(state, (std::vector<double>{3, 1, 0, 7}));
  const auto sum = system->diagnostics(state).at(0);
  EXPECT_EQ(sum.value, 10) << "of the equations' own state, without the clock";
  EXPECT_TRUE(sum.conserved);
  EXPECT_TRUE(linear_part_of(*test::make("name = 'relaxation'")).empty());
}

TEST(OwnSystem, KnowsTheTime) {
  register_once();
  for (const std::string name : {"forced", "aperiodic"}) {
    const auto system = test::make("name = '" + name + "'");
    const std::size_t clocks = name == "forced" ? 2 : 1;
    auto state = test::sample(*system, *system->initial_condition(nullptr), 1);
    // The exact clock, and one RK4 step of the equations written out by hand with it.
    const double dt = 0.01;
    double x = state[0], q = state.back();
    for (int n = 0; n < 170; ++n) {  // beyond half a period, where t jumps from 1 to -1
      double kx[4], kq[4];
      for (int i = 0; i < 4; ++i) {
        const double a = i == 0 ? 0 : i < 3 ? 0.5 : 1, t = (n + a) * dt;
        const double xi = x + (i ? a * dt * kx[i - 1] : 0), qi = q + (i ? a * dt * kq[i - 1] : 0);
        kx[i] = -5 * xi + std::cos(M_PI * t) * qi, kq[i] = xi - qi;
      }
      x += dt / 6 * (kx[0] + 2 * kx[1] + 2 * kx[2] + kx[3]);
      q += dt / 6 * (kq[0] + 2 * kq[1] + 2 * kq[2] + kq[3]);
    }
    state = test::advance(*system, state, dt, 170);
    EXPECT_NEAR(state[0], x, 1e-8) << name;
    EXPECT_NEAR(state.back(), q, 1e-8) << name;
    // RK4's phase errs by (w dt)^5/120 a step: 4e-8 after 170.
    EXPECT_NEAR(state[1], clocks == 1 ? 1.7 : std::cos(M_PI * 1.7), 1e-7) << name;
    // The gradient sees the time, too.
    const std::vector<double> y(state.begin(), state.end() - 1), adjoint(y.size(), 1.0);
    std::vector<double> gradient(y.size()), high(y.size()), low(y.size());
    system->reduced_rhs_vjp(y.data(), adjoint.data(), gradient.data());
    for (std::size_t j = 0; j < y.size(); ++j) {
      auto up = y, down = y;
      up[j] += 1e-5, down[j] -= 1e-5;
      system->reduced_rhs(up.data(), high.data());
      system->reduced_rhs(down.data(), low.data());
      double expected = 0;
      for (std::size_t i = 0; i < y.size(); ++i) expected += (high[i] - low[i]) / 2e-5;
      EXPECT_NEAR(gradient[j], expected, 1e-8) << name << " " << j;
    }
  }
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
