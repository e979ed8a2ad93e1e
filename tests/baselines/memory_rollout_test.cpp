// Rollouts with memory kernels: the published errors, a plain loop over the whole past, saved steps of any
// commensurate size.
#include <gtest/gtest.h>

#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <map>
#include <numbers>

#include "baselines/hermite.hpp"
#include "support/files.hpp"

namespace mac {
namespace {

using test::read_bytes;
using test::ScratchFolder;

std::shared_ptr<const MemoryKernel> kernel_of(const System& system, std::size_t degree, double horizon,
                                              std::size_t quadrature = 3) {
  MemoryKernelOptions options;
  options.degree = degree;
  options.quadrature = quadrature;
  options.horizon = horizon;
  options.quiet = true;
  return std::make_shared<MemoryKernel>(compute_memory_kernel(system, options));
}

Experiment study(const std::string& system, double dt, int stride, double horizon) {
  return Experiment::parse(
      fmt::format("[system]\nname = '{}'\ngrid = {}\n[data]\ndt = {}\nstride = {}\n[data.ood]\nhorizon = {}\n"
                  "initial = {{ kind = 'fields', fields = ['sin', 'exp_sin'] }}\n",
                  system, system == "kdv" ? 256 : 128, dt, stride, horizon),
      "study.toml");
}

RolloutSplit roll(const ClosureModel& model, const Experiment& experiment, int threads = 1) {
  const ScratchFolder folder;
  generate(experiment, folder.file("data.h5"), {1, true});
  rollout(model, DataFile::open(folder.file("data.h5")), folder.file("out.h5"), {{}, threads, true});
  return RolloutFile::open(folder.file("out.h5")).splits.front();
}

/// sqrt(int |u - u^|^2 dx) of trajectory i at time t over the resolved modes.
double l2_error(const RolloutSplit& split, std::size_t i, double t) {
  const std::size_t times = split.time.size(), n = static_cast<std::size_t>(std::lround(t / split.time[1]));
  double sum = 0;
  for (std::size_t l = 0; l < 6; ++l)
    sum +=
        std::pow(split.resolved[(i * times + n) * 6 + l] - split.true_resolved[(i * times + n) * 6 + l], 2);
  return std::sqrt(4 * std::numbers::pi * sum);
}

struct Published {
  std::size_t trajectory;  // 0: sin x, 1: projected e^{sin x}
  double t, error;
};

void expect_published(const std::string& system, std::size_t degree, double horizon, double tolerance,
                      const std::vector<Published>& table, std::size_t quadrature = 3) {
  const Experiment experiment = study(system, 1e-3, 10, horizon);
  const auto split = roll(
      *make_memory_model(kernel_of(*experiment.system, degree, horizon, quadrature), "memory"), experiment);
  for (const Published& entry : table)
    EXPECT_NEAR(l2_error(split, entry.trajectory, entry.t) / entry.error, 1, tolerance)
        << system << ", degree " << degree << ", trajectory " << entry.trajectory << ", t = " << entry.t;
}

// The published errors have three digits: half a unit of the last is up to 0.5 % (0.7 % for .0084).
TEST(MemoryRollout, OfLinearKernelsHasThePublishedErrorsForBurgers) {
  expect_published("burgers", 1, 2, 0.005, {{0, 1, .0503}, {0, 2, .0602}, {1, 1, .0798}, {1, 2, .0954}});
}
TEST(MemoryRollout, OfCubicKernelsHasThePublishedErrorsForBurgers) {
  expect_published("burgers", 3, 2, 0.007, {{0, 1, .0145}, {0, 2, .0163}, {1, 1, .0154}, {1, 2, .0084}});
}
TEST(MemoryRollout, OfLinearKernelsHasThePublishedErrorsForKdv) {
  expect_published("kdv", 1, 1, 0.005, {{0, 1, .1627}, {1, 1, .2322}});
}

// The whole table, some of it with two digits: half a unit of the last is up to 2 %.
TEST(LongMemoryRollout, OfLinearKernelsHasThePublishedErrorsToTime20) {
  expect_published("burgers", 1, 20, 0.01,
                   {{0, 5, .0236}, {0, 10, .0145}, {0, 20, .0048}, {1, 2, .0954}, {1, 10, .0180}});
}
TEST(LongMemoryRollout, OfCubicKernelsHasThePublishedErrorsToTime10) {
  expect_published("burgers", 3, 10, 0.02, {{0, 2, .0163}, {0, 5, .0062}, {0, 10, .0027}, {1, 10, .0030}});
}
TEST(LongMemoryRollout, OfCubicKernelsWithFourPointsHasThePublishedErrors) {
  expect_published("burgers", 3, 2, 0.02, {{0, 1, .0025}, {0, 2, .0036}, {1, 1, .0129}, {1, 2, .0130}}, 4);
}
TEST(LongMemoryRollout, OfCubicKernelsHasThePublishedErrorsForKdv) {
  expect_published("kdv", 3, 1, 0.005, {{0, 1, .0799}, {1, 1, .0798}});
}
TEST(LongMemoryKernel, EndsAtThePublishedValueAtTime20) {
  const Experiment experiment = study("burgers", 1e-3, 10, 20);
  const auto kernel = kernel_of(*experiment.system, 1, 20);
  for (std::size_t nu = 0; nu < 7; ++nu)
    if (kernel->degrees[nu * 6] == 1) {
      EXPECT_NEAR(kernel->series(nu, 0)[20000], 1.70177e-5, 1e-10);  // phi1 phi1; six digits published
    }
}

/// Heun with the convolution summed anew, over all of the past, in both stages.
std::vector<double> plain_rollout(const System& system, const MemoryKernel& kernel, std::vector<double> y,
                                  std::size_t steps) {
  const HermiteBasis basis(6, kernel.degree, kernel.degrees);
  const double dt = kernel.step;
  std::vector<std::vector<double>> past;
  const auto rhs = [&](const std::vector<std::vector<double>>& states) {
    std::vector<double> rate(6), x(6), h(basis.size()), work(basis.work_size());
    system.reduced_rhs(states.back().data(), rate.data());
    const std::size_t n = states.size() - 1;
    for (std::size_t m = 0; n > 0 && m <= n; ++m) {
      for (std::size_t l = 0; l < 6; ++l) x[l] = states[m][l] * std::exp(static_cast<double>(l % 3 + 1));
      basis.evaluate(x.data(), h.data(), work.data());
      for (std::size_t nu = 0; nu < basis.size(); ++nu)
        for (std::size_t j = 0; j < 6; ++j)
          rate[j] += (m == 0 || m == n ? dt / 2 : dt) * kernel.series(nu, j)[n - m] * h[nu];
    }
    return rate;
  };
  past.push_back(y);
  for (std::size_t n = 0; n < steps; ++n) {
    const auto k1 = rhs(past);
    auto next = past.back();
    for (std::size_t l = 0; l < 6; ++l) next[l] += dt * k1[l];
    past.push_back(next);
    const auto k2 = rhs(past);
    for (std::size_t l = 0; l < 6; ++l) past[n + 1][l] = past[n][l] + dt / 2 * (k1[l] + k2[l]);
  }
  return past.back();
}

TEST(MemoryRollout, IsHeunWithTheWholePastSummedInBothStages) {
  const Experiment experiment = study("burgers", 1e-3, 1, 0.2);
  for (const std::size_t degree : {1u, 3u}) {
    const auto kernel = kernel_of(*experiment.system, degree, 0.2);
    const auto split = roll(*make_memory_model(kernel, "memory"), experiment);
    const std::vector<double> start(split.resolved.begin() + 201 * 6, split.resolved.begin() + 202 * 6);
    const auto plain = plain_rollout(*experiment.system, *kernel, start, 200);
    for (std::size_t l = 0; l < 6; ++l)  // the order of the sums differs: 200 steps of rounding
      EXPECT_NEAR(split.resolved[(201 + 200) * 6 + l], plain[l], 1e-14) << "degree " << degree;
  }
}

TEST(MemoryRollout, DoesNotDependOnHowOftenItIsSaved) {
  const auto kernel = kernel_of(*study("burgers", 1e-3, 1, 0.2).system, 1, 0.2);
  const auto model = make_memory_model(kernel, "memory");
  const auto each = roll(*model, study("burgers", 1e-3, 1, 0.2)),
             tenth = roll(*model, study("burgers", 1e-3, 10, 0.2)),
             fine = roll(*model, study("burgers", 2.5e-4, 1, 0.2));
  for (std::size_t l = 0; l < 6; ++l) {
    EXPECT_EQ(each.resolved[200 * 6 + l], tenth.resolved[20 * 6 + l]);
    EXPECT_EQ(each.closure[200 * 6 + l], tenth.closure[20 * 6 + l]);
    EXPECT_EQ(each.resolved[200 * 6 + l], fine.resolved[800 * 6 + l]);
    EXPECT_EQ(each.closure[200 * 6 + l], fine.closure[800 * 6 + l]);
  }
  // Between the kernel's times: a jump would show in the second differences, which are dt^2 y'' ~ 1e-7.
  for (std::size_t n = 1; n < 800; ++n)
    for (std::size_t l = 0; l < 6; ++l)
      EXPECT_LT(std::abs(fine.resolved[(n + 1) * 6 + l] - 2 * fine.resolved[n * 6 + l] +
                         fine.resolved[(n - 1) * 6 + l]),
                5e-7)
          << n;
}

TEST(MemoryRollout, HasALinearClosureBetweenTheKernelsTimes) {
  const auto kernel = kernel_of(*study("burgers", 1e-3, 1, 0.1).system, 1, 0.1);
  const auto fine = roll(*make_memory_model(kernel, "memory"), study("burgers", 2.5e-4, 1, 0.1));
  for (std::size_t m = 0; m < 100; ++m)
    for (std::size_t part = 1; part < 4; ++part)
      for (std::size_t l = 0; l < 6; ++l) {
        const double s = static_cast<double>(part) / 4, start = fine.closure[4 * m * 6 + l],
                     end = fine.closure[4 * (m + 1) * 6 + l];
        EXPECT_NEAR(fine.closure[(4 * m + part) * 6 + l], (1 - s) * start + s * end, 1e-15);  // rounding
      }
}

TEST(MemoryRollout, IsTheSameForAnyGroupingOfTrajectories) {
  const Experiment experiment = study("burgers", 1e-3, 10, 0.1);
  const auto model = make_memory_model(kernel_of(*experiment.system, 3, 0.1), "memory");
  const auto together = roll(*model, experiment, 1), apart = roll(*model, experiment, 2);
  EXPECT_EQ(together.resolved, apart.resolved);
  EXPECT_EQ(together.closure, apart.closure);
}

TEST(MemoryRollout, RefusesStepsAndHorizonsThatDoNotFit) {
  const auto model = make_memory_model(kernel_of(*study("burgers", 1e-3, 1, 1).system, 1, 0.1), "memory");
  EXPECT_THROW(roll(*model, study("burgers", 1e-3, 10, 0.2)), UsageError);
  EXPECT_THROW(roll(*model, study("burgers", 7.5e-4, 1, 0.09)), UsageError);
}

}  // namespace
}  // namespace mac
