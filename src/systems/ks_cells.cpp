// The Kuramoto–Sivashinsky equation in cells: a fine finite-volume model, of which averages over blocks of cells are
// resolved, and the same scheme on the blocks as the reduced model (the benchmark of Melchers, Crommelin, Koren,
// Menkovski and Sanderse, arXiv:2210.14675: L = 64, 1024 cells in 128 blocks).
//
//   du_j/dt = -(f_{j+1/2} - f_{j-1/2}) / dx - (D u)_j - (D D u)_j       f_{j+1/2} = (u_j^2 + u_j u_{j+1} + u_{j+1}^2) / 6
//   (D u)_j = (u_{j-1} - 2 u_j + u_{j+1}) / dx^2,   dx = L / cells, periodic
//
// The flux conserves sum u and sum u^2, so that the energy changes by the linear part alone:
//
//   d/dt sum_j dx u_j^2 / 2 = -sum_j dx u_j (D u + D D u)_j
//
// The linear part is diagonal in Fourier space; ETDRK4 takes it exactly there, in the full model with the symbol of D
// and in the reduced model as a matrix (mac/linear_part.hpp). The initial state is a field of the ten longest waves,
// scaled to a largest value of 2; the benchmark predicts from t = 16 on.
#include <fmt/format.h>

#include <cmath>
#include <mac/config.hpp>
#include <mac/linear_part.hpp>
#include <mac/random.hpp>
#include <numbers>

#include "integrators/etdrk4.hpp"
#include "integrators/simd.hpp"
#include "systems/real_fft.hpp"

namespace mac {

namespace {

/// du/dt of n cells of width dx.
MAC_VECTOR_CLONES
void cells_rhs(std::size_t n, double dx, const double* __restrict u, double* __restrict dudt) {
  const double square = 1 / (dx * dx), sixth = 1 / (6 * dx);
  const auto flux = [](double a, double b) { return a * a + a * b + b * b; };
  const auto cell = [&](std::size_t j, double two_before, double before, double after, double two_after) {
    double here = u[j];
    const double second = before - 2.0 * here + after;
    const double fourth = two_before - 4.0 * before + 6.0 * here - 4.0 * after + two_after;
    dudt[j] = -sixth * (flux(here, after) - flux(before, here)) - square * second - square * square * fourth;
  };
  for (std::size_t j = 2; j + 2 < n; ++j) cell(j, u[j - 2], u[j - 1], u[j + 1], u[j + 2]);
  for (const std::size_t j : {std::size_t{0}, std::size_t{1}, n - 2, n - 1})
    cell(j, u[(j + n - 2) % n], u[(j + n - 1) % n], u[(j + 1) % n], u[(j + 2) % n]);
}

/// The flux differences alone.
MAC_VECTOR_CLONES
void advection(std::size_t n, double dx, const double* __restrict u, double* __restrict dudt) {
  const double sixth = 1 / (6 * dx);
  const auto flux = [](double a, double b) { return a * a + a * b + b * b; };
  for (std::size_t j = 1; j + 1 < n; ++j) dudt[j] = -sixth * (flux(u[j], u[j + 1]) - flux(u[j - 1], u[j]));
  dudt[0] = -sixth * (flux(u[0], u[1]) - flux(u[n - 1], u[0]));
  dudt[n - 1] = -sixth * (flux(u[n - 1], u[0]) - flux(u[n - 2], u[n - 1]));
}

struct KsGrid {
  std::size_t cells, blocks;  // of the full and of the reduced model
  double length;
  std::size_t per_block() const { return cells / blocks; }
  double width(std::size_t n) const { return length / static_cast<double>(n); }
};

/// Means over blocks.
void average(const KsGrid& grid, const double* u, double* y) {
  const std::size_t size = grid.per_block();
  for (std::size_t i = 0; i < grid.blocks; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < size; ++j) sum += u[i * size + j];
    y[i] = sum / static_cast<double>(size);
  }
}

/// The state is u itself; a step goes through its Fourier coefficients.
class KsCellsSolver final : public FullSolver {
 public:
  KsCellsSolver(const KsGrid& grid, double dt)
      : grid_(grid),
        fft_(grid.cells),
        integrator_(symbol(grid), dt, grid.blocks),
        u_(grid.cells),
        modes_(grid.cells + 2),
        rates_(grid.cells),
        averages_(grid.blocks),
        reduced_(grid.blocks),
        integral_(grid.blocks) {}

