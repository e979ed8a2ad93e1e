// Files of a system that this process knows and the program `mac` does not: what needs no equations works on
// them, what does says so.
#include <gtest/gtest.h>

#include <mac/error.hpp>
#include <mac/own_system.hpp>

#include "report/tiny_run.hpp"
#include "support/program.hpp"
#include "training/normalise.hpp"

namespace mac {
namespace {

/// A ring whose closure is a hidden ring.
struct Ring {
  static constexpr std::size_t n = 4;
  double a;
  explicit Ring(const ConfigTable& table) : a(table.number_or("a", 1)) {
    if (const auto deep = table.table_if("deep")) deep->number("down");
  }
  std::vector<std::string> resolved_names() const { return {"p", "q", "r", "s"}; }
  std::vector<std::size_t> closure_targets() const { return {2, 0, 1, 3}; }
  std::size_t full_size() const { return 2 * n; }
  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    for (std::size_t k = 0; k < n; ++k) dydt[k] = a * y[(k + 1) % n] - y[k];
  }
  void full_rhs(const double* z, double* rate) const {
    reduced_rhs(z, rate);
    for (std::size_t k = 0; k < n; ++k) {
      rate[k] += z[n + k];
      rate[n + k] = z[k] - 2 * z[n + k];
    }
  }
  void sample(RandomStream& random, std::span<double> z) const {
    for (double& value : z) value = random.normal();
  }
};

constexpr const char* ring_study = R"([system]
name = "private_ring"
a = 0.5
deep = { down = 3 }
[data]
dt = 0.01
stride = 2
[data.train]
trajectories = 2
horizon = 0.4
[data.test]
trajectories = 3
horizon = 0.4
[[models]]
name = "mac"
kind = "mamba"
d_model = 4
blocks = 1
d_state = 2
[training]
recipe = "fast"
loss = "rollout"
rollout_steps = 3
)";

class UnknownSystem : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_system<Ring>("private_ring");
    folder = new test::ScratchFolder;
    test::make_run(folder->path() / "run", ring_study);
  }
  static void TearDownTestSuite() { delete folder; }
  static std::string file(const std::string& name) { return folder->file("run/" + name); }
  static inline test::ScratchFolder* folder = nullptr;
};

TEST_F(UnknownSystem, IsEvaluatedByItsFiles) {
  const auto result = test::run_program("evaluate " + file("rollouts/mac-seed0.h5") + " " +
                                        file("rollouts/markov.h5") + " --json " + file("metrics.json"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("markov"), std::string::npos);
  EXPECT_NE(result.output.find("C_r"), std::string::npos) << result.output;
  const auto again = test::run_program("evaluate " + file("metrics.json"));
  EXPECT_EQ(again.exit_code, 0) << again.output;
}

TEST_F(UnknownSystem, IsReportedFromItsFolder) {
  const auto result = test::run_program("report " + file("") + " -o " + folder->file("report.html"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(UnknownSystem, IsDescribedByInfo) {
  for (const char* name : {"data.h5", "models/mac-seed0.safetensors", "rollouts/exact.h5"}) {
    const auto result = test::run_program("info " + file(name));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("private_ring"), std::string::npos);
  }
}

TEST_F(UnknownSystem, HasItsClosurePredictedAndItsMemoryDiagnosed) {
  const std::string model = file("models/mac-seed0.safetensors"), data = file("data.h5");
  const auto predicted =
      test::run_program("predict " + model + " --input " + data + " -o " + folder->file("p.h5"));
  EXPECT_EQ(predicted.exit_code, 0) << predicted.output;
  const auto diagnosed =
      test::run_program("diagnose memory " + model + " --data " + data + " --split test --json -");
  EXPECT_EQ(diagnosed.exit_code, 0) << diagnosed.output;
}

TEST_F(UnknownSystem, IsNotRolledOutOrGenerated) {
  const auto rolled =
      test::run_program("rollout markov --data " + file("data.h5") + " -o " + folder->file("rollout.h5"));
  EXPECT_EQ(rolled.exit_code, 2);
  EXPECT_NE(rolled.output.find("the equations of the system \"private_ring\" are not known"),
            std::string::npos)
      << rolled.output;
  const auto generated =
      test::run_program("generate " + file("experiment.toml") + " -o " + folder->file("other.h5"));
  EXPECT_EQ(generated.exit_code, 2);
  EXPECT_NE(generated.output.find("is \"private_ring\", expected one of"), std::string::npos);
}

/// Declares a symmetry of modes that it does not have.
class WithoutModes final : public System {
 public:
  std::string_view name() const override { return "without_modes"; }
  const std::vector<std::string>& resolved_names() const override { return names_; }
  const std::vector<std::string>& closure_names() const override { return names_; }
  std::span<const std::size_t> closure_targets() const override { return targets_; }
  std::vector<Symmetry> symmetries() const override { return {{Symmetry::Kind::fourier_translation}}; }
  void reduced_rhs(const double*, double*) const override {}
  void reduced_rhs_vjp(const double*, const double*, double*) const override {}
  std::size_t full_size() const override { return 1; }
  std::unique_ptr<FullSolver> make_solver(double) const override { return nullptr; }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable*) const override { return nullptr; }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  std::vector<std::string> names_{"u"};
  std::vector<std::size_t> targets_{0};
};

TEST(Symmetries, OfModesThatAreNotThereAreRefused) {
  EXPECT_THROW(symmetry_groups(WithoutModes(), 1), UsageError);
  register_system("without_modes", [](const ConfigTable&) { return std::make_unique<WithoutModes>(); });
  EXPECT_THROW(make_system(ConfigTable::parse("name = 'without_modes'", "test")), UsageError);
}

}  // namespace
}  // namespace mac
