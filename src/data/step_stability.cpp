#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <mac/error.hpp>
#include <mac/linear_part.hpp>
#include <mac/rk4.hpp>
#include <mac/step_stability.hpp>

namespace mac {

namespace {

constexpr std::size_t most_states = 64;
constexpr std::size_t most_variables = 512;  // beyond, the eigenvalues would take longer than a user waits
// Of so many variables a step of ETDRK4, which multiplies dense matrices, is reckoned as two of RK4; the network's part
// of a closure step is the same with either.
constexpr double variables_of_twice_the_price = 64;
constexpr double margin = 0.8;  // of the stable step, where several are taken: other states are stiffer

/// dR^/dy, a row a vector-Jacobian product.
Eigen::MatrixXd jacobian(const System& system, const double* y) {
  const std::size_t d = system.resolved_size();
  const auto size = static_cast<Eigen::Index>(d);
  Eigen::MatrixXd transposed = Eigen::MatrixXd::Zero(size, size);
  std::vector<double> unit(d, 0.0);
  for (std::size_t i = 0; i < d; ++i) {
    unit[i] = 1;
    system.reduced_rhs_vjp(y, unit.data(), transposed.col(static_cast<Eigen::Index>(i)).data());
    unit[i] = 0;
  }
  return transposed.transpose();
}

/// What the eigenvalues of a Jacobian say.
struct Modes {
  double fastest = 0;                                     // |lambda| of the decaying ones
  double step = std::numeric_limits<double>::infinity();  // the largest that RK4 takes
};

Modes decaying_modes(const Eigen::MatrixXd& jacobian) {
  Modes modes;
  for (const std::complex<double> lambda : jacobian.eigenvalues()) {
    if (!(lambda.real() < 0)) continue;  // what grows by itself is no matter of the step
    modes.fastest = std::max(modes.fastest, std::abs(lambda));
    modes.step = std::min(modes.step, rk4_largest_stable_step(lambda));
  }
  return modes;
}

/// Steps that a closure step of dt takes, of a method that is stable up to `stable`.
double steps_needed(double dt, double stable) { return dt <= stable ? 1 : std::ceil(dt / (margin * stable)); }

/// Whether ETDRK4 is the better way over dt: by what it costs, or, in steps that are given, by what is stable.
bool exponential_pays(const StepStability& stability, double dt, std::size_t substeps,
                      std::size_t variables) {
  if (!stability.etdrk4_step) return false;
  if (substeps > 0)  // what is stiff need not lie in the linear part
    return dt / static_cast<double>(substeps) > stability.rk4_step &&
           *stability.etdrk4_step > stability.rk4_step;
  const double rk4 = steps_needed(dt, stability.rk4_step),
               exponential = steps_needed(dt, *stability.etdrk4_step);
  const double price = 1 + static_cast<double>(variables) / variables_of_twice_the_price;
  return rk4 > static_cast<double>(most_substeps) ? exponential < rk4 : price * exponential < rk4;
}

/// Fewer where there are many variables, whose eigenvalues take longer.
std::size_t states_to_look_at(std::size_t variables) {
  return std::clamp<std::size_t>(most_states * 32 / variables, 4, most_states);
}

}  // namespace

std::optional<StepStability> step_stability(const System& system, const DataFile& data) {
  const std::size_t d = system.resolved_size();
  if (!system.has_equations() || d > most_variables) return std::nullopt;
  const DataSplit split = data.split(data.has("train") ? "train" : data.splits().front());
  const double dt = data.experiment().data.closure_step();
  const std::size_t all = split.trajectories() * split.times(), count = std::min(all, states_to_look_at(d));
  // Of systems whose parameters vary each has another linear part, which ETDRK4 does not take.
  const std::vector<double> linear =
      data.experiment().family ? std::vector<double>() : linear_part_of(system);
  StepStability result;
  result.rk4_step = std::numeric_limits<double>::infinity();
  if (!linear.empty()) result.etdrk4_step = result.rk4_step;
  std::vector<double> y(d);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * all / count;
    split.read_resolved(at / split.times(), at % split.times(), 1, y.data());
    if (!std::ranges::all_of(y, [](double value) { return std::isfinite(value); }))
      continue;  // a gap of the data
    Eigen::MatrixXd of = jacobian(system, y.data());
    const Modes modes = decaying_modes(of);
    result.largest = std::max(result.largest, modes.fastest * dt);
    result.rk4_step = std::min(result.rk4_step, modes.step);
    result.unstable_share += dt > modes.step ? 1.0 / static_cast<double>(count) : 0;
    if (!result.etdrk4_step) continue;
    for (std::size_t k = 0; k < d * d; ++k)
      of(static_cast<Eigen::Index>(k / d), static_cast<Eigen::Index>(k % d)) -= linear[k];
    result.etdrk4_step = std::min(*result.etdrk4_step, decaying_modes(of).step);
  }
  return result;
}

