// The 3-bus DeMarco–Zheng power grid (paper, sec_results_pg, equations without numbers):
//
//   d omega1/dt = -D1/M1 omega1 + (g2 + g3)/M1
//   d omega2/dt = -D2/M2 omega2 - g2/M2
//   d alpha2/dt = -omega1 + omega2
//   d alpha3/dt = -omega1 - g3/D3
//   d V3/dt     = -gV/epsilon
//
//   g2 = b1 V1 V2 sin alpha2 + b3 V2 V3 sin(alpha2 - alpha3) + P2
//   g3 = b2 V1 V3 sin alpha3 + b3 V2 V3 sin(alpha3 - alpha2) + P3
//   gV = (b2 + b3) V3 - b2 V1 cos alpha3 - b3 V2 cos(alpha3 - alpha2) + Q3/V3
//
// resolved: omega1 omega2 alpha2; reduced: alpha3 = alpha3_0, V3 = V3_0; closure: what then is missing from
// the equations of omega1 and omega2. RK4. Paper: dt = 5e-5, saved every 20 steps.
//
//   E = (M1 omega1^2 + M2 omega2^2)/2 + (b2 + b3) V3^2/2 + Q3 ln V3 + P2 alpha2 + P3 alpha3
//       - b1 V1 V2 cos alpha2 - b2 V1 V3 cos alpha3 - b3 V2 V3 cos(alpha2 - alpha3)
//
// has the gradient (M1 omega1, M2 omega2, g2, g3, gV), so
//
//   dE/dt = -D1 omega1^2 - D2 omega2^2 - g3^2/D3 - gV^2/epsilon.
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <array>
#include <cmath>
#include <mac/config.hpp>
#include <mac/dual.hpp>
#include <mac/random.hpp>
#include <mac/rk4_solver.hpp>

#include "systems/reduced_equations.hpp"

namespace mac {

namespace {

double energy(const GridBuses& g, std::span<const double> z) {
  const double alpha2 = z[2], alpha3 = z[3], V3 = z[4];
  return (g.M1 * z[0] * z[0] + g.M2 * z[1] * z[1]) / 2 - g.b1 * g.V1 * g.V2 * std::cos(alpha2) -
         g.b2 * g.V1 * V3 * std::cos(alpha3) - g.b3 * g.V2 * V3 * std::cos(alpha2 - alpha3) +
         (g.b2 + g.b3) * V3 * V3 / 2 + g.Q3 * std::log(V3) + g.P2 * alpha2 + g.P3 * alpha3;
}

Eigen::MatrixXd jacobian(const GridBuses& grid, const Eigen::VectorXd& z) {
  Eigen::MatrixXd result(5, 5);
  for_each_jacobian_column(
      5, 5, z.data(), [&](const auto* x, auto* f) { grid.full_rhs(x, f); },
      [&](std::size_t j, const double* column) {
        result.col(static_cast<Eigen::Index>(j)) = Eigen::Map<const Eigen::VectorXd>(column, 5);
      });
  return result;
}

/// The equilibrium that Newton's method reaches from the reference state, if it does.
std::optional<Eigen::VectorXd> equilibrium(const GridBuses& grid) {
  Eigen::VectorXd z = Eigen::VectorXd::Zero(5), rate(5);
  z[3] = grid.alpha3_0, z[4] = grid.V3_0;
  for (int i = 0; i < 50; ++i) {
    grid.full_rhs(z.data(), rate.data());
    const Eigen::VectorXd step = jacobian(grid, z).partialPivLu().solve(rate);
    z -= step;
    if (!z.allFinite()) return std::nullopt;
    if (step.norm() < 1e-13 * (1 + z.norm())) return z;
  }
  return std::nullopt;
}

struct PowerGridEquations {
  GridBuses grid;

  void operator()(const double* z, double* rate, double* closure) const {
    std::array<double, 3> reduced;
    grid.full_rhs(z, rate);
    grid.reduced_rhs(3, z, reduced.data());
    closure[0] = rate[0] - reduced[0];
    closure[1] = rate[1] - reduced[1];
  }
  void resolved(const double* z, double* y) const { std::copy_n(z, 3, y); }
};

/// omega1, omega2 and alpha2 uniform in a box; the load bus at its reference.
class Box final : public InitialCondition {
 public:
  Box(const GridBuses& grid, std::array<double, 2> omega, std::array<double, 2> alpha2)
      : grid_(grid), omega_(omega), alpha2_(alpha2) {}

