// The Korteweg–de Vries equation on [0, 2 pi), periodic:
//
//   u_t = -(u^2/2)_x - delta^2 u_xxx
//   d theta_k / dt = -ik/2 sum_{p+q=k} theta_p theta_q + i delta^2 k^3 theta_k  paper, eq. (5),
//   eq_kdv_resolved
//
// Pseudospectral in space (fourier.hpp), ETDRK4 in time: delta^2 k^3 dt is far beyond explicit methods.
// Conserved: int u, int u^2, int (u^3/6 - delta^2 u_x^2/2). Paper: delta = 0.1, M = 3, Nx = 1024, dt = 1e-4.
#include <algorithm>
#include <numbers>

#include "integrators/etdrk4.hpp"
#include "systems/fourier.hpp"

namespace mac {

namespace {

class KdvSolver final : public FullSolver {
 public:
  KdvSolver(std::size_t grid, std::size_t modes, const std::vector<std::complex<double>>& lambda, double dt)
      : modes_(modes),
        lambda_(lambda),
        quadratic_(grid, modes),
        integrator_(lambda, dt, 2 * modes),
        theta_(2 * lambda.size()),
        integral_(2 * modes),
        rate_(theta_.size()) {}

  void start(std::span<const double> full_state) override {
    std::copy(full_state.begin(), full_state.end(), theta_.begin());
    std::fill(integral_.begin(), integral_.end(), 0.0);
  }
  void step() override { integrator_.step(theta_.data(), integral_.data(), quadratic_); }

  std::span<const double> state() const override { return theta_; }
  void resolved(std::span<double> out) const override { gather_modes(modes_, theta_.data(), out.data()); }
  void closure(std::span<double> out) const override { quadratic_(theta_.data(), rate_.data(), out.data()); }
  void full_rhs(std::span<const double> theta, std::span<double> rate) override {
    std::vector<double> closure(2 * modes_);
    quadratic_(theta.data(), rate.data(), closure.data());
    for (std::size_t k = 0; k < lambda_.size(); ++k) {
      rate[2 * k] -= lambda_[k].imag() * theta[2 * k + 1];
      rate[2 * k + 1] += lambda_[k].imag() * theta[2 * k];
    }
  }
  void take_closure_integral(std::span<double> out) override {
    std::copy(integral_.begin(), integral_.end(), out.begin());
    std::fill(integral_.begin(), integral_.end(), 0.0);
  }

 private:
  std::size_t modes_;
  std::vector<std::complex<double>> lambda_;
  mutable QuadraticTerm quadratic_;
  Etdrk4 integrator_;
  std::vector<double> theta_, integral_;
  mutable std::vector<double> rate_;
};

class Kdv final : public FourierSystem {
 public:
  explicit Kdv(const ConfigTable& table) : FourierSystem(table) {
    delta_ = table.number_or("dispersion", 0.1, positive);
    fill_symbol();
  }

  std::string_view name() const override { return "kdv"; }
  std::vector<Symmetry> symmetries() const override { return {{Symmetry::Kind::fourier_translation}}; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<KdvSolver>(grid_, modes_, lambda_, dt);
  }

  std::vector<Diagnostic> diagnostics(std::span<const double> theta) const override {
    auto result = FourierSystem::diagnostics(theta);
    result.back().conserved = true;
    RealFft fft(grid_);
    std::copy(theta.begin(), theta.end(), fft.modes());
    fft.to_grid();
    double cube = 0, gradient = 0;
    for (std::size_t j = 0; j < grid_; ++j) cube += fft.grid()[j] * fft.grid()[j] * fft.grid()[j];
    for (std::size_t k = 1; k < lambda_.size(); ++k)  // delta^2 |k theta_k|^2 = lambda_k / ik |theta_k|^2
      gradient += lambda_[k].imag() / static_cast<double>(k) *
                  (theta[2 * k] * theta[2 * k] + theta[2 * k + 1] * theta[2 * k + 1]);
    const double two_pi = 2 * std::numbers::pi;
    result.push_back({"hamiltonian", two_pi * (cube / (6 * static_cast<double>(grid_)) - gradient), true});
    return result;
  }
  std::unique_ptr<FourierSystem> on_grid(std::size_t grid) const override {
    auto copy = std::make_unique<Kdv>(*this);
    copy->set_grid(grid);
    copy->fill_symbol();
    return copy;
  }

 private:
  void fill_symbol() {
    // The Nyquist mode is zero: its symbol is never used.
    for (std::size_t k = 0; k + 1 < lambda_.size(); ++k)
      lambda_[k] = {0, delta_ * delta_ * static_cast<double>(k * k * k)};
  }

  double delta_;
};

}  // namespace

std::unique_ptr<System> make_kdv(const ConfigTable& table) { return std::make_unique<Kdv>(table); }

}  // namespace mac
