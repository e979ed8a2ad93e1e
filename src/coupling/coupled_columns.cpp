#include "coupling/coupled_columns.hpp"

#include <mac/held_rk4.hpp>

namespace mac {

CoupledColumns::CoupledColumns(const System& system, double dt, HeldClosure held, std::size_t count,
                               std::span<const std::shared_ptr<const System>> systems)
    : system_(system),
      dt_(dt),
      held_(held),
      count_(count),
      systems_(systems),
      room_(count * system.resolved_size()) {}

void CoupledColumns::rates(const double* y, double* dydt) const {
  if (systems_.empty()) return system_.reduced_rhs_columns(count_, y, dydt);
  const std::size_t d = system_.resolved_size();
  for (std::size_t i = 0; i < count_; ++i) systems_[i]->reduced_rhs(y + i * d, dydt + i * d);
}

double CoupledColumns::share(bool has_previous, std::size_t stage) const {
  return held_rk4::share(held_, has_previous, held_rk4::a(stage));
}

void CoupledColumns::compute_stages(const double* closure, const double* previous, const double* y) {
  const auto targets = system_.closure_targets();
  held_rk4::compute_stages(
      {count_, system_.resolved_size(), targets.size(), targets.data()}, dt_, y, room_,
      [&](std::size_t, const double* state, double* rate) { rates(state, rate); },
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
  const std::size_t d = system_.resolved_size();
  compute_stages(closure, previous, y);
  d_rate_.resize(count_ * d);
  d_stage_.resize(count_ * d);
  held_rk4::adjoint(
      {count_, d, targets.size(), targets.data()}, dt_, room_,
      [&](std::size_t i) { return share(previous != nullptr, i); },
      [&](const double* state, const double* d_rate, double* d_stage) {
        if (systems_.empty()) return system_.reduced_rhs_vjp_columns(count_, state, d_rate, d_stage);
        for (std::size_t i = 0; i < count_; ++i)
          systems_[i]->reduced_rhs_vjp(state + i * d, d_rate + i * d, d_stage + i * d);
      },
      d_next, d_rate_.data(), d_stage_.data(), d_y, d_closure, d_previous);
}

}  // namespace mac
