// The Kuramoto–Sivashinsky equation on [0, L), periodic:
//
//   u_t = -(u^2/2)_x - u_xx - u_xxxx
//   d theta_k / dt = -ikq/2 sum_{m+n=k} theta_m theta_n + ((kq)^2 - (kq)^4) theta_k,   q = 2 pi / L
//
// Long waves (kq < 1) grow, short ones decay, and the nonlinear term carries energy from the first to the second:
//
//   d/dt int u^2/2 = int u_x^2 - int u_xx^2       production - dissipation
//
// For L = 22 the attractor is chaotic, with a largest Lyapunov exponent of 0.043 to 0.048 (Edson, Bunder, Mattner
// and Roberts 2019; Cvitanovic, Davidchack and Siminos 2010). Pseudospectral in space (fourier.hpp), ETDRK4 in time.
#include <numbers>

#include "systems/etd_solver.hpp"

namespace mac {

namespace {

class Ks final : public FourierSystem {
 public:
  explicit Ks(const ConfigTable& table)
      : FourierSystem(table, 2 * std::numbers::pi / table.number_or("length", 22, positive)) {
    warmup_steps_ = static_cast<std::size_t>(table.integer_or("warmup_steps", 2000, 0, 1'000'000'000));
    fill_symbol();
  }

  std::string_view name() const override { return "ks"; }
  std::vector<Symmetry> symmetries() const override {
    return {{Symmetry::Kind::fourier_translation}, {Symmetry::Kind::fourier_reflection}};
  }
  std::size_t warmup_steps() const override { return warmup_steps_; }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<EtdSolver>(grid_, modes_, wavenumber_, lambda_, dt);
  }

  std::vector<Diagnostic> diagnostics(std::span<const double> theta) const override {
    auto result = FourierSystem::diagnostics(theta);
    double production = 0, dissipation = 0;  // int u_x^2 = 2 L sum_k (kq)^2 |theta_k|^2
    for (std::size_t k = 1; k < lambda_.size(); ++k) {
      const double square = std::norm(std::complex(theta[2 * k], theta[2 * k + 1])), kq2 = squared(k);
      production += kq2 * square;
      dissipation += kq2 * kq2 * square;
    }
    const double twice_length = 4 * std::numbers::pi / wavenumber_;
    result.push_back({"production", twice_length * production, false});
    result.push_back({"dissipation", twice_length * dissipation, false});
    return result;
  }
  std::unique_ptr<FourierSystem> on_grid(std::size_t grid) const override {
    auto copy = std::make_unique<Ks>(*this);
    copy->set_grid(grid);
    copy->fill_symbol();
    return copy;
  }

 private:
  /// (kq)^2
  double squared(std::size_t k) const {
    const double kq = static_cast<double>(k) * wavenumber_;
    return kq * kq;
  }
  void fill_symbol() {
    for (std::size_t k = 0; k < lambda_.size(); ++k) lambda_[k] = squared(k) - squared(k) * squared(k);
  }

  std::size_t warmup_steps_;
};

}  // namespace

std::unique_ptr<System> make_ks(const ConfigTable& table) { return std::make_unique<Ks>(table); }

}  // namespace mac
