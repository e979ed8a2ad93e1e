// 4D-Var with a closure: which initial state, and which memory of the network, fit the observations of a window?
//
//   truth     the two-scale Lorenz '96 system: 8 slow variables X, 256 fast ones (paper: F = 10, c = b = 10, h = 1)
//   model     dX_k/dt = -X_{k-1} (X_{k-2} - X_{k+1}) - X_k + F + U_k,  U = closure(X, memory), RK4, step 0.01
//   given     a forecast (X_b, memory_b) that was started half a time unit ago from a disturbed state, and noisy
//             observations of every other X, each 0.05 time units, over a window of 1
//   sought    X_0 and memory_0 that minimise
//
//     J = |X_0 - X_b|^2 / (2 s_b^2) + |memory_0 - memory_b|^2 / (2 s_m^2) + sum_obs (X_k(t) - o)^2 / (2 s_o^2)
//
// The model runs forwards on a mac tape; the gradient comes back along it, through RK4 (written out below) and
// through the network and its memory (tape.adjoint). L-BFGS does the rest.
#include <chrono>
#include <cstdio>
#include <mac/runtime.hpp>
#include <random>
#include <stdexcept>

#include "lbfgs.hpp"

namespace {

using mac::held_rk4::a;
using mac::held_rk4::b;
using mac::held_rk4::stages;
namespace runtime = mac::runtime;

constexpr std::size_t n = 8, fast = 32;
constexpr double forcing = 10, h = 1, c = 10, ratio = 10;
constexpr std::size_t window = 100, every = 5, spin_up = 50;  // steps of the closure
constexpr double sigma_o = 0.3, sigma_b = 2.0, sigma_m = 0.1, disturbance = 2.5;

double at(std::span<const double> x, std::size_t k, int offset) {
  return x[(k + x.size() + static_cast<std::size_t>(offset + static_cast<int>(x.size()))) % x.size()];
}

/// X and then Y, of the whole system.
Numbers full_rate(const Numbers& state) {
  const std::span<const double> x(state.data(), n), y(state.data() + n, n * fast);
  Numbers rate(state.size());
  for (std::size_t k = 0; k < n; ++k) rate[k] = -at(x, k, -1) * (at(x, k, -2) - at(x, k, 1)) - x[k] + forcing;
  for (std::size_t j = 0; j < n * fast; ++j) {
    rate[j / fast] -= h * c / ratio * y[j];
    rate[n + j] =
        -c * ratio * at(y, j, 1) * (at(y, j, 2) - at(y, j, -1)) - c * y[j] + h * c / ratio * x[j / fast];
  }
  return rate;
}

void full_step(Numbers& state, double dt) {
  Numbers k, sum(state.size());
  for (std::size_t i = 0; i < stages; ++i) {
    Numbers stage(state);
    for (std::size_t v = 0; i > 0 && v < stage.size(); ++v) stage[v] += a(i) * dt * k[v];
    k = full_rate(stage);
    for (std::size_t v = 0; v < sum.size(); ++v) sum[v] += b(i) * k[v];
  }
  for (std::size_t v = 0; v < sum.size(); ++v) state[v] += dt * sum[v];
}

/// The slow equations without U, and Jᵀ g of them.
void slow_rate(std::span<const double> x, std::span<double> rate) {
  for (std::size_t k = 0; k < n; ++k) rate[k] = -at(x, k, -1) * (at(x, k, -2) - at(x, k, 1)) - x[k] + forcing;
}
void add_slow_adjoint(std::span<const double> x, std::span<const double> g, std::span<double> gx) {
  const auto place = [](std::size_t k, int offset) {
    return (k + n + static_cast<std::size_t>(offset + 8)) % n;
  };
  for (std::size_t k = 0; k < n; ++k) {
    gx[place(k, -1)] -= g[k] * (at(x, k, -2) - at(x, k, 1));
    gx[place(k, -2)] -= g[k] * at(x, k, -1);
    gx[place(k, 1)] += g[k] * at(x, k, -1);
    gx[k] -= g[k];
  }
}

/// What a coupled step needs again on the way back.
struct Step {
  Numbers stage[stages];
  double share[stages];
};

class Model {
 public:
  explicit Model(const runtime::Model& closure)
      : dt(closure.closure_step().value()),
        held_{closure.hold() == runtime::Hold::stage ? runtime::Hold::zero : closure.hold(),
              closure.target()},
        tape_(closure, 1, window) {}

  const double dt;

