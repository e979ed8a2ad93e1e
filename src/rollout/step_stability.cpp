#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <mac/rk4.hpp>
#include <mac/step_stability.hpp>

namespace mac {

namespace {

constexpr std::size_t most_states = 64;
constexpr std::size_t most_variables = 512;  // beyond, the eigenvalues would take longer than a user waits

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

}  // namespace

std::optional<StepStability> step_stability(const System& system, const DataFile& data) {
  const std::size_t d = system.resolved_size();
  if (!system.has_equations() || d > most_variables) return std::nullopt;
  const DataSplit split = data.split(data.has("train") ? "train" : data.splits().front());
  const double dt = data.experiment().data.closure_step();
  const std::size_t all = split.trajectories() * split.times(), count = std::min(all, most_states);
  StepStability result;
  std::vector<double> y(d);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i * all / count;
    split.read_resolved(at / split.times(), at % split.times(), 1, y.data());
    bool unstable = false;
    for (const std::complex<double> lambda : jacobian(system, y.data()).eigenvalues()) {
      if (!(lambda.real() < 0)) continue;  // what grows by itself is no matter of the step
      result.largest = std::max(result.largest, std::abs(lambda) * dt);
      unstable = unstable || dt > rk4_largest_stable_step(lambda);
    }
    result.unstable_share += unstable ? 1.0 / static_cast<double>(count) : 0;
  }
  return result;
}

std::optional<std::string> stability_warning(const System& system, const DataFile& data) {
  const auto stability = step_stability(system, data);
  if (!stability || stability->unstable_share == 0) return std::nullopt;
  return fmt::format(
      "the closure step of {:g} is beyond the stability of RK4 for the reduced equations of {} in {:.0f} % "
      "of the "
      "training states (|lambda| dt up to {:.3g}, RK4 takes 2.78): rollouts will blow up whatever the "
      "closure; "
      "save the data more often (a smaller stride)",
      data.experiment().data.closure_step(), data.path(), 100 * stability->unstable_share,
      stability->largest);
}

}  // namespace mac
