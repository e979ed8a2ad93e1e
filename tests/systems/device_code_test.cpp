// The code that equations become for a device, compiled for this machine: its rates and their derivatives by dual numbers
// against the evaluator's. tests/cuda/written_kernel_test.cpp compiles it for a device.
#include "systems/equations/device_code.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mac/config.hpp>
#include <mac/random.hpp>

#include "support/files.hpp"
#include "systems/equations/build.hpp"
#include "systems/make.hpp"
#include "systems/reduced_equations.hpp"

namespace mac::test {
namespace {

const std::string& code_of(const System& system) {
  static const std::string none;
  const auto equations = system.reduced_equations();
  return equations ? *std::get<WrittenEquations>(equations->of).code : none;
}

/// The code behind plain functions: rates(y, rate), and derivatives(y, direction, image) with the Jacobian times a
/// direction.
class CompiledCode {
 public:
  explicit CompiledCode(const std::string& code) {
    write(folder_.file("code.cpp"), code + R"(
extern "C" void rates(const double* y, double* rate) { mac::written::rates(y, rate); }
extern "C" void derivatives(const double* y, const double* direction, double* image) {
  constexpr int n = mac::written::variables;
  mac::Dual<1> at[n], of[n];
  for (int i = 0; i < n; ++i) at[i] = y[i], at[i].partial[0] = direction[i];
  mac::written::rates(static_cast<const mac::Dual<1>*>(at), of);
  for (int i = 0; i < n; ++i) image[i] = of[i].partial[0];
}
)");
    // No contraction of a*b + c, which the evaluator does not do either.
    const std::string command = std::string(MAC_COMPILER) +
                                " -std=c++20 -O1 -ffp-contract=off -shared -fPIC -I" + MAC_SOURCE_FOLDER +
                                "/src -I" + MAC_SOURCE_FOLDER + "/include " + folder_.file("code.cpp") +
                                " -o " + folder_.file("code.so");
    if (std::system(command.c_str()) != 0) throw std::runtime_error("does not compile:\n" + code);
    library_ = dlopen(folder_.file("code.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw std::runtime_error(dlerror());
    rates = reinterpret_cast<decltype(rates)>(dlsym(library_, "rates"));
    derivatives = reinterpret_cast<decltype(derivatives)>(dlsym(library_, "derivatives"));
  }
  CompiledCode(const CompiledCode&) = delete;
  CompiledCode& operator=(const CompiledCode&) = delete;
  ~CompiledCode() { dlclose(library_); }

  void (*rates)(const double* y, double* rate) = nullptr;
  void (*derivatives)(const double* y, const double* direction, double* image) = nullptr;

 private:
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  ScratchFolder folder_;
  void* library_ = nullptr;
};

/// Sums may be taken in another order, and powers by another function.
constexpr double rounding = 1e-14;

void expect_same(const System& system, const CompiledCode& code, const std::vector<double>& y) {
  const std::size_t d = system.resolved_size();
  std::vector<double> expected(d), rate(d), adjoint(d), gradient(d), direction(d), image(d);
  system.reduced_rhs(y.data(), expected.data());
  code.rates(y.data(), rate.data());
  for (std::size_t v = 0; v < d; ++v)
    EXPECT_NEAR(rate[v], expected[v], rounding * (1 + std::abs(expected[v])));
  RandomStream random(3, Purpose::noise, 1);
  for (double& value : adjoint) value = random.normal();
  system.reduced_rhs_vjp(y.data(), adjoint.data(), gradient.data());
  for (std::size_t v = 0; v < d; ++v) {
    std::ranges::fill(direction, 0.0);
    direction[v] = 1;
    code.derivatives(y.data(), direction.data(), image.data());
    double along = 0, size = 1;
    for (std::size_t i = 0; i < d; ++i)
      along += image[i] * adjoint[i], size += std::abs(image[i] * adjoint[i]);
    EXPECT_NEAR(along, gradient[v], rounding * size) << "derivative along variable " << v;
  }
}

std::unique_ptr<System> of_experiment(const std::string& name) {
  return make_system(
      ConfigTable::read(std::string(MAC_EXPERIMENTS) + "/equations/" + name + ".toml").table("system"));
}

/// A ring of six whose rate of x has these terms; q is hidden, at a mean that is given.
std::unique_ptr<System> ring_with(const std::string& rate) {
  return make(
      "kind = 'equations'\nparameters = { omega = 2.5, a = 1.7 }\n"
      "resolved = ['x[k], k = 0..5, cyclic']\nhidden = ['q[k,j], k = 0..5, j = 0..2']\nequations = '''\n"
      "dx[k] = " +
      rate +
      " + sum(j, q[k,j])\ndq[k,j] = x[k] - q[k,j]'''\n"
      "initial = { x = 'uniform(-1, 1)', q = 0 }\nreduced = { q = 0.25 }\n");
}

TEST(DeviceCode, OfTheExperimentsIsTheirReducedModel) {
  for (const char* name : {"lorenz96", "fitzhugh_nagumo", "power_grid", "double_pendulum"}) {
    SCOPED_TRACE(name);
    const auto system = of_experiment(name);
    const CompiledCode code(code_of(*system));
    for (std::uint32_t state = 0; state < 5; ++state) {
      RandomStream random(1, Purpose::noise, state);
      std::vector<double> y(system->resolved_size());
      for (double& value : y) value = random.normal();
      expect_same(*system, code, y);
    }
  }
}

/// Every function of the language, where it is smooth, at its kinks and on either side of them.
const std::vector<std::string> terms{
    "exp(x[k]) - exp(-x[k+1])",
    "log(2 + x[k]^2) + log10(3 + x[k-1])",
    "sqrt(1 + x[k]^2) + cbrt(2 + x[k])",
    "sin(omega*t)*cos(x[k]) + tan(x[k]/2)",
    "asin(x[k]/3) + acos(x[k+1]/3) + atan(x[k])",
    "sinh(x[k]) + cosh(x[k+2]) - tanh(a*x[k])",
    "abs(x[k]) + abs(x[k] - x[k+1])",
    "sign(x[k])*x[k]^2 + floor(3*x[k])*x[k+1]",
    "min(x[k], x[k+1], 0.5) - max(x[k-1], -0.25)",
    "pow(2 + x[k], x[k+1]) + (2 + x[k])^1.5 + x[k]^5 - x[k]^(-2)",
    "atan2(x[k], 1 + x[k+1]^2)",
    "where(x[k] < x[k+1], x[k]^2, -x[k+2]) + where(x[k] >= 0, sqrt(abs(x[k])), 0)",
    "where(x[k] == x[k+3], 1, x[k]) + where(x[k] != 0.5, x[k+1], 3) + where(x[k] <= 0 , 2*x[k], x[k])",
    "sum(m = -1..1, x[k+m]^2) - sum(j, (j + 1)*x[k])",
    // more calls than are compiled in their places
    "sum(m = 1..4, sin(m*x[k]) + 2^(x[k+m]/m) + atan2(m, 2 + x[k]))",
    "-(-x[k]) - (x[k] - x[k]) + 2e-300*x[k]/1e-300 + 1e22",
};

TEST(DeviceCode, HasEveryFunctionOfTheLanguage) {
  for (const std::string& term : terms) {
    SCOPED_TRACE(term);
    const auto system = ring_with(term);
    const CompiledCode code(code_of(*system));
    for (std::vector<double> y : {std::vector<double>{0.3, -0.7, 1.1, 0.5, -0.2, 0.9},
                                  {-0.4, 0.5, 0.5, -0.9, 0.1, -1.3},
                                  {0.25, 0.25, -0.25, 0.25, 0.75, -0.5}}) {
      y.resize(system->resolved_size(), 0.4);  // time, where the term mentions it
      expect_same(*system, code, y);
    }
  }
}

TEST(DeviceCode, IsTestedWithEveryFunctionThatTheLanguageHas) {
  for (const equations::Function& function : equations::functions()) {
    const std::string call = std::string(function.name) + "(";
    EXPECT_TRUE(std::ranges::any_of(terms, [&](const std::string& term) {
      return term.find(call) != term.npos;
    })) << function.name;
  }
}

TEST(DeviceCode, IsNoneOfEquationsThatWouldBeTooLong) {
  const auto with_sites = [](int sites) {
    return make("kind = 'equations'\nparameters = { N = " + std::to_string(sites) +
                " }\nresolved = ['x']\nhidden = ['q[k], k = 1..N, cyclic']\nequations = '''\n"
                "dx = sum(k, sin(k*x)) + q[1]\ndq[k] = x - q[k]'''\ninitial = { x = 1, q = 0 }\n"
                "reduced = { q = 0 }\n");
  };
  EXPECT_TRUE(with_sites(900)->reduced_equations().has_value());
  EXPECT_FALSE(with_sites(1100)->reduced_equations().has_value());
}

}  // namespace
}  // namespace mac::test
