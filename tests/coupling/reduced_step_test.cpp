// The coupled step in substeps and by ETDRK4: what it computes, its gradient, and which step is chosen.
#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/linear_part.hpp>
#include <mac/rollout.hpp>
#include <mac/step_stability.hpp>

#include "coupling/coupled_columns.hpp"
#include "integrators/matrix_phi.hpp"
#include "support/files.hpp"
#include "systems/make.hpp"

namespace mac::test {
namespace {

TEST(PhiFunctions, OfADiagonalMatrixAreThoseOfItsNumbers) {
  const std::vector<double> numbers{-300, -7, -0.3, -1e-9, 0, 0.4, 2};
  Eigen::MatrixXd z = Eigen::MatrixXd::Zero(7, 7);
  for (int i = 0; i < 7; ++i) z(i, i) = numbers[static_cast<std::size_t>(i)];
  const auto phi = phi_functions(z);
  for (int i = 0; i < 7; ++i) {
    const long double x = z(i, i);
    long double expected = std::exp(x), factorial = 1;
    for (int k = 0; k < 4; ++k) {
      if (std::abs(x) < 0.1L) {  // the series, where the quotient cancels
        long double term = 1 / factorial;
        expected = 0;
        for (int j = 0; j < 12; ++j) expected += term, term *= x / (k + j + 1);
      }
      // Doubled ten times for the number -300: 2^10 roundings.
      EXPECT_NEAR(phi[static_cast<std::size_t>(k)](i, i), static_cast<double>(expected),
                  1e-13 * (1 + std::abs(static_cast<double>(expected))))
          << "phi_" << k << " of " << z(i, i);
      expected = (expected - 1 / factorial) / x;
      factorial *= k + 1;
    }
  }
}

TEST(PhiFunctions, OfARotationAreComplexNumbers) {
  Eigen::MatrixXd z(2, 2);
  z << -0.5, -30, 30, -0.5;  // a - b i as a matrix
  const std::complex<double> x(-0.5, 30);
  const auto phi = phi_functions(z);
  const std::complex<double> first = (std::exp(x) - 1.0) / x, second = (first - 1.0) / x;
  EXPECT_NEAR(phi[0](0, 0), std::exp(x).real(), 1e-13);  // doubled seven times: 2^7 roundings
  EXPECT_NEAR(phi[1](1, 0), first.imag(), 1e-14);
  EXPECT_NEAR(phi[2](0, 0), second.real(), 1e-14);
}

std::vector<double> normal(std::size_t n, double size, std::uint32_t seed) {
  RandomStream random(seed, Purpose::noise, 0);
  std::vector<double> values(n);
  for (double& value : values) value = size * random.normal();
  return values;
}

struct Case {
  std::string system;
  ReducedStep dt;
  HeldClosure held;
  bool first;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> cases;
    for (const std::string system : {"name = 'ks'\nmodes = 8\ngrid = 64", "name = 'kdv'\ngrid = 32"})
      for (const ReducedStep dt :
           {ReducedStep{0.02, 3}, {0.1, 1, StepMethod::etdrk4}, {0.2, 3, StepMethod::etdrk4}})
        for (const HeldClosure held :
             {HeldClosure{Hold::zero}, HeldClosure{Hold::linear}, HeldClosure{Hold::linear, Target::mean}})
          cases.push_back({system, dt, held, cases.size() % 4 == 3});
    cases.push_back({"name = 'lorenz96'", {0.05, 4}, {Hold::linear}, false});
    return cases;
  }();
  return all;
}

TEST(ReducedStep, HasTheAdjointOfItsDerivative) {
  for (const Case& of : cases()) {
    const auto system = make(of.system);
    const std::size_t d = system->resolved_size(), c = system->closure_size(), count = 2;
    CoupledColumns columns(*system, of.dt, of.held, count);
    std::vector<double> y = normal(count * d, 0.5, 1), closure = normal(count * c, 0.5, 2),
                        previous = normal(count * c, 0.5, 3);
    const std::vector<double> weights = normal(count * d, 1, 4);
    const auto value = [&] {
      std::vector<double> next = y;
      columns.step(closure.data(), of.first ? nullptr : previous.data(), next.data());
      double sum = 0;
      for (std::size_t i = 0; i < next.size(); ++i) sum += weights[i] * next[i];
      return sum;
    };
    std::vector<double> d_y(y.size()), d_closure(closure.size()), d_previous(previous.size());
    columns.adjoint(closure.data(), of.first ? nullptr : previous.data(), y.data(), weights.data(),
                    d_y.data(), d_closure.data(), of.first ? nullptr : d_previous.data());
    const auto check = [&](std::vector<double>& inputs, const std::vector<double>& gradient) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double here = inputs[i], h = 1e-3;
        const auto at = [&](double offset) {
          inputs[i] = here + offset;
          const double result = value();
          inputs[i] = here;
          return result;
        };
        const double quotient = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
        // h^4 times fifth derivatives, and rounding 1e-16/h.
        EXPECT_NEAR(gradient[i], quotient, 1e-10) << of.system << " " << of.dt.substeps << " input " << i;
      }
    };
    check(y, d_y);
    check(closure, d_closure);
    if (!of.first) check(previous, d_previous);
  }
}

