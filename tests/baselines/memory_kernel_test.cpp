// Memory kernels against the published digits, and the file that keeps them.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "support/files.hpp"
#include "systems/fourier.hpp"
#include "systems/make.hpp"

namespace mac {
namespace {

using test::make;
using test::ScratchFolder;

MemoryKernelOptions short_kernel(std::size_t degree, double horizon) {
  MemoryKernelOptions options;
  options.degree = degree;
  options.horizon = horizon;
  options.threads = 1;
  options.quiet = true;
  return options;
}

/// K_{nu j} with h_nu = x_j.
const double* diagonal(const MemoryKernel& kernel, std::size_t j) {
  for (std::size_t nu = 0; nu < kernel.functions(); ++nu) {
    std::size_t total = 0;
    for (std::size_t l = 0; l < kernel.variables; ++l) total += kernel.degrees[nu * kernel.variables + l];
    if (total == 1 && kernel.degrees[nu * kernel.variables + j] == 1) return kernel.series(nu, j);
  }
  throw Error("no linear function of variable {}", j);
}

TEST(ClosureRate, IsTheDerivativeOfTheClosureAlongTheFlow) {
  for (const char* name : {"burgers", "kdv"}) {
    const auto system = make(fmt::format("name = '{}'\ngrid = 64", name));
    const auto condition = system->initial_condition(nullptr);
    const double dt = 1e-4;
    const auto solver = system->make_solver(dt);
    solver->start(test::sample(*system, *condition, 1));
    for (int i = 0; i < 3000; ++i) solver->step();  // until the unresolved modes are alive
    std::vector<double> before(6), after(6), rate(6), full_rate(system->full_size());
    solver->closure(before);
    solver->step();
    solver->full_rhs(solver->state(), full_rate);
    closure_rate(3, 31, 1, solver->state().data(), full_rate.data(), rate.data());
    solver->step();
    solver->closure(after);
    // Central difference: dt^2/6 of the third derivative, 1e-9 times a few hundred for KdV's fast modes.
    for (std::size_t j = 0; j < 6; ++j) EXPECT_NEAR(rate[j], (after[j] - before[j]) / (2 * dt), 1e-6) << name;
  }
}

TEST(MemoryKernel, StartsAtThePublishedDigits) {
  // K(0) does not depend on the linear operator: both systems share it.
  const double published[3] = {-7.295055724436e-3, -4.636928738471e-2, -1.935099398918e-1};
  for (const char* name : {"burgers", "kdv"}) {
    const MemoryKernel kernel =
        compute_memory_kernel(*make(fmt::format("name = '{}'", name)), short_kernel(1, 2e-3));
    for (std::size_t j = 0; j < 6; ++j)
      EXPECT_NEAR(diagonal(kernel, j)[0] / published[j % 3], 1, 2e-13) << name << j;  // the last digit given
  }
}

TEST(MemoryKernel, TakesSmallerSolverStepsWhereItsOwnAreUnstable) {
  // Diffusion on 128 points allows dt = 6.8e-3.
  const auto system = make("name = 'burgers'");
  const auto kernel = [&](double step) {
    MemoryKernelOptions options = short_kernel(1, 0.64);
    options.step = step;
    return compute_memory_kernel(*system, options);
  };
  const MemoryKernel coarse = kernel(0.02), fine = kernel(0.005);
  EXPECT_EQ(coarse.grid, 128u);
  for (std::size_t nu = 0; nu < coarse.functions(); ++nu)
    for (std::size_t j = 0; j < 6; ++j)
      for (std::size_t t = 0; t < coarse.times; ++t)
        EXPECT_NEAR(coarse.series(nu, j)[t], fine.series(nu, j)[4 * t], 1e-4);  // of the trapezoid rule
}

TEST(MemoryKernel, IsTheSameBitsForAnyThreadCount) {
  const auto system = make("name = 'burgers'");
  MemoryKernelOptions options = short_kernel(3, 0.1);
  const MemoryKernel one = compute_memory_kernel(*system, options);
  options.threads = 3;
  EXPECT_EQ(one.values, compute_memory_kernel(*system, options).values);
}

TEST(MemoryKernel, TakesAFinerGridWhereTheFieldsSteepen) {
  const auto mild = make("name = 'burgers'\nviscosity = 0.3"),
             sharp = make("name = 'burgers'\nviscosity = 0.05");
  EXPECT_EQ(compute_memory_kernel(*mild, short_kernel(1, 0.5)).grid, 128u);
  EXPECT_GE(compute_memory_kernel(*sharp, short_kernel(1, 0.5)).grid, 256u);
}

TEST(MemoryKernel, IsRefusedForASystemWithoutFourierModes) {
  EXPECT_THROW(compute_memory_kernel(*make("name = 'lorenz96'"), short_kernel(1, 0.1)), UsageError);
}

const char* const study =
    "[system]\nname = 'burgers'\n[data]\ndt = 1e-4\n[data.test]\ntrajectories = 1\nhorizon = 1\n";

TEST(MemoryFile, ReturnsWhatWasSaved) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(study, "study.toml");
  const MemoryKernel kernel = compute_memory_kernel(*experiment.system, short_kernel(1, 0.05));
  save_memory_kernel(kernel, experiment, folder.file("kernel.h5"), "linear_memory");
  const MemoryKernel loaded = load_memory_kernel(folder.file("kernel.h5"));
  EXPECT_EQ(loaded.values, kernel.values);
  EXPECT_EQ(loaded.degrees, kernel.degrees);
  EXPECT_EQ(loaded.step, kernel.step);
  EXPECT_EQ(loaded.quadrature, kernel.quadrature);
  EXPECT_TRUE(is_baseline(folder.file("kernel.h5")));
  EXPECT_EQ(load_baseline(folder.file("kernel.h5"), *experiment.system)->name(), "linear_memory");
  EXPECT_EQ(load_baseline(folder.file("kernel.h5"), *experiment.system, "other")->name(), "other");
  EXPECT_THROW(load_baseline(folder.file("kernel.h5"), *make("name = 'kdv'")), UsageError);
}

TEST(MemoryFile, ThatIsDamagedIsRefusedWithItsName) {
  const ScratchFolder folder;
  const Experiment experiment = Experiment::parse(study, "study.toml");
  MemoryKernel kernel = compute_memory_kernel(*experiment.system, short_kernel(1, 0.01));
  const auto refused = [&](const MemoryKernel& broken, const std::string& reason) {
    save_memory_kernel(broken, experiment, folder.file("broken.h5"), "broken");
    try {
      load_baseline(folder.file("broken.h5"), *experiment.system);
      ADD_FAILURE() << "accepted: " << reason;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("broken.h5"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  MemoryKernel broken = kernel;
  broken.values[3] = NAN;
  refused(broken, "not finite");
  broken = kernel;
  broken.degrees[1] = 2;
  refused(broken, "/degrees");
  broken = kernel;
  broken.step = 0;
  refused(broken, "step");
  broken = kernel;
  broken.variables = 1;
  broken.degrees = {1};
  broken.values.resize(broken.times);
  refused(broken, "expected (J, 2M)");
  const std::string bytes = test::read_bytes(folder.file("broken.h5"));
  test::write_bytes(folder.file("cut.h5"), bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(load_baseline(folder.file("cut.h5"), *experiment.system), Error);
}

}  // namespace
}  // namespace mac
