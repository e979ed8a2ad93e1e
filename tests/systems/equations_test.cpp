// Systems whose equations are text, [system] kind = "equations".
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/linear_part.hpp>

#include "support/files.hpp"
#include "systems/make.hpp"

namespace mac {
namespace {

std::unique_ptr<System> of_experiment(const std::string& name) {
  const auto experiment = ConfigTable::read(std::string(MAC_EXPERIMENTS) + "/equations/" + name + ".toml");
  return make_system(experiment.table("system"));
}

/// A system of one resolved and one hidden variable, whose equation of x is this.
std::unique_ptr<System> with_rate(const std::string& rate, const std::string& more = "") {
  return test::make("kind = 'equations'\nresolved = ['x']\nhidden = ['q']\nequations = '''\ndx = " + rate +
                    "\ndq = -q'''\ninitial = { x = 1, q = 0 }\nreduced = { q = 0 }\n" + more);
}

double reduced_at(const System& system, double x) {
  double rate = 0;
  system.reduced_rhs(&x, &rate);
  return rate;
}

/// Both give the same trajectories, closures, reduced rates and gradients.
void expect_same(const System& text, const System& built_in, double dt, std::size_t steps) {
  ASSERT_EQ(text.full_size(), built_in.full_size());
  ASSERT_EQ(text.closure_size(), built_in.closure_size());
  const auto state = test::sample(built_in, *built_in.initial_condition(nullptr), 3);
  EXPECT_EQ(test::sample(text, *text.initial_condition(nullptr), 3), state);
  const auto one = text.make_solver(dt), other = built_in.make_solver(dt);
  one->start(state);
  other->start(state);
  const std::size_t d = text.resolved_size(), c = text.closure_size();
  std::vector<double> a(c), b(c);
  for (std::size_t i = 0; i < steps; ++i) {
    one->step();
    other->step();
  }
  // Sums are taken in another order: rounding, which a few hundred steps of a chaotic system amplify.
  constexpr double rounding = 1e-10;
  double scale = 0;
  for (const double value : other->state()) scale = std::max(scale, std::abs(value));
  for (std::size_t k = 0; k < state.size(); ++k)
    EXPECT_NEAR(one->state()[k], other->state()[k], rounding * scale) << k;
  one->take_closure_integral(a);
  other->take_closure_integral(b);
  for (std::size_t j = 0; j < c; ++j) EXPECT_NEAR(a[j], b[j], rounding * (1 + std::abs(b[j])));
  one->start(other->state());
  one->closure(a);
  other->closure(b);
  for (std::size_t j = 0; j < c; ++j) EXPECT_NEAR(a[j], b[j], 1e-12 * (1 + std::abs(b[j])));

  std::vector<double> y(d), rate(d), expected(d), adjoint(d), gradient(d), expected_gradient(d);
  other->resolved(y);
  for (std::size_t k = 0; k < d; ++k) adjoint[k] = 1.0 + 0.3 * static_cast<double>(k);
  text.reduced_rhs(y.data(), rate.data());
  built_in.reduced_rhs(y.data(), expected.data());
  text.reduced_rhs_vjp(y.data(), adjoint.data(), gradient.data());
  built_in.reduced_rhs_vjp(y.data(), adjoint.data(), expected_gradient.data());
  for (std::size_t k = 0; k < d; ++k) {
    EXPECT_NEAR(rate[k], expected[k], 1e-12 * (1 + std::abs(expected[k])));
    EXPECT_NEAR(gradient[k], expected_gradient[k], 1e-12 * (1 + std::abs(expected_gradient[k])));
  }
  const auto seen = text.diagnostics(state), known = built_in.diagnostics(state);
  ASSERT_EQ(seen.size(), known.size());
  for (const Diagnostic& quantity : known) {
    const auto same = std::ranges::find(seen, quantity.name, &Diagnostic::name);
    ASSERT_NE(same, seen.end());
    EXPECT_NEAR(same->value, quantity.value, 1e-12 * (1 + std::abs(quantity.value)));
  }
}

TEST(Equations, OfLorenz96AreTheBuiltInOnes) {
  const auto text = of_experiment("lorenz96");
  const auto built_in = test::make("name = 'lorenz96'");
  expect_same(*text, *built_in, 0.005, 200);
  EXPECT_EQ(text->resolved_names(), built_in->resolved_names());
  EXPECT_EQ(text->warmup_steps(), built_in->warmup_steps());
  EXPECT_EQ(text->symmetries().size(), 1u);
}

TEST(Equations, OfThePowerGridAreTheBuiltInOnes) {
  const auto text = of_experiment("power_grid");
  const auto built_in = test::make("name = 'power_grid'");
  expect_same(*text, *built_in, 5e-5, 1000);
  EXPECT_EQ(text->closure_names(), built_in->closure_names());
  EXPECT_EQ(text->time_unit(), "s");
}

TEST(Equations, OfBurgersInFourierModesAreTheBuiltInOnes) {
  const auto text = of_experiment("burgers");
  const auto built_in = test::make("name = 'burgers'\ngrid = 64");
  EXPECT_EQ(text->fourier_modes(), 3u);
  ASSERT_EQ(text->symmetries().size(), 2u);
  for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(text->symmetries()[s].kind, built_in->symmetries()[s].kind);
  // A field of the 16 modes that the text has, as each keeps it: a, b, c, d; theta_0, theta_1, ...
  constexpr std::size_t m = 3, all = 16;
  RandomStream random(1, Purpose::diagnosis, 0);
  std::vector<double> z(2 * all), theta(built_in->full_size()), rate(z.size()), theta_rate(theta.size());
  const auto real = [](std::size_t k) { return k <= m ? k - 1 : m + k - 1; };
  const auto imaginary = [](std::size_t k) { return k <= m ? m + k - 1 : all + k - 1; };
  for (std::size_t k = 1; k <= all; ++k) {
    z[real(k)] = theta[2 * k] = random.normal();
    z[imaginary(k)] = theta[2 * k + 1] = random.normal();
  }
  const auto one = text->make_solver(0.01), other = built_in->make_solver(1e-4);
  one->full_rhs(z, rate);
  other->full_rhs(theta, theta_rate);
  one->start(z);
  other->start(theta);
  std::vector<double> closure(2 * m), expected_closure(2 * m);
  one->closure(closure);
  other->closure(expected_closure);
  // Sums of dozens of products of numbers of order one, times k.
  for (std::size_t k = 1; k <= all; ++k) {
    EXPECT_NEAR(rate[real(k)], theta_rate[2 * k], 1e-11) << k;
    EXPECT_NEAR(rate[imaginary(k)], theta_rate[2 * k + 1], 1e-11) << k;
  }
  for (std::size_t j = 0; j < 2 * m; ++j) EXPECT_NEAR(closure[j], expected_closure[j], 1e-12) << j;
  std::vector<double> reduced(2 * m), expected(2 * m);
  text->reduced_rhs(z.data(), reduced.data());
  built_in->reduced_rhs(z.data(), expected.data());
  for (std::size_t j = 0; j < 2 * m; ++j) EXPECT_NEAR(reduced[j], expected[j], 1e-13) << j;
  const auto linear = linear_part_of(*text), expected_linear = linear_part_of(*built_in);
  ASSERT_EQ(linear.size(), expected_linear.size());
  for (std::size_t k = 0; k < linear.size(); ++k) EXPECT_NEAR(linear[k], expected_linear[k], 1e-15) << k;
}

TEST(Equations, KnowTheirLinearTerms) {
  const auto linear = [](const std::string& equations, const std::string& more = "") {
    return linear_part_of(*test::make(
        "kind = 'equations'\nparameters = { nu = 0.3 }\nresolved = ['x', 'y']\n"
        "hidden = ['q']\nequations = '''\n" +
        equations + "\ndq = -q'''\ninitial = { x = 1, y = 1, q = 0 }\nreduced = { q = 0 }\n" + more));
  };
  using Matrix = std::vector<double>;
  EXPECT_EQ(linear("dx = -nu*x + 2*(y - x*y) + q\ndy = 7*x - y^2"), (Matrix{-0.3, 2, 7, 0}));
  EXPECT_EQ(linear("dx = x*y + q\ndy = x^2 + 3"), Matrix{});  // there are none
  // sqrt and 1/x have no derivative at 0; what stands beside them has.
  EXPECT_EQ(linear("dx = sqrt(x) - 2*y + q\ndy = 1/x - 5*y"), (Matrix{0, -2, 0, -5}));
  // The clock is left out, and its phase is that of time 0 elsewhere.
  EXPECT_EQ(linear("dx = -4*x + 3*t + q\ndy = -y"), (Matrix{-4, 0, 0, 0, -1, 0, 0, 0, 0}));
  EXPECT_EQ(linear("dx = -4*x + t*y + q\ndy = -y*cos(2*pi*t)", "period = 1"),
            (Matrix{-4, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Equations, HaveTheUsualMathematics) {
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("2 + 3*x^2 - -x/4 + q"), 2), 2 + 12 + 0.5);
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("2^3^2 - x + q"), 1), 511);  // powers from the right
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("-x^2 + q"), 3), -9);        // a sign binds less than a power
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("8/4/2 + q*x"), 3), 1);      // from the left
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("min(x, 2, 1.5) + max(x, 0) + q"), 7), 8.5);
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("where(x > 1 and not x >= 3, 10, 20) + q"), 2), 10);
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("where(x > 1 and not x >= 3, 10, 20) + q"), 3), 20);
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("pow(x, 1.5) + atan2(x, 2) + tanh(x) + q"), 1.3),
                   std::pow(1.3, 1.5) + std::atan2(1.3, 2) + std::tanh(1.3));
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("sum(i = 1..4, i*x) + pi + 0*q"), 2), 20 + std::acos(-1.0));
}

