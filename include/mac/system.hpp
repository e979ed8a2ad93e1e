// A dynamical system: the full model, the reduced model, and the closure between them.
//
//   full:     dz/dt = R(z),            resolved variables y = P z     paper, eq. (1), eq_ds
//   reduced:  dy/dt = R^(y) + C        the closure C makes it exact   paper, eq. (2), eq_rom1
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

class RandomStream;
struct ReducedEquations;  // what a CUDA device evaluates, see systems/reduced_equations.hpp
class ConfigTable;        // a checked table of the experiment file, see mac/config.hpp

/// How a split's trajectories start; each system reads its own from the experiment (`initial = ...`).
class InitialCondition {
 public:
  virtual ~InitialCondition() = default;
  /// The whole unresolved-and-resolved initial state of trajectory `index`.
  virtual void sample(std::size_t index, RandomStream& random, std::span<double> full_state) const = 0;
  /// Number of trajectories a fixed list of states provides; none: any number.
  virtual std::optional<std::size_t> count() const { return std::nullopt; }
  /// Name of trajectory `index` if it has one ("sin x"), else empty.
  virtual std::string label(std::size_t /*index*/) const { return {}; }
};

/// One trajectory of the full model at a time. Not shared between threads: each thread makes its own.
class FullSolver {
 public:
  virtual ~FullSolver() = default;

  /// Puts the solver at time 0 in the given full state and clears the closure integral.
  virtual void start(std::span<const double> full_state) = 0;
  /// Advances by the solver's dt, adding the closure's integral over the step, computed with the stages and
  /// weights of the integrator itself.
  virtual void step() = 0;

  virtual std::span<const double> state() const = 0;
  virtual void resolved(std::span<double> out) const = 0;
  virtual void closure(std::span<double> out) const = 0;
  /// The full right-hand side R at any full state; leaves the solver's own state alone.
  virtual void full_rhs(std::span<const double> full_state, std::span<double> rate) = 0;
  /// The closure's integral since start() or the last take; taking it resets it to zero.
  virtual void take_closure_integral(std::span<double> out) = 0;
};

/// A quantity of the full state worth watching (energy, an invariant).
struct Diagnostic {
  std::string name;
  double value = 0;
  bool conserved = false;  // by the exact flow
};

/// A transformation under which the system is equivariant: if y(t), C(t) is a solution, so is its image.
struct Symmetry {
  enum class Kind {
    fourier_translation,  // theta_k -> theta_k e^{ika}, a in [0, 2 pi), state ordered phi_1..phi_M
                          // psi_1..psi_M
    fourier_reflection,   // theta_k -> -conj(theta_k):  phi -> -phi
    cyclic_shift,         // y_k -> y_{k+s}, s in 0..N-1
    reflection,           // y -> -y
  };
  Kind kind;
};

/// Resolved variables that lie side by side, one for each site of a lattice of one, two or three directions. A local
/// closure (mac/network_inputs.hpp) reads a site and its neighbours.
struct Lattice {
  /// What a site beyond the end of a direction is: the ring goes on; the nearest site's value; zero; the value of the
  /// site as far on this side of the end.
  enum class Edge { periodic, nearest, zero, mirror };

  std::string name;                      // "X"
  std::vector<std::size_t> extents;      // sites along each direction
  std::vector<Edge> edges;               // of each direction
  std::vector<std::size_t> variables;    // (sites): the resolved variable at each, the last direction fastest
  std::vector<std::string> length_keys;  // keys of [system] that say how long it is, and nothing else

  std::size_t sites() const { return variables.size(); }
  bool operator==(const Lattice&) const = default;
};

/// Numbers that a system worked out for itself when it was first used, by name. Files keep them, so that what
/// is read back is the same system on every machine.
using SystemConstants = std::map<std::string, std::vector<double>>;

class System {
 public:
  virtual ~System() = default;