TEST(ReducedStep, HoldsTheClosureOverTheWholeStepWhateverTheSubsteps) {
  // Without equations of its own y is the integral of the closure's line, which every method takes exactly:
  // closure + (1/2 - pivot) (closure - previous) times dt.
  const auto system = make("name = 'recorded'\nresolved = ['x']\nequations = 'zero'");
  const double closure = 2, previous = 1.5, dt = 0.3;
  for (const std::size_t substeps : {1, 2, 5})
    for (const auto& [held, expected] :
         {std::pair{HeldClosure{Hold::zero}, 2.0}, std::pair{HeldClosure{Hold::linear}, 2.25},
          std::pair{HeldClosure{Hold::linear, Target::mean}, 2.0}}) {
      double y = 1;
      CoupledColumns(*system, {dt, substeps}, held, 1).step(&closure, &previous, &y);
      EXPECT_NEAR(y, 1 + dt * expected, 1e-15) << substeps;
      double by_stages = 1;
      CoupledColumns(*system, {dt, substeps}, {Hold::stage}, 1)
          .step_by_stages(
              [&](double fraction, const double*) {
                static double at;
                at = 3 * fraction * fraction;
                return &at;
              },
              &by_stages);
      EXPECT_NEAR(by_stages, 1 + dt, 1e-15) << "the integral of 3 f^2";
    }
}

/// The state after a time of one with steps of this kind, without a closure.
std::vector<double> after(const System& system, ReducedStep dt, std::vector<double> y) {
  const std::vector<double> none(system.closure_size());
  CoupledColumns columns(system, dt, {}, 1);
  for (int n = 0; n < static_cast<int>(std::lround(1 / dt.dt)); ++n)
    columns.step(none.data(), nullptr, y.data());
  return y;
}

/// Cells that react and exchange, as text: differences decay at up to 4 D.
std::string cells(int n, int exchange) {
  return "kind = 'equations'\nname = 'cells'\nparameters = { N = " + std::to_string(n) +
         ", D = " + std::to_string(exchange) +
         " }\n"
         "resolved = ['u[i], i = 1..N, cyclic']\nhidden = ['w[i], i = 1..N, cyclic']\nreduced = { w = 0 }\n"
         "equations = \"\"\"\ndu[i] = D*(u[i-1] - 2*u[i] + u[i+1]) + u[i] - u[i]^3 + sin(2*pi*i/N)*u[i]^2 - "
         "w[i]\n"
         "dw[i] = u[i] - w[i]\n\"\"\"\ninitial = { u = 'normal(0, 0.1)', w = 0 }";
}
const std::string stiff_cells = cells(32, 150);

