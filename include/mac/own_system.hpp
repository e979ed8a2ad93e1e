// A system of one's own, outside the library. Write the equations as a struct,
//
//   struct MyEquations {
//     explicit MyEquations(const mac::ConfigTable& table);        // parameters, from the [system] table
//     std::vector<std::string> resolved_names() const;            // y = the first components of z
//     std::vector<std::size_t> closure_targets() const;           // the equations of y that need a closure
//     std::size_t full_size() const;                              // components of z
//     template <class Scalar>
//     void reduced_rhs(const Scalar* y, Scalar* dydt) const;      // R^(y)
//     void full_rhs(const double* z, double* dzdt) const;         // R(z)
//     void sample(mac::RandomStream& random, std::span<double> z) const;  // a random initial state
//   };
//
// and, where resolved variables lie on a lattice, std::vector<mac::Lattice> lattices() const, which local closures need;
// then mac::register_system<MyEquations>("my_name"): experiments with [system] name = "my_name" are
// generated, trained and rolled out like any other. The closure is what its name says, C = R(z) - R^(y) in
// the equations of closure_targets(). A system whose resolved variables are not components of z derives from
// mac::System.
#pragma once

#include <concepts>
#include <mac/config.hpp>
#include <mac/dual.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>
#include <mac/system.hpp>

namespace mac {

template <class Equations>
concept SystemEquations = std::constructible_from<Equations, const ConfigTable&> &&
    requires(const Equations& equations, const double* from, double* rate, RandomStream& random,
             std::span<double> state) {
  { equations.resolved_names() } -> std::convertible_to<std::vector<std::string>>;
  { equations.closure_targets() } -> std::convertible_to<std::vector<std::size_t>>;
  { equations.full_size() } -> std::convertible_to<std::size_t>;
  equations.reduced_rhs(from, rate);
  equations.full_rhs(from, rate);
  equations.sample(random, state);
};

template <SystemEquations Equations>
class OwnSystem final : public System {
 public:
  OwnSystem(std::string name, const ConfigTable& table)
      : name_(std::move(name)),
        equations_(table),
        resolved_names_(equations_.resolved_names()),
        closure_targets_(equations_.closure_targets()) {
    for (const std::size_t target : closure_targets_) {
      if (target >= resolved_size())
        table.fail("name", "the system has a closure for a variable that it does not have");
      closure_names_.push_back("C_" + resolved_names_[target]);
    }
    if (closure_targets_.empty() || full_size() < resolved_size())
      table.fail("name", "the system needs a closure, and its resolved variables are part of the full state");
  }

  std::string_view name() const override { return name_; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }
  std::vector<Lattice> lattices() const override {
    if constexpr (requires { equations_.lattices(); })
      return equations_.lattices();
    else
      return {};
  }

  void reduced_rhs(const double* y, double* dydt) const override { equations_.reduced_rhs(y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(resolved_size(), y, adjoint, grad_y,
            [this](const auto* x, auto* f) { equations_.reduced_rhs(x, f); });
  }

  std::size_t full_size() const override { return equations_.full_size(); }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<WithClosure>>(*this, dt, WithClosure{this, {}});
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->fail("", "this system has one distribution of initial states, its own");
    return std::make_unique<Sampled>(equations_);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  /// R(z) and C = R(z) - R^(y).
  struct WithClosure {
    const OwnSystem* system;
    std::vector<double> reduced;

    void operator()(const double* z, double* rate, double* closure) {
      reduced.resize(system->resolved_size());
      system->equations_.full_rhs(z, rate);
      system->equations_.reduced_rhs(z, reduced.data());
      for (std::size_t j = 0; j < system->closure_targets_.size(); ++j)
        closure[j] = rate[system->closure_targets_[j]] - reduced[system->closure_targets_[j]];
    }
    void resolved(const double* z, double* y) const { std::copy_n(z, system->resolved_size(), y); }
  };

  class Sampled final : public InitialCondition {
   public:
    explicit Sampled(const Equations& equations) : equations_(equations) {}
    void sample(std::size_t, RandomStream& random, std::span<double> state) const override {
      equations_.sample(random, state);
    }

   private:
    Equations equations_;
  };

  std::string name_;
  Equations equations_;
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
};

/// Makes the system known by `name` for the rest of the process. Throws UsageError if the name is taken.
template <SystemEquations Equations>
void register_system(const std::string& name) {
  register_system(
      name, [name](const ConfigTable& table) { return std::make_unique<OwnSystem<Equations>>(name, table); });
}

}  // namespace mac
