#include <array>
#include <mac/error.hpp>
#include <mac/rollout.hpp>

namespace mac {

std::string_view to_string(Target target) { return target == Target::instant ? "instant" : "mean"; }

Target target_from(std::string_view name) {
  for (const Target target : {Target::instant, Target::mean})
    if (to_string(target) == name) return target;
  throw UsageError("unknown closure target \"{}\", expected instant or mean", name);
}

void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y) {
  constexpr std::size_t capacity = 64;
  const std::size_t d = system.resolved_size();
  if (d > capacity) throw Error("coupled_step handles at most {} resolved variables, not {}", capacity, d);
  const auto targets = system.closure_targets();
  const double pivot = held.target == Target::instant ? 0.0 : 0.5;
  const bool sloped = held.hold == Hold::linear && previous != nullptr;

  // dy/dt = R^(y) + C(tau), tau = fraction * dt
  const auto rhs = [&](const double* state, double fraction, double* dydt) {
    system.reduced_rhs(state, dydt);
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const double slope = sloped ? closure[j] - previous[j] : 0.0;
      dydt[targets[j]] += closure[j] + slope * (fraction - pivot);
    }
  };

  std::array<double, capacity> stage, k, sum;
  rhs(y, 0.0, k.data());
  for (std::size_t i = 0; i < d; ++i) sum[i] = k[i], stage[i] = y[i] + 0.5 * dt * k[i];
  rhs(stage.data(), 0.5, k.data());
  for (std::size_t i = 0; i < d; ++i) sum[i] += 2 * k[i], stage[i] = y[i] + 0.5 * dt * k[i];
  rhs(stage.data(), 0.5, k.data());
  for (std::size_t i = 0; i < d; ++i) sum[i] += 2 * k[i], stage[i] = y[i] + dt * k[i];
  rhs(stage.data(), 1.0, k.data());
  for (std::size_t i = 0; i < d; ++i) y[i] += dt / 6 * (sum[i] + k[i]);
}

}  // namespace mac