  /// x over one step with the closure, now and before.
  Step advance(Numbers& x, const Numbers& closure, const Numbers& previous) const {
    Step step;
    Numbers k(n), sum(n);
    for (std::size_t i = 0; i < stages; ++i) {
      step.stage[i] = x;
      for (std::size_t v = 0; i > 0 && v < n; ++v) step.stage[i][v] += a(i) * dt * k[v];
      step.share[i] = mac::held_rk4::share(held_, true, a(i));
      slow_rate(step.stage[i], k);
      for (std::size_t v = 0; v < n; ++v) {
        k[v] += mac::held_rk4::line(closure[v], previous[v], step.share[i]);
        sum[v] += b(i) * k[v];
      }
    }
    for (std::size_t v = 0; v < n; ++v) x[v] += dt * sum[v];
    return step;
  }

  /// g of x after the step becomes that of x before it; those of the closures are added to.
  void adjoint(const Step& step, Numbers& g, Numbers& g_closure, Numbers& g_previous) const {
    const Numbers g_next(g);
    Numbers g_later(n);  // of k_i through the stage after it
    for (std::size_t i = stages; i-- > 0;) {
      Numbers g_k(n), g_stage(n);
      for (std::size_t v = 0; v < n; ++v) {
        g_k[v] = dt * b(i) * g_next[v] + g_later[v];
        g_closure[v] += (1 + step.share[i]) * g_k[v];
        g_previous[v] -= step.share[i] * g_k[v];
      }
      add_slow_adjoint(step.stage[i], g_k, g_stage);
      for (std::size_t v = 0; v < n; ++v) {
        g[v] += g_stage[v];
        g_later[v] = a(i) * dt * g_stage[v];
      }
    }
  }

  runtime::Tape& tape() { return tape_; }

 private:
  mac::HeldClosure held_;
  runtime::Tape tape_;
};

struct Background {
  Numbers x, memory, previous;  // the last prediction before the window
};

struct Observation {
  std::size_t step, variable;
  double value;
};

/// J and its gradient; the control is X_0, then memory_0 in units of sigma_m / sigma_b, so that all numbers count alike.
class Cost {
 public:
  Cost(const runtime::Model& closure, const Background& background, std::vector<Observation> observations)
      : model_(closure),
        state_(closure.state()),
        background_(background),
        observations_(std::move(observations)) {}

  double operator()(const Numbers& control, Numbers& gradient) {
    constexpr double unit = sigma_m / sigma_b;
    Numbers x(control.begin(), control.begin() + n), memory(background_.memory);
    double cost = 0;
    for (std::size_t i = 0; i < control.size(); ++i) {
      const double away = i < n ? control[i] - background_.x[i] : control[i];
      if (i >= n) memory[i - n] += unit * away;
      cost += away * away / (2 * sigma_b * sigma_b);
      gradient[i] = away / (sigma_b * sigma_b);
    }
    state_.set_memory(memory);
    model_.tape().clear();
    std::vector<Numbers> closures{background_.previous}, misfits(window + 1, Numbers(n));
    std::vector<Step> steps;
    for (std::size_t t = 0;; ++t) {
      for (const Observation& o : observations_)
        if (o.step == t) {
          const double misfit = x[o.variable] - o.value;
          cost += misfit * misfit / (2 * sigma_o * sigma_o);
          misfits[t][o.variable] = misfit / (sigma_o * sigma_o);
        }
      if (t == window) break;
      closures.emplace_back(n);
      model_.tape().step(state_, x, closures.back());
      steps.push_back(model_.advance(x, closures[t + 1], closures[t]));
    }

    Numbers g = misfits[window], g_memory(memory.size()), g_closure(n), g_previous(n), g_x(n);
    for (std::size_t t = window; t-- > 0;) {
      g_previous.assign(n, 0);
      model_.adjoint(steps[t], g, g_closure, g_previous);
      model_.tape().adjoint(t, g_closure, g_memory, g_x);
      for (std::size_t v = 0; v < n; ++v) g[v] += g_x[v] + misfits[t][v];
      g_closure = g_previous;  // the closure of the step before
    }
    for (std::size_t v = 0; v < n; ++v) gradient[v] += g[v];
    for (std::size_t i = 0; i < g_memory.size(); ++i) gradient[n + i] += unit * g_memory[i];
    return cost;
  }

