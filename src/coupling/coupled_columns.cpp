#include "coupling/coupled_columns.hpp"

#include <mac/error.hpp>

namespace mac {

CoupledColumns::CoupledColumns(const System& system, ReducedStep dt, HeldClosure held, std::size_t count,
                               std::span<const std::shared_ptr<const System>> systems)
    : system_(system),
      dt_(dt),
      held_(held),
      count_(count),
      systems_(systems),
      room_(count * system.resolved_size()) {
  if (dt_.method != StepMethod::etdrk4) return;
  if (!systems_.empty())
    throw UsageError("ETDRK4 takes systems of one set of parameters: say integrator = \"rk4\"");
  exponential_.emplace(system, h(), count);
}

void CoupledColumns::rates(const double* y, double* dydt) const {
  if (systems_.empty()) return system_.reduced_rhs_columns(count_, y, dydt);
  const std::size_t d = system_.resolved_size();
  for (std::size_t i = 0; i < count_; ++i) systems_[i]->reduced_rhs(y + i * d, dydt + i * d);
}

void CoupledColumns::step(const double* closure, const double* previous, double* y) {
  for (std::size_t m = 0; m < dt_.substeps; ++m) substep(y, line(m, closure, previous));
}

void CoupledColumns::substep_adjoint(std::size_t m, bool has_previous, const double* d_next, double* d_y,
                                     double* d_closure, double* d_previous) {
  const auto share_at = [&](std::size_t i) { return share(has_previous, m, i); };
  if (exponential_) {
    exponential_->adjoint(share_at, d_next, d_y, d_closure, d_previous);
    return;
  }
  const std::size_t d = system_.resolved_size();
  d_rate_.resize(room_.size);
  d_stage_.resize(room_.size);
  held_rk4::adjoint(
      columns(), h(), room_, share_at,
      [&](const double* state, const double* d_rate, double* d_stage) {
        if (systems_.empty()) return system_.reduced_rhs_vjp_columns(count_, state, d_rate, d_stage);
        for (std::size_t i = 0; i < count_; ++i)
          systems_[i]->reduced_rhs_vjp(state + i * d, d_rate + i * d, d_stage + i * d);
      },
      d_next, d_rate_.data(), d_stage_.data(), d_y, d_closure, d_previous);
}

void CoupledColumns::adjoint(const double* closure, const double* previous, const double* y,
                             const double* d_next, double* d_y, double* d_closure, double* d_previous) {
  const std::size_t n = room_.size, last = dt_.substeps - 1;
  begins_.assign(y, y + n);
  begins_.resize(dt_.substeps * n);
  for (std::size_t m = 0; m < last; ++m) {
    double* const next = begins_.data() + (m + 1) * n;
    std::copy_n(begins_.data() + m * n, n, next);
    substep(next, line(m, closure, previous));
  }
  d_end_.assign(d_next, d_next + n);
  for (std::size_t m = last; m > 0; --m) {
    compute_stages(begins_.data() + m * n, line(m, closure, previous));
    d_at_.assign(n, 0.0);
    substep_adjoint(m, previous != nullptr, d_end_.data(), d_at_.data(), d_closure, d_previous);
    d_end_.swap(d_at_);
  }
  compute_stages(y, line(0, closure, previous));
  substep_adjoint(0, previous != nullptr, d_end_.data(), d_y, d_closure, d_previous);
}

}  // namespace mac
