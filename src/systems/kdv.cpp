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

#include "systems/etd_solver.hpp"

namespace mac {

namespace {

class Kdv final : public FourierSystem {
 public:
  explicit Kdv(const ConfigTable& table) : FourierSystem(table) {
    delta_ = table.number_or("dispersion", 0.1, positive);
    fill_symbol();
  }

  std::string_view name() const override { return "kdv"; }
  std::vector<Symmetry> symmetries() const override { return {{Symmetry::Kind::fourier_translation}}; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<EtdSolver>(grid_, modes_, wavenumber_, lambda_, dt);
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
