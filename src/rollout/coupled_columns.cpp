#include "rollout/coupled_columns.hpp"

#include <mac/held_rk4.hpp>

namespace mac {

CoupledColumns::CoupledColumns(const System& system, double dt, HeldClosure held, std::size_t count)
    : system_(system),
      dt_(dt),
      held_(held),
      count_(count),
      stage_(count * system.resolved_size()),
      rates_(held_rk4::stages * stage_.size()) {}

void CoupledColumns::step(const double* closure, const double* previous, double* y) {
  const auto targets = system_.closure_targets();
  const std::size_t n = stage_.size(), d = system_.resolved_size(), c = targets.size();
  const bool line = previous && held_.hold == Hold::linear;
  const auto rate = [&](std::size_t i) { return rates_.data() + i * n; };
  for (std::size_t i = 0; i < held_rk4::stages; ++i) {
    held_rk4::stage_state(i, n, dt_, y, i == 0 ? nullptr : rate(i - 1), stage_.data());
    system_.reduced_rhs_columns(count_, stage_.data(), rate(i));
    const double share = line ? held_rk4::share(held_rk4::a(i), held_.target == Target::mean) : 0;
    for (std::size_t column = 0; column < count_; ++column)
      for (std::size_t j = 0; j < c; ++j) {
        const std::size_t k = column * c + j;
        rate(i)[column * d + targets[j]] += held_rk4::line(closure[k], previous ? previous[k] : 0, share);
      }
  }
  held_rk4::finish(n, dt_, {rate(0), rate(1), rate(2), rate(3)}, y);
}

}  // namespace mac