TEST(Equations, OfALatticeOfAnyLengthAreRoundedAsWritten) {
  // Around 8 and 64, where the evaluation goes another way; every operation rounds once, in the text's order.
  for (const std::size_t n : {3U, 5U, 8U, 11U, 16U, 63U, 64U, 65U, 70U}) {
    const auto system =
        test::make("kind = 'equations'\nparameters = { N = " + std::to_string(n) +
                   ", F = 10 }\nresolved = ['X[k], k = 1..N, cyclic', 'a']\nhidden = ['q']\n"
                   "equations = '''\n"
                   "r[k] = (X[k] + 2)/(3 + a) - a*-X[k+1]\n"
                   "dX[k] = -X[k-1]*(X[k-2] - X[k+1]) - X[k] + F + r[k]*r[k-1] - a*X[k]/7 - q\n"
                   "da = -(X[1] - a)*X[2] - a/X[1] + 0.5*a*a - 1/(1 + a)\ndq = -q'''\n"
                   "initial = { X = 1, a = 0.3, q = 0 }\nreduced = { q = 0 }\n");
    std::vector<double> y(n + 1), rate(n + 1, 99);
    RandomStream random(1, Purpose::train_data, 0);
    for (double& value : y) value = random.normal();
    system->reduced_rhs(y.data(), rate.data());
    const double a = y[n];
    const auto x = [&](std::size_t k, int shift) {
      return y[(k + n + static_cast<std::size_t>(shift + static_cast<int>(n))) % n];
    };
    const auto r = [&](std::size_t k, int shift) {
      return (x(k, shift) + 2) / (3 + a) - a * -x(k, shift + 1);
    };
    for (std::size_t k = 0; k < n; ++k)
      EXPECT_EQ(rate[k],
                -x(k, -1) * (x(k, -2) - x(k, 1)) - x(k, 0) + 10 + r(k, 0) * r(k, -1) - a * x(k, 0) / 7)
          << "X" << k + 1 << " of " << n;
    EXPECT_EQ(rate[n], -(y[0] - a) * y[1] - a / y[0] + 0.5 * a * a - 1 / (1 + a)) << n;

    const auto solver = system->make_solver(0.01);
    std::vector<double> state = y, full(n + 2);
    state.push_back(0.25);
    solver->full_rhs(state, full);
    for (std::size_t k = 0; k < n; ++k) EXPECT_EQ(full[k], rate[k] - 0.25) << "X" << k + 1 << " of " << n;
    EXPECT_EQ(full[n], rate[n]);
    EXPECT_EQ(full[n + 1], -0.25);
  }
}

