// Trajectories that came from elsewhere, another simulation or a measurement: the variables have names, the
// equations stay with whoever has them. Enough to train a closure network; it is coupled where the equations
// are. Where there are none at all, dy/dt = 0 + C, the closure is the whole tendency.
#include <algorithm>
#include <cmath>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/recorded.hpp>

#include "systems/read_lattices.hpp"

namespace mac {

namespace {

[[noreturn]] void no_equations() {
  throw UsageError(
      "recorded data come without equations: they can be trained on, not simulated or rolled out here");
}

[[noreturn]] void equations_elsewhere() {
  throw UsageError(
      "the right-hand side of these recorded data is a function in the program that recorded them: roll them "
      "out there, with mac.rollout");
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
    equations_ = table.choice_or("equations", equations_, {"none", "zero", "function"});
    if (const auto lattices = table.table_if("lattices"))
      lattices_ = read_lattices(*lattices, resolved_names_);
  }

  std::string_view name() const override { return "recorded"; }
  bool has_equations() const override { return equations_ != "none"; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }
  std::vector<Lattice> lattices() const override { return lattices_; }

  void reduced_rhs(const double*, double* dydt) const override {
    check_zero();
    std::fill_n(dydt, resolved_size(), 0.0);
  }
  void reduced_rhs_vjp(const double*, const double*, double*) const override { check_zero(); }
  std::size_t full_size() const override { return resolved_size(); }
  std::unique_ptr<FullSolver> make_solver(double) const override { no_equations(); }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->fail("", "recorded data have no initial condition to choose");
    return std::make_unique<NoStart>();
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  void check_zero() const {
    if (equations_ == "none") no_equations();
    if (equations_ == "function") equations_elsewhere();
  }

  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
  std::vector<Lattice> lattices_;
  std::string equations_ = "none";
};

/// Another system's variables with a right-hand side that is a function.
class WithFunction final : public System {
 public:
  WithFunction(std::shared_ptr<const System> recorded, ColumnsRhs rhs, ColumnsVjp vjp)
      : recorded_(std::move(recorded)), rhs_(std::move(rhs)), vjp_(std::move(vjp)) {}

  std::string_view name() const override { return recorded_->name(); }
  const std::vector<std::string>& resolved_names() const override { return recorded_->resolved_names(); }
  const std::vector<std::string>& closure_names() const override { return recorded_->closure_names(); }
  std::span<const std::size_t> closure_targets() const override { return recorded_->closure_targets(); }
  std::vector<Lattice> lattices() const override { return recorded_->lattices(); }

  void reduced_rhs(const double* y, double* dydt) const override { rhs_(1, y, dydt); }
  void reduced_rhs_columns(std::size_t count, const double* y, double* dydt) const override {
    rhs_(count, y, dydt);
  }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    reduced_rhs_vjp_columns(1, y, adjoint, grad_y);
  }
  /// As given, or by central differences, all variables of all states in one call: rows y + h e_v and y - h e_v.
  void reduced_rhs_vjp_columns(std::size_t count, const double* y, const double* adjoint,
                               double* grad_y) const override {
    if (vjp_) return vjp_(count, y, adjoint, grad_y);
    const std::size_t d = resolved_size(), half = count * d * d;
    std::vector<double> rows(2 * half), rates(2 * half);
    const auto step = [&](std::size_t k) { return difference_step * (1 + std::abs(y[k])); };
    for (std::size_t k = 0; k < count * d; ++k)  // state k / d, variable k % d
      for (const std::size_t side : {0, 1}) {
        double* const row = rows.data() + side * half + k * d;
        std::copy_n(y + k / d * d, d, row);
        row[k % d] += side == 0 ? step(k) : -step(k);
      }
    rhs_(2 * count * d, rows.data(), rates.data());
    for (std::size_t k = 0; k < count * d; ++k) {
      const double* const above = rates.data() + k * d;
      const double* const below = above + half;
      double sum = 0;
      for (std::size_t i = 0; i < d; ++i) sum += adjoint[k / d * d + i] * (above[i] - below[i]);
      grad_y[k] += sum / (2 * step(k));
    }
  }
  bool calls_are_dear() const override { return true; }

  std::size_t full_size() const override { return recorded_->full_size(); }
  std::unique_ptr<FullSolver> make_solver(double dt) const override { return recorded_->make_solver(dt); }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    return recorded_->initial_condition(initial);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  static constexpr double difference_step = 6e-6;  // about the cube root of double's rounding

  std::shared_ptr<const System> recorded_;
  ColumnsRhs rhs_;
  ColumnsVjp vjp_;
};

}  // namespace

std::shared_ptr<const System> with_reduced_rhs(std::shared_ptr<const System> recorded, ColumnsRhs rhs,
                                               ColumnsVjp vjp) {
  return std::make_shared<WithFunction>(std::move(recorded), std::move(rhs), std::move(vjp));
}

std::unique_ptr<System> make_recorded(const ConfigTable& table) { return std::make_unique<Recorded>(table); }

}  // namespace mac
