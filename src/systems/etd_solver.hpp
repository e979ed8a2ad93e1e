// A Fourier system (fourier.hpp) advanced by ETDRK4, for linear parts that are far too stiff for explicit methods.
#pragma once

#include <algorithm>

#include "integrators/etdrk4.hpp"
#include "systems/fourier.hpp"

namespace mac {

class EtdSolver final : public FullSolver {
 public:
  EtdSolver(std::size_t grid, std::size_t modes, double wavenumber,
            const std::vector<std::complex<double>>& lambda, double dt)
      : modes_(modes),
        lambda_(lambda),
        quadratic_(grid, modes, wavenumber),
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
      const double a = lambda_[k].real(), b = lambda_[k].imag();
      rate[2 * k] += a * theta[2 * k] - b * theta[2 * k + 1];
      rate[2 * k + 1] += a * theta[2 * k + 1] + b * theta[2 * k];
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

}  // namespace mac
