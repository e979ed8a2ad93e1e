// The viscous Burgers equation on [0, 2 pi), periodic:
//
//   u_t = -(u^2/2)_x + nu u_xx
//   d theta_k / dt = -ik/2 sum_{p+q=k} theta_p theta_q - nu k^2 theta_k         paper, eq. (4),
//   eq_burgers_resolved
//
// Pseudospectral in space (fourier.hpp), RK4 in time. Paper: nu = 0.1, M = 3, Nx = 1024, dt = 1e-4.
#include <mac/rk4_solver.hpp>

#include "integrators/simd.hpp"
#include "systems/fourier.hpp"

namespace mac {

namespace {

MAC_VECTOR_CLONES
void add_product(std::size_t n, const double* __restrict a, const double* __restrict b,
                 double* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = sum[i] + a[i] * b[i];
}

class BurgersEquations {
 public:
  BurgersEquations(std::size_t grid, std::size_t modes, const std::vector<std::complex<double>>& lambda)
      : modes_(modes), quadratic_(std::make_unique<QuadraticTerm>(grid, modes, 1)) {
    for (const auto& value : lambda) diffusion_.insert(diffusion_.end(), 2, value.real());
  }

  void operator()(const double* theta, double* rate, double* closure) {
    (*quadratic_)(theta, rate, closure);
    add_product(diffusion_.size(), diffusion_.data(), theta, rate);
  }
  void resolved(const double* theta, double* y) const { gather_modes(modes_, theta, y); }

 private:
  std::size_t modes_;
  std::unique_ptr<QuadraticTerm> quadratic_;
  std::vector<double> diffusion_;  // -nu k^2, for the real and the imaginary part of each mode
};

class Burgers final : public FourierSystem {
 public:
  explicit Burgers(const ConfigTable& table) : FourierSystem(table) {
    viscosity_ = table.number_or("viscosity", 0.1, positive);
    fill_symbol();
  }

  std::string_view name() const override { return "burgers"; }
  std::vector<Symmetry> symmetries() const override {
    return {{Symmetry::Kind::fourier_translation}, {Symmetry::Kind::fourier_reflection}};
  }
  std::optional<double> largest_stable_dt() const override {
    return rk4_real_stability / std::abs(lambda_.back());
  }
  std::unique_ptr<FullSolver> make_solver(double dt) const override {
    return std::make_unique<Rk4Solver<BurgersEquations>>(*this, dt, BurgersEquations(grid_, modes_, lambda_));
  }

  std::unique_ptr<FourierSystem> on_grid(std::size_t grid) const override {
    auto copy = std::make_unique<Burgers>(*this);
    copy->set_grid(grid);
    copy->fill_symbol();
    return copy;
  }

 private:
  void fill_symbol() {
    for (std::size_t k = 0; k < lambda_.size(); ++k) lambda_[k] = -viscosity_ * static_cast<double>(k * k);
  }

  double viscosity_;
};

}  // namespace

std::unique_ptr<System> make_burgers(const ConfigTable& table) { return std::make_unique<Burgers>(table); }

}  // namespace mac