  void start(std::span<const double> full_state) override {
    std::copy(full_state.begin(), full_state.end(), u_.begin());
    std::fill(integral_.begin(), integral_.end(), 0.0);
  }
  void step() override {
    to_modes(u_.data(), modes_.data());
    integrator_.step(modes_.data(), integral_.data(),
                     [this](const double* modes, double* n, double* closure) {
                       to_grid(modes, u_.data());
                       closure_of(u_.data(), closure);
                       advection(grid_.cells, grid_.width(grid_.cells), u_.data(), rates_.data());
                       to_modes(rates_.data(), n);
                     });
    to_grid(modes_.data(), u_.data());
  }

  std::span<const double> state() const override { return u_; }
  void resolved(std::span<double> out) const override { average(grid_, u_.data(), out.data()); }
  void closure(std::span<double> out) const override { closure_of(u_.data(), out.data()); }
  void full_rhs(std::span<const double> u, std::span<double> rate) override {
    cells_rhs(grid_.cells, grid_.width(grid_.cells), u.data(), rate.data());
  }
  void take_closure_integral(std::span<double> out) override {
    std::copy(integral_.begin(), integral_.end(), out.begin());
    std::fill(integral_.begin(), integral_.end(), 0.0);
  }

 private:
  /// -D - D D in Fourier space, D = -(2 sin(k pi / n) / dx)^2.
  static std::vector<std::complex<double>> symbol(const KsGrid& grid) {
    std::vector<std::complex<double>> lambda(grid.cells / 2 + 1);
    for (std::size_t k = 0; k < lambda.size(); ++k) {
      const double angle = static_cast<double>(k) * std::numbers::pi / static_cast<double>(grid.cells);
      const double root = 2 * std::sin(angle) / grid.width(grid.cells), d = -root * root;
      lambda[k] = -d - d * d;
    }
    return lambda;
  }
  void to_modes(const double* u, double* modes) const {
    std::copy_n(u, grid_.cells, fft_.grid());
    fft_.to_modes();
    const double scale = 1 / static_cast<double>(grid_.cells);
    for (std::size_t i = 0; i < modes_.size(); ++i) modes[i] = scale * fft_.modes()[i];
  }
  void to_grid(const double* modes, double* u) const {
    std::copy_n(modes, modes_.size(), fft_.modes());
    fft_.to_grid();
    std::copy_n(fft_.grid(), grid_.cells, u);
  }
  /// What the averages' rates are beyond those of the scheme on the averages.
  void closure_of(const double* u, double* closure) const {
    cells_rhs(grid_.cells, grid_.width(grid_.cells), u, rates_.data());
    average(grid_, rates_.data(), closure);
    average(grid_, u, averages_.data());
    cells_rhs(grid_.blocks, grid_.width(grid_.blocks), averages_.data(), reduced_.data());
    for (std::size_t i = 0; i < grid_.blocks; ++i) closure[i] -= reduced_[i];
  }

  KsGrid grid_;
  mutable RealFft fft_;
  Etdrk4 integrator_;
  std::vector<double> u_, modes_;
  mutable std::vector<double> rates_, averages_, reduced_;
  std::vector<double> integral_;
};

class LongWaves final : public InitialCondition {
 public:
  explicit LongWaves(std::size_t cells) : cells_(cells) {}
  void sample(std::size_t, RandomStream& random, std::span<double> u) const override {
    std::fill(u.begin(), u.end(), 0.0);
    for (std::size_t k = 1; k <= 10; ++k) {
      const double a = random.normal(), b = random.normal();
      for (std::size_t j = 0; j < cells_; ++j) {
        const double x = 2 * std::numbers::pi * static_cast<double>(k * j) / static_cast<double>(cells_);
        u[j] += a * std::cos(x) + b * std::sin(x);
      }
    }
    double largest = 0;
    for (const double value : u) largest = std::max(largest, std::abs(value));
    for (double& value : u) value *= 2 / largest;
  }