ReducedStep choose_step(const System& system, const RolloutPlan& plan, const DataFile& data) {
  const double dt = data.experiment().data.closure_step();
  const auto method_of = [](const std::string& name) {
    return name == "etdrk4" ? StepMethod::etdrk4 : StepMethod::rk4;
  };
  if (plan.substeps > 0 && plan.integrator != "auto") return {dt, plan.substeps, method_of(plan.integrator)};
  const auto stability = step_stability(system, data);
  if (!stability) return {dt, std::max<std::size_t>(1, plan.substeps), method_of(plan.integrator)};

  const bool exponential =
      plan.integrator == "etdrk4" ||
      (plan.integrator == "auto" && exponential_pays(*stability, dt, plan.substeps, system.resolved_size()));
  const StepMethod method = exponential ? StepMethod::etdrk4 : StepMethod::rk4;
  if (plan.substeps > 0) return {dt, plan.substeps, method};
  const double stable =
      exponential ? stability->etdrk4_step.value_or(stability->rk4_step) : stability->rk4_step;
  const double needed = steps_needed(dt, stable);
  if (!(needed <= static_cast<double>(most_substeps)))
    throw UsageError(
        "{}: the reduced equations of {} are too stiff for the closure step of {:g}: {} would need steps of "
        "{:.3g}, "
        "and {} in a closure step are the most; declare their linear part, save the data more often (a "
        "smaller "
        "stride), or change the reduced model",
        data.path(), system.name(), dt, exponential ? "ETDRK4" : "RK4", margin * stable, most_substeps);
  return {dt, static_cast<std::size_t>(needed), method};
}

std::optional<std::string> stability_warning(const System& system, const RolloutPlan& plan,
                                             const DataFile& data) {
  const auto stability = step_stability(system, data);
  if (!stability || stability->unstable_share == 0) return std::nullopt;
  const ReducedStep step = choose_step(system, plan, data);
  const bool exponential = step.method == StepMethod::etdrk4;
  const double stable = exponential ? stability->etdrk4_step.value_or(0) : stability->rk4_step;
  const std::string begin = fmt::format(
      "the closure step of {:g} is beyond the stability of RK4 for the reduced equations of {} in {:.0f} % "
      "of the "
      "training states (|lambda| dt up to {:.3g}, RK4 takes 2.78): ",
      step.dt, data.path(), 100 * stability->unstable_share, stability->largest);
  const std::string taken = fmt::format("{} step{} of {}", step.substeps, step.substeps == 1 ? "" : "s",
                                        exponential ? "ETDRK4" : "RK4");
  if (step.dt / static_cast<double>(step.substeps) <= stable)
    return begin + fmt::format("it is taken in {}", taken);
  return begin + fmt::format(
                     "rollouts will blow up whatever the closure in the {} that [rollout] asks for; leave "
                     "substeps out, or save the data more often (a smaller stride)",
                     taken);
}

}  // namespace mac
