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
// then mac::register_system<MyEquations>("my_name"), or MAC_EXPORT_SYSTEM in a plug-in (mac/own_plugin.hpp):
// experiments with [system] name = "my_name" are generated, trained and rolled out like any other. The closure is
// what its name says, C = R(z) - R^(y) in the equations of closure_targets(). A system whose resolved variables
// are not components of z derives from mac::System.
//
// Each of these may be there as well:
//
//     std::vector<mac::Symmetry> symmetries() const;
//     std::vector<mac::Lattice> lattices() const;                 // of the resolved variables, for local closures
//     std::size_t fourier_modes() const;                          // see mac::System
//     std::size_t warmup_steps() const;                           // solver steps before time 0
//     std::string time_unit() const;
//     std::unique_ptr<mac::InitialCondition> initial(const mac::ConfigTable& table) const;  // `initial` of a split
//     std::vector<mac::Diagnostic> diagnostics(std::span<const double> z) const;  // and what is conserved
//     std::vector<double> linear_part() const;                    // of R^, for ETDRK4: mac/linear_part.hpp
//     double largest_stable_dt() const;                           // of the full model's solver
//     std::unique_ptr<mac::FullSolver> make_solver(double dt) const;  // in place of RK4
//
// Equations that depend on time take it first, reduced_rhs(Scalar t, const Scalar* y, Scalar* dydt) and
// full_rhs(double t, const double* z, double* dzdt). The time is then a resolved variable, `t`, after those of
// resolved_names(), which the network sees; with double period() const it is the phase, `t_cos` and `t_sin`, and t
// runs from -period/2 to period/2.
#pragma once

#include <concepts>
#include <mac/config.hpp>
#include <mac/dual.hpp>
#include <mac/dual_math.hpp>
#include <mac/linear_part.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>
#include <mac/system.hpp>
#include <numbers>