  void sample(std::size_t /*index*/, RandomStream& random, std::span<double> z) const override {
    z[0] = random.uniform(omega_[0], omega_[1]);
    z[1] = random.uniform(omega_[0], omega_[1]);
    z[2] = random.uniform(alpha2_[0], alpha2_[1]);
    z[3] = grid_.alpha3_0;
    z[4] = grid_.V3_0;
  }

 private:
  GridBuses grid_;
  std::array<double, 2> omega_, alpha2_;
};

class PowerGrid final : public System {
 public:
  explicit PowerGrid(const ConfigTable& table)
      : grid_{.M1 = table.number_or("M1", 0.052, positive),
              .M2 = table.number_or("M2", 0.0531, positive),
              .D1 = table.number_or("D1", 0.05, non_negative),
              .D2 = table.number_or("D2", 0.05, non_negative),
              .D3 = table.number_or("D3", 0.005, positive),
              .b1 = table.number_or("b1", 10, non_negative),
              .b2 = table.number_or("b2", 10, non_negative),
              .b3 = table.number_or("b3", 10, non_negative),
              .P2 = table.number_or("P2", -2),
              .P3 = table.number_or("P3", 3),
              .Q3 = table.number_or("Q3", 0.1),
              .epsilon = table.number_or("epsilon", 5, positive),
              .V1 = table.number_or("V1", 0.9, positive),
              .V2 = table.number_or("V2", 0.9, positive),
              .alpha3_0 = table.number_or("alpha3_0", -0.3),
              .V3_0 = table.number_or("V3_0", 0.8, positive)} {}

  std::string_view name() const override { return "power_grid"; }
  std::string_view time_unit() const override { return "s"; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }

  void reduced_rhs(const double* y, double* dydt) const override { grid_.reduced_rhs(3, y, dydt); }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(3, y, adjoint, grad_y, [this](const auto* x, auto* f) { grid_.reduced_rhs(3, x, f); });
  }

  std::optional<ReducedEquations> reduced_equations() const override { return ReducedEquations{grid_}; }

  std::size_t full_size() const override { return 5; }
  /// From the eigenvalues at the equilibrium, the fastest of which is the load bus's angle.
  std::optional<double> largest_stable_dt() const override {
    const auto rest = equilibrium(grid_);
    if (!rest) return std::nullopt;
    std::optional<double> largest;
    for (const std::complex<double> lambda : jacobian(grid_, *rest).eigenvalues()) {
      if (lambda.real() >= 0) continue;
      const double step = rk4_largest_stable_step(lambda);
      largest = std::min(largest.value_or(step), step);
    }
    return largest;
  }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<PowerGridEquations>>(*this, dt, PowerGridEquations{grid_});
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    std::array<double, 2> omega{-0.05, 0.05}, alpha2{-0.20, -0.12};
    if (initial) {
      initial->choice_or("kind", "box", {"box"});
      read_interval(*initial, "omega", omega);
      read_interval(*initial, "alpha2", alpha2);
    }
    return std::make_unique<Box>(grid_, omega, alpha2);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double> z) const override {
    return {{"energy", energy(grid_, z), false}};
  }

 private:
  static void read_interval(const ConfigTable& table, const char* key, std::array<double, 2>& interval) {
    if (!table.has(key)) return;
    const auto bounds = table.numbers(key, 2);
    if (bounds[0] > bounds[1]) table.fail(key, "the lower bound comes first");
    interval = {bounds[0], bounds[1]};
  }

  GridBuses grid_;
  std::vector<std::string> resolved_names_{"omega1", "omega2", "alpha2"};
  std::vector<std::string> closure_names_{"C_omega1", "C_omega2"};
  std::array<std::size_t, 2> closure_targets_{0, 1};
};

}  // namespace

std::unique_ptr<System> make_power_grid(const ConfigTable& table) {
  return std::make_unique<PowerGrid>(table);
}

}  // namespace mac