 private:
  Model model_;
  runtime::State state_;
  Background background_;
  std::vector<Observation> observations_;
};

double error(const Numbers& x, const Numbers& truth) {
  double sum = 0;
  for (std::size_t v = 0; v < n; ++v) sum += (x[v] - truth[v]) * (x[v] - truth[v]);
  return std::sqrt(sum / n);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: assimilate MODEL.safetensors");
  const runtime::Model closure(argv[1], runtime::Precision::float64);
  if (closure.system() != "lorenz96" || closure.inputs() != n)
    throw std::runtime_error(std::string(argv[1]) + ": is not a closure for the Lorenz '96 system");
  const auto begin = std::chrono::steady_clock::now();
  Model model(closure);
  const auto substeps = static_cast<std::size_t>(std::lround(model.dt / 0.0025));
  double background_sum = 0, state_only_sum = 0, analysis_sum = 0, forecast_sum = 0, free_sum = 0;
  constexpr int cases = 4;
  std::printf("case   background   X_0 alone   X_0 and memory   evaluations\n");
  for (int number = 0; number < cases; ++number) {
    std::mt19937_64 random(static_cast<std::uint64_t>(number) + 1);
    std::normal_distribution<double> normal;
    Numbers full(n + n * fast);
    for (std::size_t i = 0; i < full.size(); ++i) full[i] = i < n ? 1 + normal(random) : 0.1 * normal(random);
    const auto advance_truth = [&](std::size_t steps) {
      for (std::size_t s = 0; s < steps * substeps; ++s)
        full_step(full, model.dt / static_cast<double>(substeps));
    };
    const auto slow = [&] { return Numbers(full.begin(), full.begin() + n); };
    advance_truth(500);

    // The forecast: from a disturbed state, memory at rest, half a time unit before the window.
    Numbers x = slow(), closure_now(n), closure_before(n);
    for (double& value : x) value += disturbance * normal(random);
    runtime::State state = closure.state();
    for (std::size_t t = 0; t < spin_up; ++t) {
      std::swap(closure_now, closure_before);
      state.step(x, closure_now);
      model.advance(x, closure_now, t == 0 ? closure_now : closure_before);
    }
    advance_truth(spin_up);
    const Background background{x, state.memory(), closure_now};

    // The truth of the window, and what is seen of it.
    std::vector<Numbers> truth{slow()};
    std::vector<Observation> observations;
    for (std::size_t t = 1; t <= window; ++t) {
      advance_truth(1);
      truth.push_back(slow());
      for (std::size_t v = 0; t % every == 0 && v < n; v += 2)
        observations.push_back({t, v, truth[t][v] + sigma_o * normal(random)});
    }

    Cost cost(closure, background, observations);
    const auto estimate = [&](bool with_memory, int& evaluations) {
      Numbers control(n + background.memory.size());
      std::copy(background.x.begin(), background.x.end(), control.begin());
      if (!with_memory) control.resize(n);
      evaluations = minimise(
          [&](const Numbers& of, Numbers& gradient) {
            Numbers all(of), all_gradient(n + background.memory.size());
            all.resize(all_gradient.size());
            const double value = cost(all, all_gradient);
            std::copy_n(all_gradient.begin(), gradient.size(), gradient.begin());
            return value;
          },
          control, 60);
      return control;
    };
    int few = 0, evaluations = 0;
    const Numbers state_only = estimate(false, few), analysis = estimate(true, evaluations);
    const double before = error(background.x, truth[0]), without = error(state_only, truth[0]),
                 after = error(analysis, truth[0]);
    background_sum += before, state_only_sum += without, analysis_sum += after;
    std::printf("%4d %12.3f %11.3f %16.3f %13d\n", number + 1, before, without, after, evaluations);

    // The end of the window, from the background and from the analysis.
    const auto end_error = [&](Numbers at_end, const Numbers& memory) {
      runtime::State run = closure.state();
      run.set_memory(memory);
      Numbers now(n), previous = background.previous;
      for (std::size_t t = 0; t < window; ++t) {
        run.step(at_end, now);
        model.advance(at_end, now, previous);
        previous = now;
      }
      return error(at_end, truth[window]);
    };
    Numbers memory = background.memory;
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] += sigma_m / sigma_b * analysis[n + i];
    free_sum += end_error(background.x, background.memory);
    forecast_sum += end_error(Numbers(analysis.begin(), analysis.begin() + n), memory);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("mean %12.3f %11.3f %16.3f\n", background_sum / cases, state_only_sum / cases,
              analysis_sum / cases);
  std::printf(
      "the error of the initial state falls by a factor of %.1f, at the end of the window by %.1f; %.1f s\n",
      background_sum / analysis_sum, free_sum / forecast_sum, seconds);
  return background_sum > 2 * analysis_sum ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "assimilate: %s\n", error.what());
  return 1;
}