namespace mac {

template <class Equations>
concept TimedEquations = requires(const Equations& equations, const double* from, double* rate) {
  equations.reduced_rhs(0.0, from, rate);
  equations.full_rhs(0.0, from, rate);
};

template <class Equations>
concept SystemEquations = std::constructible_from<Equations, const ConfigTable&> &&
    requires(const Equations& equations, const double* from, double* rate, RandomStream& random,
             std::span<double> state) {
  { equations.resolved_names() } -> std::convertible_to<std::vector<std::string>>;
  { equations.closure_targets() } -> std::convertible_to<std::vector<std::size_t>>;
  { equations.full_size() } -> std::convertible_to<std::size_t>;
  equations.sample(random, state);
} &&(TimedEquations<Equations> || requires(const Equations& equations, const double* from, double* rate) {
  equations.reduced_rhs(from, rate);
  equations.full_rhs(from, rate);
});

template <SystemEquations Equations>
class OwnSystem final : public System, public LinearPart {
 public:
  OwnSystem(std::string name, const ConfigTable& table)
      : name_(std::move(name)),
        equations_(table),
        resolved_names_(equations_.resolved_names()),
        closure_targets_(equations_.closure_targets()),
        own_(resolved_names_.size()),
        own_full_(equations_.full_size()) {
    for (const std::size_t target : closure_targets_) {
      if (target >= own_) table.fail("name", "the system has a closure for a variable that it does not have");
      closure_names_.push_back("C_" + resolved_names_[target]);
    }
    if (closure_targets_.empty() || own_full_ < own_)
      table.fail("name", "the system needs a closure, and its resolved variables are part of the full state");
    if constexpr (timed) {
      if constexpr (requires { equations_.period(); })
        resolved_names_.insert(resolved_names_.end(), {"t_cos", "t_sin"});
      else
        resolved_names_.push_back("t");
    }
    if constexpr (requires { equations_.time_unit(); }) time_unit_ = equations_.time_unit();
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
  std::string_view time_unit() const override { return time_unit_; }
  std::vector<Symmetry> symmetries() const override {
    if constexpr (requires { equations_.symmetries(); })
      return equations_.symmetries();
    else
      return {};
  }
  std::size_t fourier_modes() const override {
    if constexpr (requires { equations_.fourier_modes(); })
      return equations_.fourier_modes();
    else
      return 0;
  }

  void reduced_rhs(const double* y, double* dydt) const override { reduced(y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(resolved_size(), y, adjoint, grad_y, [this](const auto* x, auto* f) { reduced(x, f); });
  }
  std::vector<double> linear_part() const override {
    if constexpr (requires { equations_.linear_part(); }) {
      const std::vector<double> own = equations_.linear_part();
      const std::size_t d = resolved_size();
      std::vector<double> all(d * d);  // the clock has none: it is not stiff
      for (std::size_t i = 0; i < own_ * own_; ++i) all[i / own_ * d + i % own_] = own.at(i);
      return all;
    } else {
      return {};
    }
  }

  std::size_t full_size() const override { return own_full_ + clocks(); }
  std::size_t warmup_steps() const override {
    if constexpr (requires { equations_.warmup_steps(); })
      return equations_.warmup_steps();
    else
      return 0;
  }
  std::optional<double> largest_stable_dt() const override {
    if constexpr (requires { equations_.largest_stable_dt(); })
      return equations_.largest_stable_dt();
    else
      return std::nullopt;
  }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    if constexpr (requires { equations_.make_solver(dt); })
      return equations_.make_solver(dt);
    else
      return std::make_unique<Rk4Solver<WithClosure>>(*this, dt, WithClosure{this, {}});
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (!initial) return std::make_unique<WithClock>(*this, nullptr);
    if constexpr (requires { equations_.initial(*initial); })
      return std::make_unique<WithClock>(*this, equations_.initial(*initial));
    else
      initial->fail("", "this system has one distribution of initial states, its own");
    return nullptr;
  }
  std::vector<Diagnostic> diagnostics(std::span<const double> state) const override {
    if constexpr (requires { equations_.diagnostics(state); }) {
      std::vector<double> room;
      return equations_.diagnostics({own_state(state.data(), room), own_full_});
    } else {
      return {};
    }
  }

 private:
  static constexpr bool timed = TimedEquations<Equations>;

  std::size_t clocks() const { return resolved_names_.size() - own_; }
  double frequency() const {
    if constexpr (requires { equations_.period(); })
      return 2 * std::numbers::pi / equations_.period();
    else
      return 0;
  }

  /// The time that the clock shows, and the clock's rates.
  template <class Scalar>
  Scalar time(const Scalar* clock) const {
    using std::atan2;
    if (clocks() == 1) return clock[0];
    return atan2(clock[1], clock[0]) / frequency();
  }
  template <class Scalar>
  void clock_rates(const Scalar* clock, Scalar* rates) const {
    if (clocks() == 1) rates[0] = Scalar(1);
    if (clocks() == 2) rates[0] = -frequency() * clock[1], rates[1] = frequency() * clock[0];
  }

  template <class Scalar>
  void reduced(const Scalar* y, Scalar* dydt) const {
    if constexpr (timed)
      equations_.reduced_rhs(time(y + own_), y, dydt);
    else
      equations_.reduced_rhs(y, dydt);
    clock_rates(y + own_, dydt + own_);
  }

  /// A full state without the clock, which stands after the resolved variables.
  const double* own_state(const double* z, std::vector<double>& room) const {
    if constexpr (!timed) return z;
    room.assign(z, z + own_);
    room.insert(room.end(), z + resolved_size(), z + full_size());
    return room.data();
  }

  /// R(z) and C = R(z) - R^(y).
  struct WithClosure {
    const OwnSystem* system;
    std::vector<double> reduced, state = {}, rates = {};

    void operator()(const double* z, double* rate, double* closure) {
      const OwnSystem& is = *system;
      const std::size_t own = is.own_;
      if constexpr (timed) {
        rates.resize(is.own_full_);
        is.equations_.full_rhs(is.time(z + own), is.own_state(z, state), rates.data());
        std::copy_n(rates.data(), own, rate);
        is.clock_rates(z + own, rate + own);
        std::copy(rates.begin() + static_cast<std::ptrdiff_t>(own), rates.end(), rate + is.resolved_size());
      } else {
        is.equations_.full_rhs(z, rate);
      }
      reduced.resize(is.resolved_size());
      is.reduced(z, reduced.data());
      for (std::size_t j = 0; j < is.closure_targets_.size(); ++j)
        closure[j] = rate[is.closure_targets_[j]] - reduced[is.closure_targets_[j]];
    }
    void resolved(const double* z, double* y) const { std::copy_n(z, system->resolved_size(), y); }
  };

  /// The equations' own states, or those of a split's `initial`, at time 0.
  class WithClock final : public InitialCondition {
   public:
    WithClock(const OwnSystem& system, std::unique_ptr<InitialCondition> given)
        : equations_(system.equations_),
          own_(system.own_),
          own_full_(system.own_full_),
          clocks_(system.clocks()),
          given_(std::move(given)) {}
    void sample(std::size_t index, RandomStream& random, std::span<double> state) const override {
      std::vector<double> own(own_full_);
      if (given_)
        given_->sample(index, random, own);
      else
        equations_.sample(random, own);
      const auto hidden = own.begin() + static_cast<std::ptrdiff_t>(own_);
      auto at = std::copy(own.begin(), hidden, state.begin());
      for (std::size_t k = 0; k < clocks_; ++k) *at++ = k == 0 && clocks_ == 2 ? 1 : 0;
      std::copy(hidden, own.end(), at);
    }
    std::optional<std::size_t> count() const override { return given_ ? given_->count() : std::nullopt; }
    std::string label(std::size_t index) const override { return given_ ? given_->label(index) : ""; }

   private:
    Equations equations_;
    std::size_t own_, own_full_, clocks_;
    std::unique_ptr<InitialCondition> given_;
  };

  std::string name_;
  Equations equations_;
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
  std::size_t own_, own_full_;  // variables without the clock: resolved, all
  std::string time_unit_ = "1";
};

/// Makes the system known by `name` for the rest of the process. Throws UsageError if the name is taken.
template <SystemEquations Equations>
void register_system(const std::string& name) {
  register_system(
      name, [name](const ConfigTable& table) { return std::make_unique<OwnSystem<Equations>>(name, table); });
}

}  // namespace mac
