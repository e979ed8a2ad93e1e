// One coupled step of a system with its closure, and its gradient; the method is in mac/held_rk4.hpp.
#include <array>
#include <mac/coupling.hpp>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>

namespace mac {

namespace {

constexpr std::size_t capacity = 64;  // resolved variables, so that a step needs no allocation

using namespace held_rk4;
using State = std::array<double, capacity>;

double share_of_stage(HeldClosure held, bool has_previous, std::size_t stage) {
  if (held.hold != Hold::linear || !has_previous) return 0;
  return share(a[stage], held.target == Target::mean);
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
    stage_state(i, d, dt, y, i == 0 ? nullptr : out.k[i - 1].data(), out.y[i].data());
    system.reduced_rhs(out.y[i].data(), out.k[i].data());
    const double share = share_of_stage(held, previous != nullptr, i);
    for (std::size_t j = 0; j < targets.size(); ++j)
      out.k[i][targets[j]] += line(closure[j], previous ? previous[j] : 0, share);
  }
}

}  // namespace

void coupled_step(const System& system, double dt, HeldClosure held, const double* closure,
                  const double* previous, double* y) {
  Stages at;
  compute_stages(system, dt, held, closure, previous, y, at);
  finish(system.resolved_size(), dt, {at.k[0].data(), at.k[1].data(), at.k[2].data(), at.k[3].data()}, y);
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
    const double share = share_of_stage(held, previous != nullptr, i);
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
