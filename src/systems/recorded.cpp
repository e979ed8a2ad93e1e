// Trajectories that came from elsewhere, another simulation or a measurement: the variables have names, the
// equations stay with whoever has them. Enough to train a closure network; it is coupled where the equations
// are.
#include <algorithm>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/system.hpp>

namespace mac {

namespace {

[[noreturn]] void no_equations() {
  throw UsageError(
      "recorded data come without equations: they can be trained on, not simulated or rolled out here");
}

class NoStart final : public InitialCondition {
 public:
  void sample(std::size_t, RandomStream&, std::span<double>) const override { no_equations(); }
};

class Recorded final : public System {
 public:
  explicit Recorded(const ConfigTable& table) : resolved_names_(table.strings("resolved")) {
    if (resolved_names_.empty()) table.fail("resolved", "needs the name of a variable");
    for (const std::string& name : resolved_names_) {
      if (name.empty()) table.fail("resolved", "has a variable without a name");
      if (std::ranges::count(resolved_names_, name) > 1)
        table.fail("resolved", fmt::format("has two variables called \"{}\"", name));
    }
    const auto targets = table.strings_or("targets", resolved_names_);
    if (targets.empty()) table.fail("targets", "needs the name of a variable whose equation has a closure");
    for (const std::string& target : targets) {
      const auto found = std::ranges::find(resolved_names_, target);
      if (found == resolved_names_.end())
        table.fail("targets", fmt::format("\"{}\" is no resolved variable", target));
      closure_targets_.push_back(static_cast<std::size_t>(found - resolved_names_.begin()));
      closure_names_.push_back("C_" + target);
    }
  }

  std::string_view name() const override { return "recorded"; }
  bool has_equations() const override { return false; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }

  void reduced_rhs(const double*, double*) const override { no_equations(); }
  void reduced_rhs_vjp(const double*, const double*, double*) const override { no_equations(); }
  std::size_t full_size() const override { return resolved_size(); }
  std::unique_ptr<FullSolver> make_solver(double) const override { no_equations(); }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->fail("", "recorded data have no initial condition to choose");
    return std::make_unique<NoStart>();
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
};

}  // namespace

std::unique_ptr<System> make_recorded(const ConfigTable& table) { return std::make_unique<Recorded>(table); }

}  // namespace mac