 private:
  std::size_t cells_;
};

class KsCells final : public System, public LinearPart {
 public:
  explicit KsCells(const ConfigTable& table) {
    grid_.length = table.number_or("length", 64, positive);
    grid_.blocks = static_cast<std::size_t>(table.integer_or("cells", 128, 5, 4096));
    const auto per_cell = static_cast<std::size_t>(table.integer_or("refine", 8, 1, 1024));
    grid_.cells = grid_.blocks * per_cell;
    if (grid_.cells % 2 != 0) table.fail("refine", "cells times refine must be even");
    if (grid_.cells < 22) table.fail("cells", "cells times refine must be at least 22, for ten waves");
    warmup_steps_ = static_cast<std::size_t>(table.integer_or("warmup_steps", 0, 0, 1'000'000'000));
    for (std::size_t k = 0; k < grid_.blocks; ++k) {
      resolved_names_.push_back(fmt::format("u{}", k + 1));
      closure_names_.push_back(fmt::format("c{}", k + 1));
      closure_targets_.push_back(k);
    }
  }

  std::string_view name() const override { return "ks_cells"; }
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }
  std::vector<Symmetry> symmetries() const override { return {{Symmetry::Kind::cyclic_shift}}; }
  std::vector<Lattice> lattices() const override {
    return {{"u", {grid_.blocks}, {Lattice::Edge::periodic}, closure_targets_, {"cells", "length"}}};
  }

  void reduced_rhs(const double* y, double* dydt) const override {
    cells_rhs(grid_.blocks, grid_.width(grid_.blocks), y, dydt);
  }
  /// By hand: dual numbers would take d evaluations of a scheme whose Jacobian has five diagonals.
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    const std::size_t n = grid_.blocks;
    const double dx = grid_.width(n), square = 1 / (dx * dx), sixth = 1 / (6 * dx);
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t before = (j + n - 1) % n, after = (j + 1) % n;
      const double g = adjoint[j], second = -square * g, fourth = -square * square * g;
      grad_y[(j + n - 2) % n] += fourth;
      grad_y[before] += second - 4 * fourth + sixth * g * (2 * y[before] + y[j]);
      grad_y[j] += -2 * second + 6 * fourth - sixth * g * (y[after] - y[before]);
      grad_y[after] += second - 4 * fourth - sixth * g * (y[j] + 2 * y[after]);
      grad_y[(j + 2) % n] += fourth;
    }
  }
  std::vector<double> linear_part() const override {
    const std::size_t n = grid_.blocks;
    const double square = 1 / (grid_.width(n) * grid_.width(n));
    std::vector<double> l(n * n);
    for (std::size_t j = 0; j < n; ++j) {
      const double weights[] = {-square * square, -square + 4 * square * square,
                                2 * square - 6 * square * square, -square + 4 * square * square,
                                -square * square};
      for (std::size_t i = 0; i < 5; ++i) l[j * n + (j + n - 2 + i) % n] += weights[i];
    }
    return l;
  }

  std::size_t full_size() const override { return grid_.cells; }
  std::size_t warmup_steps() const override { return warmup_steps_; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<KsCellsSolver>(grid_, dt);
  }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->choice_or("kind", "waves", {"waves"});
    return std::make_unique<LongWaves>(grid_.cells);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double> u) const override {
    double sum = 0, squares = 0;
    for (const double value : u) sum += value, squares += value * value;
    const double dx = grid_.width(grid_.cells);
    return {{"mass", dx * sum, true}, {"energy", dx * squares / 2, false}};
  }

 private:
  KsGrid grid_{};
  std::size_t warmup_steps_;
  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
};

}  // namespace

std::unique_ptr<System> make_ks_cells(const ConfigTable& table) { return std::make_unique<KsCells>(table); }

}  // namespace mac
