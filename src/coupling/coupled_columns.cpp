#include "coupling/coupled_columns.hpp"

#include <algorithm>
#include <mac/held_rk4.hpp>

namespace mac {

CoupledColumns::CoupledColumns(const System& system, double dt, HeldClosure held, std::size_t count)
    : system_(system), dt_(dt), held_(held), count_(count), room_(count * system.resolved_size()) {}

double CoupledColumns::share(bool has_previous, std::size_t stage) const {
  return held_rk4::share(held_, has_previous, held_rk4::a(stage));
}

void CoupledColumns::compute_stages(const double* closure, const double* previous, const double* y) {
  const auto targets = system_.closure_targets();
  held_rk4::compute_stages(
      {count_, system_.resolved_size(), targets.size(), targets.data()}, dt_, y, room_,
      [&](std::size_t, const double* state, double* rate) {
        system_.reduced_rhs_columns(count_, state, rate);
      },
      [&](std::size_t i, const double*) {
        return held_rk4::StageClosure{closure, previous, share(previous != nullptr, i)};
      });
}

void CoupledColumns::step(const double* closure, const double* previous, double* y) {
  compute_stages(closure, previous, y);
  held_rk4::finish(count_ * system_.resolved_size(), dt_,
                   {room_.rate(0), room_.rate(1), room_.rate(2), room_.rate(3)}, y);
}

void CoupledColumns::adjoint(const double* closure, const double* previous, const double* y,
                             const double* d_next, double* d_y, double* d_closure, double* d_previous) {
  const auto targets = system_.closure_targets();
  const std::size_t d = system_.resolved_size(), n = count_ * d, c = targets.size();
  compute_stages(closure, previous, y);
  d_rate_.resize(n);
  d_stage_.assign(n, 0.0);  // of y_{i+1}, through which k_i acts on later stages
  for (std::size_t i = held_rk4::stages; i-- > 0;) {
    for (std::size_t v = 0; v < n; ++v) {
      d_rate_[v] = dt_ * held_rk4::b(i) * d_next[v];
      if (i + 1 < held_rk4::stages) d_rate_[v] += dt_ * held_rk4::a(i + 1) * d_stage_[v];
    }
    const double s = share(previous != nullptr, i);
    for (std::size_t column = 0; column < count_; ++column)
      for (std::size_t j = 0; j < c; ++j) {
        const double rate = d_rate_[column * d + targets[j]];
        d_closure[column * c + j] += (1 + s) * rate;
        if (s != 0) d_previous[column * c + j] -= s * rate;
      }
    std::ranges::fill(d_stage_, 0.0);
    system_.reduced_rhs_vjp_columns(count_, room_.state(i), d_rate_.data(), d_stage_.data());
    for (std::size_t v = 0; v < n; ++v) d_y[v] += d_stage_[v];
  }
  for (std::size_t v = 0; v < n; ++v) d_y[v] += d_next[v];
}

}  // namespace mac