TEST(Equations, HaveClosuresWithoutCancellation) {
  // The closure is a term of the rate, which is 1e16 times as large: a difference of rates would lose it.
  for (const char* rate : {"x - 3*q", "-x - 3*q", "-3*q + x", "-x + -3*q", "-(3*q + x)"}) {
    const auto system = with_rate(rate);
    const auto solver = system->make_solver(0.01);
    solver->start(std::vector<double>{1e17, 1});
    double closure = 0;
    solver->closure({&closure, 1});
    EXPECT_EQ(closure, -3) << rate;
  }
}

TEST(Equations, GoOnInTheNextLineInsideParenthesesAndAfterAnOperator) {
  EXPECT_DOUBLE_EQ(reduced_at(*with_rate("(x   # a comment\n + 1)*\n 2 + q"), 2), 6);
}

TEST(Equations, HaveGradientsThatAreTheirDerivatives) {
  const char* rates[] = {"exp(x) + q",
                         "log(x) + q",
                         "log10(x) + q",
                         "sqrt(x)*x + q",
                         "cbrt(x) + q",
                         "sin(x)*cos(x) + q",
                         "tan(x) + q",
                         "asin(x/3) + acos(x/3) + q",
                         "atan(x) - q",
                         "sinh(x)/cosh(x) + q",
                         "tanh(x)^3 + q",
                         "abs(x - 1) + q",
                         "x^2.5 + 2^x + x^x + q",
                         "atan2(x, 2) + atan2(3, x) + q",
                         "min(x, 1) + max(x^2, 1, x) + q",
                         "where(x < 1, x^2, 2*x - 1) + q",
                         "floor(x)*x + sign(x - 1)*x + q",
                         "1/(1 + x^2) - x/(x + 1) + q"};
  for (const char* rate : rates) {
    const auto system = with_rate(rate);
    EXPECT_TRUE(rc::check(rate, [&] {
      const double x = 0.1 + 2.5 * static_cast<double>(*rc::gen::inRange(0, 1'000'000)) / 1e6;
      // Kinks: differences across them are no derivative.
      if (std::abs(x - 1) < 1e-3 || std::abs(x - std::round(x)) < 1e-3) return;
      if (std::abs(x - M_PI / 2) < 0.05)
        return;  // tan has a pole there, and large third derivatives around it
      constexpr double h = 1e-6;
      const double difference = (reduced_at(*system, x + h) - reduced_at(*system, x - h)) / (2 * h);
      const double adjoint = 1.5;
      double gradient = 0.25;
      system->reduced_rhs_vjp(&x, &adjoint, &gradient);
      // Central differences: h^2 f'''/6 and rounding/h.
      RC_ASSERT(std::abs(gradient - 0.25 - 1.5 * difference) < 1e-6 * (1 + std::abs(difference)));
    }));
  }
}

