// The two-scale Lorenz '96 system, both rings periodic (paper, sec_results_l96, equations without numbers):
//
//   dX_k/dt = -X_{k-1} (X_{k-2} - X_{k+1}) - X_k + F + U_k           k = 1..N
//   dY_j/dt = -c b Y_{j+1} (Y_{j+2} - Y_{j-1}) - c Y_j + (h c / b) X_{floor((j-1)/J)+1}     j = 1..JN
//   U_k     = -(h c / b) sum_{j=J(k-1)+1}^{kJ} Y_j
//
// resolved: X; closure: U. Full state: X, then Y. RK4. Paper: N = 8, J = 32, F = 10, h = 1, c = b = 10,
// dt = 0.005 saved every second step, after 5000 steps of warm-up.
#include <fmt/format.h>

#include <algorithm>
#include <mac/config.hpp>
#include <mac/dual.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>

#include "integrators/simd.hpp"
#include "systems/reduced_equations.hpp"

namespace mac {

namespace {

struct Parameters {
  std::size_t n, j;
  double f, h, c, b;
};

/// dY/dt - (h c / b) X on a ring that y[-1] and y[n], y[n + 1] continue.
MAC_VECTOR_CLONES
void fast_rhs(std::size_t n, double c, double b, const double* __restrict y, double* __restrict dydt) {
  const double cb = c * b;
  for (std::size_t j = 0; j < n; ++j) dydt[j] = -cb * y[j + 1] * (y[j + 2] - y[j - 1]) - c * y[j];
}

class Lorenz96Equations {
 public:
  explicit Lorenz96Equations(const Parameters& p) : p_(p), ring_(p.n * p.j + 3) {}

  void operator()(const double* state, double* rate, double* closure) {
    const std::size_t fast = p_.n * p_.j;
    const double *x = state, *y = state + p_.n;
    double *dxdt = rate, *dydt = rate + p_.n;
    std::copy_n(y, fast, ring_.data() + 1);
    ring_[0] = y[fast - 1];
    ring_[fast + 1] = y[0];
    ring_[fast + 2] = y[1];
    slow_rhs(p_.n, p_.f, x, dxdt);
    fast_rhs(fast, p_.c, p_.b, ring_.data() + 1, dydt);
    const double coupling = p_.h * p_.c / p_.b;
    for (std::size_t k = 0; k < p_.n; ++k) {
      double sum = 0;
      for (std::size_t j = k * p_.j; j < (k + 1) * p_.j; ++j) {
        sum += y[j];
        dydt[j] += coupling * x[k];
      }
      closure[k] = -coupling * sum;
      dxdt[k] += closure[k];
    }
  }
  void resolved(const double* state, double* x) const { std::copy_n(state, p_.n, x); }

 private:
  Parameters p_;
  std::vector<double> ring_;  // Y with one neighbour before and two after
};

/// X around F/10, Y small: forgotten during the warm-up.
class RandomStart final : public InitialCondition {
 public:
  RandomStart(const Parameters& p, double spread, double fast_spread)
      : p_(p), spread_(spread), fast_spread_(fast_spread) {}

  void sample(std::size_t /*index*/, RandomStream& random, std::span<double> state) const override {
    for (std::size_t k = 0; k < p_.n; ++k) state[k] = p_.f / 10 + spread_ * random.normal();
    for (std::size_t j = p_.n; j < state.size(); ++j) state[j] = fast_spread_ * random.normal();
  }

 private:
  Parameters p_;
  double spread_, fast_spread_;
};

class Lorenz96 final : public System {
 public:
  explicit Lorenz96(const ConfigTable& table) {
    p_.n = static_cast<std::size_t>(table.integer_or("N", 8, 4, 4096));  // below 4 the neighbours coincide
    p_.j = static_cast<std::size_t>(table.integer_or("J", 32, 1, 4096));
    p_.f = table.number_or("F", 10);
    p_.h = table.number_or("h", 1);
    p_.c = table.number_or("c", 10, positive);
    p_.b = table.number_or("b", 10, positive);
    warmup_steps_ = static_cast<std::size_t>(table.integer_or("warmup_steps", 5000, 0, 1'000'000'000));
    for (std::size_t k = 0; k < p_.n; ++k) {
      resolved_names_.push_back(fmt::format("X{}", k + 1));
      closure_names_.push_back(fmt::format("U{}", k + 1));
      closure_targets_.push_back(k);
    }
  }

  std::string_view name() const override { return "lorenz96"; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }
  std::vector<Symmetry> symmetries() const override { return {{Symmetry::Kind::cyclic_shift}}; }
  std::vector<Lattice> lattices() const override {
    return {{"X", {p_.n}, {Lattice::Edge::periodic}, closure_targets_, {"N"}}};
  }

  void reduced_rhs(const double* y, double* dydt) const override { slow_rhs(p_.n, p_.f, y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(p_.n, y, adjoint, grad_y, [this](const auto* x, auto* f) { slow_rhs(p_.n, p_.f, x, f); });
  }

  std::optional<ReducedEquations> reduced_equations() const override {
    return ReducedEquations{LorenzRing{p_.f}};
  }

  std::size_t full_size() const override { return p_.n * (1 + p_.j); }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<Lorenz96Equations>>(*this, dt, Lorenz96Equations(p_));
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    double spread = 1, fast_spread = 0.01;
    if (initial) {
      initial->choice_or("kind", "random", {"random"});
      spread = initial->number_or("spread", spread, non_negative);
      fast_spread = initial->number_or("fast_spread", fast_spread, non_negative);
    }
    return std::make_unique<RandomStart>(p_, spread, fast_spread);
  }
  std::size_t warmup_steps() const override { return warmup_steps_; }
  std::vector<Diagnostic> diagnostics(std::span<const double> state) const override {
    double slow = 0, fast = 0;
    for (std::size_t k = 0; k < p_.n; ++k) slow += state[k] * state[k] / 2;
    for (std::size_t j = p_.n; j < state.size(); ++j) fast += state[j] * state[j] / 2;
    return {{"slow_energy", slow, false}, {"fast_energy", fast, false}};
  }

 private:
  Parameters p_;
  std::size_t warmup_steps_;
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
};

}  // namespace

std::unique_ptr<System> make_lorenz96(const ConfigTable& table) { return std::make_unique<Lorenz96>(table); }

}  // namespace mac
