// What Burgers, KdV and Kuramoto-Sivashinsky share: a real field on [0, L) with vanishing mean, its Fourier
// modes, and
//
//   u = sum_k theta_k e^{ikqx},   theta_k = phi_k + i psi_k,   theta_{-k} = conj theta_k,   q = 2 pi / L
//   d theta_k / dt = N_k(theta) + lambda_k theta_k =: R_k,     N_k = -ikq/2 sum_{m+n=k} theta_m theta_n
//
// L is 2 pi and the wavenumber q is 1 but for Kuramoto-Sivashinsky;
// resolved: theta_1..theta_M; reduced: R^_k = R_k of the truncated state; closure: M_k = R_k - R^_k
// (paper, sec_results_burgers and sec_results_kdv).
// The full state is theta_0..theta_{Nx/2}, complex numbers interleaved; theta_0 and theta_{Nx/2} stay zero.
#pragma once

#include <complex>
#include <mac/config.hpp>
#include <mac/dual.hpp>
#include <mac/linear_part.hpp>
#include <mac/system.hpp>

#include "systems/real_fft.hpp"
#include "systems/reduced_equations.hpp"

namespace mac {

/// The rate of the closure along the full flow, from theta and its rate R (full states, `highest` the largest
/// k that counts):
///
///   dM_j/dt = -ijq ( sum_{p+q=j} theta_p R_q - the same with |p|, |q| <= M )
///
/// What is left of the difference are the pairs (p, j-p) and (j-p, p) with p > M. rate: 2 M numbers.
void closure_rate(std::size_t modes, std::size_t highest, double wavenumber, const double* theta,
                  const double* full_rate, double* rate);

/// The pseudospectral N_k of the full state, and the closure, which it contains.
class QuadraticTerm {
 public:
  QuadraticTerm(std::size_t grid, std::size_t modes, double wavenumber);

  /// theta, n: full states; closure: 2 M numbers.
  void operator()(const double* theta, double* n, double* closure);

 private:
  std::size_t modes_;
  double wavenumber_;
  RealFft fft_;
  std::vector<double> resolved_, square_;  // phi psi; truncated convolution, real and imaginary parts
};

class FourierSystem : public System, public LinearPart {
 public:
  const std::vector<std::string>& resolved_names() const override { return resolved_names_; }
  const std::vector<std::string>& closure_names() const override { return closure_names_; }
  std::span<const std::size_t> closure_targets() const override { return closure_targets_; }
  std::size_t fourier_modes() const override { return modes_; }

  void reduced_rhs(const double* y, double* dydt) const override {
    fourier_reduced_rhs(modes_, wavenumber_, lambda(), y, dydt);
  }
  void reduced_rhs_vjp(const double* y, const double* adjoint, double* grad_y) const override {
    add_vjp(2 * modes_, y, adjoint, grad_y,
            [this](const auto* x, auto* f) { fourier_reduced_rhs(modes_, wavenumber_, lambda(), x, f); });
  }
  std::optional<ReducedEquations> reduced_equations() const override;
  std::vector<double> linear_part() const override;

  std::size_t full_size() const override { return 2 * (grid_ / 2 + 1); }
  std::size_t grid() const { return grid_; }
  double wavenumber() const { return wavenumber_; }
  /// The same equation with the same resolved modes on another grid.
  virtual std::unique_ptr<FourierSystem> on_grid(std::size_t grid) const = 0;
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override;
  /// Mass, energy; a system adds its own.
  std::vector<Diagnostic> diagnostics(std::span<const double> full_state) const override;

 protected:
  /// Reads `modes` and `grid`; the system then fills lambda_0..lambda_{Nx/2}.
  explicit FourierSystem(const ConfigTable& table, double wavenumber = 1);
  /// The derived system fills lambda_ anew.
  void set_grid(std::size_t grid) {
    grid_ = grid;
    lambda_.assign(grid / 2 + 1, {});
  }

  std::size_t modes_, grid_;
  double wavenumber_;
  std::vector<std::complex<double>> lambda_;

 private:
  /// Real and imaginary parts interleaved, as a complex number is laid out.
  const double* lambda() const { return reinterpret_cast<const double*>(lambda_.data()); }

  std::vector<std::string> resolved_names_, closure_names_;
  std::vector<std::size_t> closure_targets_;
};

/// The resolved modes of a full state in the order phi_1..phi_M psi_1..psi_M.
inline void gather_modes(std::size_t modes, const double* theta, double* y) {
  for (std::size_t k = 1; k <= modes; ++k) {
    y[k - 1] = theta[2 * k];
    y[modes + k - 1] = theta[2 * k + 1];
  }
}

}  // namespace mac