/// A lattice with every kind of reference: shifts, edges, quantities on the lattice, sums that depend on it.
constexpr const char* lattice = R"(
kind = 'equations'
parameters = { N = 7, a = 0.4 }
resolved = ['u[i], i = 0..N-1, cyclic', 'v[j], j = 1..5, EDGE', 's']
hidden = ['w[i], i = 0..N-1, cyclic']
equations = '''
flux[i] = u[i]*u[i+1]/2 + a*s
du[i] = flux[i] - flux[i-1] + sum(j, v[j]*u[i+j]) + where(i == 3, tanh(u[i-3]), sin(2*pi*i/N)) + w[i]
dv[j] = v[j-1]*v[j+1] - v[j]^2 + sum(m = 1..j, u[m]*v[m])*s
dv[3] = v[2] - s
ds = sum(i, u[i]^2*w[i+1]) - s
dw[i] = u[i]*w[i-2] - w[i]
'''
initial = { u = 'normal(0, 1)', v = 'uniform(0, 1)', s = 0.5, w = 'u[i]/2' }
reduced = { w = 'a*u[i]*u[i-1] + s' }
)";

std::string with_edge(const std::string& edge) {
  std::string text = lattice;
  return text.replace(text.find("EDGE"), 4, edge);
}

TEST(Equations, OnALatticeHaveExactGradients) {
  for (const char* edge : {"cyclic", "zero", "mirror"}) {
    const auto system = test::make(with_edge(edge));
    const std::size_t d = system->resolved_size();
    ASSERT_EQ(d, 13u);
    const auto z = test::sample(*system, *system->initial_condition(nullptr), 1);
    std::vector<double> y(z.begin(), z.begin() + 13), adjoint(d), gradient(d), above(d), below(d);
    for (std::size_t k = 0; k < d; ++k) adjoint[k] = std::sin(1.0 + static_cast<double>(k));
    system->reduced_rhs_vjp(y.data(), adjoint.data(), gradient.data());
    for (std::size_t k = 0; k < d; ++k) {
      constexpr double h = 1e-5;
      const double at = y[k];
      y[k] = at + h;
      system->reduced_rhs(y.data(), above.data());
      y[k] = at - h;
      system->reduced_rhs(y.data(), below.data());
      y[k] = at;
      double difference = 0;
      for (std::size_t i = 0; i < d; ++i) difference += adjoint[i] * (above[i] - below[i]) / (2 * h);
      EXPECT_NEAR(gradient[k], difference, 1e-8 * (1 + std::abs(difference))) << edge << " " << k;
    }
  }
}