TEST(ReducedStep, OfEtdrk4ConvergesAtFourthOrderAndTakesStiffModesExactly) {
  // 16 modes on 22: the fastest decays at (16 q)^4 = 436, 22 times as fast as RK4 takes with steps of 0.125.
  // Both begin smoothly: where the fastest modes are large at first, any method is late to come to its order.
  for (const std::string& table : {std::string("name = 'ks'\nmodes = 16\ngrid = 128"), stiff_cells}) {
    const auto system = make(table);
    std::vector<double> y = normal(32, 1, 7);
    for (std::size_t k = 0; k < 32; ++k)
      y[k] = table == stiff_cells ? 1 + 0.2 * std::sin(M_PI / 16 * static_cast<double>(k + 1))
                                  : y[k] * std::exp(-0.6 * static_cast<double>(k % 16));
    const auto exact = after(*system, {0.125, 100}, y);
    const auto error = [&](std::size_t substeps) {
      return distance(after(*system, {0.125, substeps, StepMethod::etdrk4}, y), exact);
    };
    const double size = distance(exact, std::vector<double>(32));
    EXPECT_LT(error(1), 1e-2 * size) << table;
    EXPECT_GT(std::log2(error(4) / error(8)), 3) << table;  // stiff modes come to the order of 4 late
    EXPECT_LT(error(50), 1e-6 * size) << table;             // both methods' errors
    EXPECT_FALSE(distance(after(*system, {0.125, 1}, y), exact) < 1e3) << "blows up, to NaN in the end";
  }
}

std::string study(const std::string& system, const std::string& step, const std::string& rollout = "") {
  return "[system]\n" + system + "\n[data]\n" + step +
         "\n[data.train]\ntrajectories = 2\nhorizon = 2\n[data.test]\ntrajectories = 2\nhorizon = 2\n" +
         rollout;
}

class ChosenStep : public ::testing::Test {
 protected:
  DataFile data(const std::string& text) {
    generate(Experiment::parse(text, "study.toml"), folder_.file("data.h5"), {1, true});
    return DataFile::open(folder_.file("data.h5"));
  }
  static ReducedStep chosen(const DataFile& data) {
    return choose_step(*data.experiment().system, data.experiment().rollout, data);
  }
  test::ScratchFolder folder_;
};

const std::string stiff_ks = "name = 'ks'\nmodes = 16\ngrid = 72\nwarmup_steps = 500";
const std::string ks_step = "dt = 0.05\nstride = 5";
/// y rests at 1, where it would come back at this rate, which no linear term says. The reduced model is without x.
std::string decay(const std::string& rate, const std::string& more = "") {
  return "kind = 'equations'\nname = 'decay'\nparameters = { a = " + rate +
         " }\nresolved = ['y']\nhidden = ['x']\nreduced = { x = 0 }\n"
         "equations = \"\"\"\ndy = a/2*(x - y*abs(y))" +
         more + "\ndx = 0*x\n\"\"\"\ninitial = { y = 1, x = 1 }";
}

TEST_F(ChosenStep, IsOneOfRk4WhereThatIsStable) {
  EXPECT_TRUE(chosen(data(study("name = 'ks'\nmodes = 3\ngrid = 64", ks_step))).is_one_rk4_step());
}

TEST_F(ChosenStep, IsEtdrk4WhereALinearPartIsDeclaredAndRollsOut) {
  const DataFile file = data(study(stiff_ks, ks_step));
  const ReducedStep step = chosen(file);
  EXPECT_EQ(step.method, StepMethod::etdrk4);
  EXPECT_EQ(step.substeps, 1u);
  const auto warning = stability_warning(*file.experiment().system, {}, file);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("it is taken in 1 step of ETDRK4"), std::string::npos) << *warning;
  RolloutOptions options;
  options.threads = 1, options.quiet = true;
  const RolloutSplit run = rollout_in_memory(*make_markov(), file, options).splits.at(0);
  // 16 modes resolve the attractor: without a closure what is left is the integrator's error.
  double error = 0, size = 0;
  for (std::size_t i = 0; i < run.resolved.size(); ++i) {
    error += std::pow(run.resolved[i] - run.true_resolved[i], 2);
    size += std::pow(run.true_resolved[i], 2);
  }
  EXPECT_LT(std::sqrt(error / size), 1e-3);
}

