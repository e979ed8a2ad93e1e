// A full model advanced by RK4, the closure's integral along with it.
#pragma once

#include <algorithm>
#include <mac/rk4.hpp>
#include <mac/system.hpp>
#include <utility>
#include <vector>

namespace mac {

/// `Equations` evaluate the full model: equations(state, rate, closure), and gather the resolved variables:
/// equations.resolved(state, out).
template <class Equations>
class Rk4Solver final : public FullSolver {
 public:
  Rk4Solver(const System& system, double dt, Equations equations)
      : dt_(dt),
        size_(system.full_size()),
        closure_size_(system.closure_size()),
        equations_(std::move(equations)),
        state_(size_ + closure_size_),
        work_(3 * state_.size()) {}

  void start(std::span<const double> full_state) override {
    std::copy(full_state.begin(), full_state.end(), state_.begin());
    clear_integral();
  }
  void step() override {
    rk4_step(state_.size(), dt_, state_.data(), work_.data(),
             [this](const double* z, double* rate) { equations_(z, rate, rate + size_); });
  }

  std::span<const double> state() const override { return {state_.data(), size_}; }
  void resolved(std::span<double> out) const override { equations_.resolved(state_.data(), out.data()); }
  void closure(std::span<double> out) const override {
    equations_(state_.data(), work_.data(), work_.data() + size_);
    std::copy_n(work_.data() + size_, closure_size_, out.begin());
  }
  void full_rhs(std::span<const double> full_state, std::span<double> rate) override {
    equations_(full_state.data(), work_.data(), work_.data() + size_);
    std::copy_n(work_.data(), size_, rate.begin());
  }
  void take_closure_integral(std::span<double> out) override {
    std::copy_n(state_.data() + size_, closure_size_, out.begin());
    clear_integral();
  }

 private:
  void clear_integral() { std::fill(state_.begin() + static_cast<std::ptrdiff_t>(size_), state_.end(), 0.0); }

  double dt_;
  std::size_t size_, closure_size_;
  mutable Equations equations_;
  std::vector<double> state_;  // full state, closure integral
  mutable std::vector<double> work_;
};

}  // namespace mac