TEST(Equations, OnALatticeAreWhatLoopsGive) {
  for (const std::string edge : {"cyclic", "zero", "mirror"}) {
    const auto system = test::make(with_edge(edge));
    const auto z = test::sample(*system, *system->initial_condition(nullptr), 2);
    const auto solver = system->make_solver(0.1);
    std::vector<double> rate(system->full_size());
    solver->full_rhs(z, rate);
    const double *u = z.data(), *v = u + 7, s = z[12], *w = z.data() + 13;
    const auto U = [&](int i) { return u[(i + 70) % 7]; };
    const auto W = [&](int i) { return w[(i + 70) % 7]; };
    const auto V = [&](int j) {
      if (j >= 1 && j <= 5) return v[j - 1];
      return edge == "zero" ? 0.0 : edge == "cyclic" ? v[j == 0 ? 4 : 0] : v[j == 0 ? 0 : 4];
    };
    const auto flux = [&](int i) { return U(i) * U(i + 1) / 2 + 0.4 * s; };
    for (int i = 0; i < 7; ++i) {
      double expected = flux(i) - flux(i - 1) + W(i);
      for (int j = 1; j <= 5; ++j) expected += V(j) * U(i + j);
      expected += i == 3 ? std::tanh(U(0)) : std::sin(2 * std::acos(-1.0) * i / 7);
      EXPECT_NEAR(rate[static_cast<std::size_t>(i)], expected, 1e-13) << edge << " u" << i;
      EXPECT_NEAR(rate[static_cast<std::size_t>(13 + i)], U(i) * W(i - 2) - W(i), 1e-14);
    }
    for (int j = 1; j <= 5; ++j) {
      double sum = 0;
      for (int m = 1; m <= j; ++m) sum += U(m) * V(m);
      const double expected = j == 3 ? V(2) - s : V(j - 1) * V(j + 1) - V(j) * V(j) + sum * s;
      EXPECT_NEAR(rate[static_cast<std::size_t>(6 + j)], expected, 1e-13) << edge << " v" << j;
    }
  }
}

TEST(Equations, CloseTheResolvedEquationsThatMentionHiddenVariables) {
  const auto system = test::make(with_edge("zero"));
  EXPECT_EQ(system->closure_size(), 8u);  // all of u, and s
  EXPECT_EQ(system->closure_names().back(), "C_s");
  const auto z = test::sample(*system, *system->initial_condition(nullptr), 2);
  const auto solver = system->make_solver(0.1);
  solver->start(z);
  std::vector<double> closure(8), rate(system->full_size()), reduced(13);
  solver->closure(closure);
  solver->full_rhs(z, rate);
  system->reduced_rhs(z.data(), reduced.data());
  for (std::size_t j = 0; j < 8; ++j) {
    const std::size_t at = system->closure_targets()[j];
    EXPECT_NEAR(closure[j], rate[at] - reduced[at], 1e-13);
  }
}

TEST(Equations, FreezeHiddenVariablesAtTheirMeanUnlessToldOtherwise) {
  // q follows x^2 and oscillates around it; x is an oscillator of amplitude 1, so the mean of q is 1/2.
  const auto system = test::make(
      "kind = 'equations'\nresolved = ['x', 'v']\nhidden = ['q']\n"
      "equations = '''\ndx = v\ndv = -x + 0*q\ndq = x^2 - q'''\ninitial = { x = 1, v = 0, q = 0 }");
  const auto means = system->constants().at("mean");
  ASSERT_EQ(means.size(), 1u);
  EXPECT_NEAR(means[0], 0.5, 0.02);
  EXPECT_EQ(system->constants().at("mean"), means);
}

TEST(Equations, TakeTheMeansThatAFileKeeps) {
  const std::string text =
      "kind = 'equations'\nresolved = ['x']\nhidden = ['q']\nequations = '''\ndx = q - x\ndq = x - q'''\n"
      "initial = { x = 1, q = 0 }";
  SystemDescription description;
  description.constants["mean"] = {7.25};
  const auto system = make_system(ConfigTable::parse(text, "test.toml"), description);
  EXPECT_EQ(reduced_at(*system, 1), 6.25);
}