  virtual std::string_view name() const = 0;  // as in the experiment: "burgers", "kdv", ...
  virtual const std::vector<std::string>& resolved_names() const = 0;
  virtual const std::vector<std::string>& closure_names() const = 0;
  std::size_t resolved_size() const { return resolved_names().size(); }
  std::size_t closure_size() const { return closure_names().size(); }
  /// closure component j is added to resolved equation closure_targets()[j].
  virtual std::span<const std::size_t> closure_targets() const = 0;
  virtual std::vector<Symmetry> symmetries() const { return {}; }
  virtual std::vector<Lattice> lattices() const { return {}; }
  virtual std::string_view time_unit() const { return "1"; }  // "s", or "1" for dimensionless equations
  /// Number of Fourier modes if the resolved variables are phi_1..phi_M psi_1..psi_M of a real field on
  /// [0, 2 pi); 0 if there is no such field. Then ||u||^2 = 4 pi sum |theta_k|^2.
  virtual std::size_t fourier_modes() const { return 0; }

  /// False where only the variables' names are known (system "recorded").
  virtual bool has_equations() const { return true; }
  /// False where the equations are those of another program, which wrote the file that describes the system.
  virtual bool is_known() const { return true; }
  virtual SystemConstants constants() const { return {}; }

  // The reduced model.
  virtual void reduced_rhs(const double* y, double* dydt) const = 0;
  /// grad_y += (dR^/dy)^T adjoint, exactly (dual numbers through the same templated equations).
  virtual void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const = 0;
  // Both for `count` states at once, (count, d); and whether a call is so dear that it is worth gathering
  // them.
  virtual void reduced_rhs_columns(std::size_t count, const double* y, double* dydt) const;
  virtual void reduced_rhs_vjp_columns(std::size_t count, const double* y, const double* adjoint,
                                       double* grad_y) const;
  virtual bool calls_are_dear() const { return false; }

  /// The reduced equations as a value that a CUDA device can evaluate; none: the host has to.
  virtual std::optional<ReducedEquations> reduced_equations() const;

  // The full model.
  virtual std::size_t full_size() const = 0;
  /// Largest stable solver step, if one is known; used to refuse an experiment that cannot work.
  virtual std::optional<double> largest_stable_dt() const { return std::nullopt; }
  virtual std::unique_ptr<FullSolver> make_solver(double dt) const = 0;
  /// Reads `initial` of a split; null: the system's default distribution.
  virtual std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const = 0;
  /// Solver steps between a sampled state and time 0, for a system whose data lie on its attractor.
  virtual std::size_t warmup_steps() const { return 0; }
  virtual std::vector<Diagnostic> diagnostics(std::span<const double> full_state) const = 0;
};

/// Puts the solver at time 0 of trajectory `index`: sampled, started, warmed up.
void start_trajectory(const System& system, const InitialCondition& initial, std::size_t index,
                      RandomStream& random, FullSolver& solver);

/// Throws UsageError if the variables cannot have the symmetries that the system declares.
void check_symmetries(const System& system);

/// What a file says of the system it is about: enough to evaluate, report and predict without its equations.
struct SystemDescription {
  std::string name;
  std::vector<std::string> resolved_names, closure_names;
  std::vector<std::size_t> closure_targets;  // empty: the file does not say
  std::vector<Symmetry> symmetries;
  std::string time_unit = "1";
  std::size_t fourier_modes = 0;
  SystemConstants constants;
  std::vector<Lattice> lattices = {};
};
SystemDescription describe(const System& system);

/// The system that an experiment's [system] table describes. Throws UsageError naming file, line and key.
std::unique_ptr<System> make_system(const ConfigTable& table);
/// The same for the experiment inside a file. A system that this program does not know is made from its
/// description: it has names, but whoever asks for its equations gets a UsageError.
std::unique_ptr<System> make_system(const ConfigTable& table, const SystemDescription& description);
std::vector<std::string> system_names();

using SystemFactory = std::function<std::unique_ptr<System>(const ConfigTable& table)>;
/// Makes a system of one's own known by `name` for the rest of the process (mac/own_system.hpp has the short
/// way). Throws UsageError if the name is taken.
void register_system(const std::string& name, SystemFactory make);

}  // namespace mac
