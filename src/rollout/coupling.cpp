// Classical RK4 for dy/dt = R^(y) + C(tau):
//
//   y_i = y + a_i dt k_{i-1},   k_i = R^(y_i) + C(a_i dt),   next = y + dt sum_i b_i k_i
//   a = (0, 1/2, 1/2, 1),       b = (1/6, 1/3, 1/3, 1/6)
#include <array>
#include <mac/coupling.hpp>
#include <mac/error.hpp>

namespace mac {

namespace {

constexpr std::size_t capacity = 64;  // resolved variables, so that a step needs no allocation
constexpr std::size_t stages = 4;
constexpr double a[stages] = {0, 0.5, 0.5, 1};
constexpr double b[stages] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};

using State = std::array<double, capacity>;

/// C(a_i dt) = (1 + s_i) closure - s_i previous: the share s_i that the previous prediction has in stage i.
double extrapolation(HeldClosure held, bool has_previous, std::size_t stage) {
  if (held.hold != Hold::linear || !has_previous) return 0;
  const double pivot = held.target == Target::instant ? 0.0 : 0.5;
  return a[stage] - pivot;
}

struct Stages {
  std::array<State, stages> y, k;
};

void compute_stages(const System& system, double dt, HeldClosure held, const double* closure,
                    const double* previous, const double* y, Stages& out) {
  const std::size_t d = system.resolved_size();
  if (d > capacity) throw Error("coupled_step handles at most {} resolved variables, not {}", capacity, d);
  const auto targets = system.closure_targets();
  for (std::size_t i = 0; i < stages; ++i) {
    for (std::size_t v = 0; v < d; ++v) out.y[i][v] = i == 0 ? y[v] : y[v] + a[i] * dt * out.k[i - 1][v];
    system.reduced_rhs(out.y[i].data(), out.k[i].data());
    const double share = extrapolation(held, previous != nullptr, i);
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const double slope = share == 0 ? 0.0 : closure[j] - previous[j];
      out.k[i][targets[j]] += closure[j] + share * slope;
    }
  }
}

}  // namespace

std::string_view to_string(Hold hold) {
  switch (hold) {
    case Hold::zero:
      return "zero";
    case Hold::linear:
      return "linear";
    case Hold::stage:
      return "stage";
  }
  return "";
}

Hold hold_from(std::string_view name) {
  for (const Hold hold : {Hold::zero, Hold::linear, Hold::stage})
    if (to_string(hold) == name) return hold;
  throw UsageError("unknown hold \"{}\", expected zero, linear or stage", name);
}

std::string_view to_string(Target target) { return target == Target::instant ? "instant" : "mean"; }

Target target_from(std::string_view name) {
  for (const Target target : {Target::instant, Target::mean})
    if (to_string(target) == name) return target;
  throw UsageError("unknown closure target \"{}\", expected instant or mean", name);
}

void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y) {
  Stages at;
  compute_stages(system, dt, held, closure, previous, y, at);
  for (std::size_t v = 0; v < system.resolved_size(); ++v) {
    double slope = 0;
    for (std::size_t i = 0; i < stages; ++i) slope += b[i] * at.k[i][v];
    y[v] += dt * slope;
  }
}

void coupled_step_adjoint(const System& system, double dt, HeldClosure held, const double* closure,
                          const double* previous, const double* y, const double* d_next, double* d_y,
                          double* d_closure, double* d_previous) {
  Stages at;
  compute_stages(system, dt, held, closure, previous, y, at);
  const std::size_t d = system.resolved_size();
  const auto targets = system.closure_targets();

  State d_k, d_stage{};  // of k_i, and of y_{i+1}, through which k_i acts on the stages that follow
  for (std::size_t i = stages; i-- > 0;) {
    for (std::size_t v = 0; v < d; ++v) {
      d_k[v] = dt * b[i] * d_next[v];
      if (i + 1 < stages) d_k[v] += dt * a[i + 1] * d_stage[v];
    }
    const double share = extrapolation(held, previous != nullptr, i);
    for (std::size_t j = 0; j < targets.size(); ++j) {
      d_closure[j] += (1 + share) * d_k[targets[j]];
      if (share != 0) d_previous[j] -= share * d_k[targets[j]];
    }
    d_stage.fill(0);
    system.reduced_rhs_vjp(at.y[i].data(), d_k.data(), d_stage.data());
    for (std::size_t v = 0; v < d; ++v) d_y[v] += d_stage[v];
  }
  for (std::size_t v = 0; v < d; ++v) d_y[v] += d_next[v];
}

}  // namespace mac