TEST_F(ChosenStep, IsSeveralOfRk4Elsewhere) {
  // a dt = 10, of which RK4 takes 2.78: five with the margin of 0.8.
  const ReducedStep step = chosen(data(study(decay("20"), "dt = 0.01\nstride = 50")));
  EXPECT_EQ(step.method, StepMethod::rk4);
  EXPECT_EQ(step.substeps, 5u);
}

TEST_F(ChosenStep, IsOfRk4WhereTheLinearTermsHideSomeOfTheStiffness) {
  // The slope is -25, of which +5 is the linear term: what is left is stiffer, and ETDRK4 would need more steps.
  const ReducedStep step = chosen(data(study(decay("20", " + 5*(y - y*abs(y))"), "dt = 0.01\nstride = 50")));
  EXPECT_EQ(step.method, StepMethod::rk4);
  EXPECT_EQ(step.substeps, 6u);
}

TEST_F(ChosenStep, IsOfRk4WhereFewOfThemAreCheaperThanDenseMatrices) {
  // 4 D times the closure step of 0.1, less what grows: RK4 needs three steps, or nine, and one of ETDRK4 with 128
  // variables costs as much as three.
  EXPECT_EQ(chosen(data(study(cells(128, 15), "dt = 0.01\nstride = 10"))).method, StepMethod::rk4);
  EXPECT_EQ(chosen(data(study(cells(128, 50), "dt = 0.01\nstride = 10"))).method, StepMethod::etdrk4);
  // In steps that are given it is what is stable.
  const DataFile file = data(study(cells(128, 15), "dt = 0.01\nstride = 10"));
  EXPECT_EQ(choose_step(*file.experiment().system, {2, "auto"}, file).method, StepMethod::etdrk4);
  EXPECT_EQ(choose_step(*file.experiment().system, {3, "auto"}, file).method, StepMethod::rk4);
}

TEST_F(ChosenStep, OfATextIsEtdrk4WhereItsLinearTermsAreStiff) {
  // 20 from the linear term: RK4 would need five.
  const ReducedStep step = chosen(data(study(decay("1e-3", " + 20*(x - y)"), "dt = 0.01\nstride = 50")));
  EXPECT_EQ(step.method, StepMethod::etdrk4);
  EXPECT_EQ(step.substeps, 1u);
}

TEST_F(ChosenStep, IsWhatThePlanSays) {
  const DataFile file = data(study(stiff_ks, ks_step, "[rollout]\nsubsteps = 3\nintegrator = 'rk4'\n"));
  const ReducedStep step = chosen(file);
  EXPECT_EQ(step.substeps, 3u);
  EXPECT_EQ(step.method, StepMethod::rk4);
  const auto warning = stability_warning(*file.experiment().system, file.experiment().rollout, file);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("rollouts will blow up whatever the closure in the 3 steps of RK4"),
            std::string::npos)
      << *warning;
  EXPECT_EQ(choose_step(*file.experiment().system, {3, "auto"}, file).method, StepMethod::etdrk4);
  EXPECT_EQ(choose_step(*file.experiment().system, {0, "etdrk4"}, file).substeps, 1u);
}

TEST_F(ChosenStep, IsRefusedWithTheStepThatWouldBeNeeded) {
  // a = 1e5: 2.785 * 0.8 / 1e5 = 2.23e-5, more than 1000 in 0.5. The full solver's own step is stable.
  const DataFile file = data(study(decay("1e5"), "dt = 2e-5\nstride = 25000"));
  try {
    chosen(file);
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("too stiff for the closure step of 0.5: RK4 would need steps of 2.23e-05"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(ChosenStep, NeedsADeclaredLinearPartForEtdrk4) {
  try {
    Experiment::parse(study("name = 'lorenz96'", "dt = 0.01", "[rollout]\nintegrator = 'etdrk4'\n"),
                      "study.toml");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("rollout.integrator: lorenz96 declares no linear part"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(CoupledColumns(*make("name = 'lorenz96'"), {0.1, 1, StepMethod::etdrk4}, {}, 1), UsageError);
}

}  // namespace
}  // namespace mac::test