TEST(Equations, SeeTheTimeAsAVariable) {
  const auto system = with_rate("cos(3*t) - x + q");
  EXPECT_EQ(system->resolved_names(), (std::vector<std::string>{"x", "t"}));
  EXPECT_EQ(system->closure_size(), 1u);
  const auto z = test::advance(*system, {0, 0, 0}, 0.01, 100);
  EXPECT_NEAR(z[1], 1, 1e-12);
  // x' = cos 3t - x from 0: (cos 3t + 3 sin 3t - e^-t)/10
  EXPECT_NEAR(z[0], (std::cos(3.0) + 3 * std::sin(3.0) - std::exp(-1.0)) / 10, 1e-8);
}

TEST(Equations, SeeThePhaseOfAPeriod) {
  const auto system = with_rate("cos(2*pi*t) - x + q", "period = 1");
  EXPECT_EQ(system->resolved_names(), (std::vector<std::string>{"x", "t_cos", "t_sin"}));
  const double w = 2 * std::acos(-1.0), t = 1.75;
  const auto z = test::advance(*system, {0, 1, 0, 0}, 0.0025, 700);
  // As before, with 2 pi for 3.
  const double exact = (std::cos(w * t) + w * std::sin(w * t) - std::exp(-t)) / (1 + w * w);
  EXPECT_NEAR(z[0], exact, 1e-7);
}

TEST(Equations, BeginWhereTheExperimentSays) {
  const auto system = test::make(with_edge("zero"));
  const auto z = test::sample(*system, *system->initial_condition(nullptr), 0);
  EXPECT_EQ(z[12], 0.5);
  EXPECT_EQ(z[13], z[0] / 2);
  const auto other = test::sample(*system, *test::initial(*system, "s = 3\nv = [1, 2, 3, 4, 5]"), 0);
  EXPECT_EQ(other[12], 3);
  EXPECT_EQ(other[9], 3);
  EXPECT_EQ(other[0], z[0]);
  const auto listed = test::initial(*system,
                                    "states = [[1,2,3,4,5,6,7, 8,9,10,11,12, 13], "
                                    "[1,1,1,1,1,1,1, 1,1,1,1,1, 1]]\nlabels = ['ramp', 'flat']");
  EXPECT_EQ(listed->count(), 2u);
  EXPECT_EQ(listed->label(0), "ramp");
  EXPECT_EQ(test::sample(*system, *listed, 0)[12], 13);
  EXPECT_THROW(test::initial(*system, "states = [[1, 2]]"), UsageError);
  EXPECT_THROW(test::initial(*system, "y = 1"), UsageError);
  EXPECT_THROW(test::initial(*system, "s = 'uniform(2, 1)'"), UsageError);
}

TEST(Equations, OfTheDoublePendulumConserveItsEnergyWithoutFriction) {
  const auto table = ConfigTable::read(std::string(MAC_EXPERIMENTS) + "/equations/double_pendulum.toml");
  std::string text = table.text();
  text.replace(text.find("c = 0.05"), 8, "c = 0");
  const auto system = make_system(ConfigTable::parse(text, "pendulum").table("system"));
  const auto energy = [&](const std::vector<double>& z) { return system->diagnostics(z).front().value; };
  const std::vector<double> start{1.2, 0.3, -0.7, 0.5};
  EXPECT_NEAR(energy(test::advance(*system, start, 0.001, 5000)), energy(start), 1e-9);
}

TEST(Equations, AreGeneratedAndReadBackFromTheFileAlone) {
  const test::ScratchFolder folder;
  const Experiment experiment = Experiment::parse(
      "[data]\ndt = 0.01\n[data.test]\ntrajectories = 2\nhorizon = 0.1\n[system]\n" + with_edge("zero"),
      "text.toml");
  generate(experiment, folder.file("data.h5"), {1, true});
  const DataFile data = DataFile::open(folder.file("data.h5"));
  EXPECT_TRUE(data.experiment().system->is_known());
  EXPECT_EQ(data.split("test").closure_size(), 8u);
  std::vector<double> y(13), rate(13), expected(13);
  data.split("test").read_resolved(1, 3, 1, y.data());
  data.experiment().system->reduced_rhs(y.data(), rate.data());
  experiment.system->reduced_rhs(y.data(), expected.data());
  EXPECT_EQ(rate, expected);
}

}  // namespace
}  // namespace mac
