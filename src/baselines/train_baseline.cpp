// From an entry of [[models]] to the file of a baseline: the one place that knows which is which.
#include <fmt/ranges.h>

#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "io/atomic_file.hpp"
#include "io/input_file.hpp"

namespace mac {

std::string train_baseline(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                           const std::string& path, int threads, bool quiet) {
  check_data(experiment, data);
  check_output(path, {experiment.config.source(), data.path()});
  check_writable(path);
  if (plan.kind == "wilks") {
    const WilksFit fit = fit_wilks(data, plan.baseline->seed);
    save_wilks(fit, experiment, path, plan.name);
    return fmt::format("coefficients {:.4g}, R2 {:.3f}, sigma {:.3f}, phi {:.3f}",
                       fmt::join(fit.coefficients, " "), fit.r_squared, fit.sigma, fit.phi);
  }
  if (plan.kind == "polynomial") {
    const PolynomialFit fit = fit_polynomial(data);
    save_polynomial(fit, experiment, path, plan.name);
    return fmt::format("{} coefficients, R2 {:.3f}", fit.coefficients.size(), fit.r_squared);
  }
  MemoryKernelOptions options;
  options.degree = plan.kind == "cubic_memory" ? 3 : 1;
  options.quadrature = plan.baseline->quadrature;
  options.horizon = plan.baseline->horizon;
  options.threads = threads;
  options.quiet = quiet;
  const MemoryKernel kernel = compute_memory_kernel(*experiment.system, options);
  save_memory_kernel(kernel, experiment, path, plan.name);
  return fmt::format("{} functions, {} points per variable, to t = {:g}", kernel.functions(),
                     kernel.quadrature, options.horizon);
}

}  // namespace mac
