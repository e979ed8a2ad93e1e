// Memory kernels on disk: HDF5 with
//   degrees  (J, 2M)         multi-indices of the basis
//   kernel   (J, 2M, times)  K_{nu j}(t), t = 0, step, 2 step, ..
// and how they were computed as attributes.
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "baselines/model_file.hpp"

namespace mac {

namespace {
constexpr const char* kind = "memory_kernel";
}

void save_memory_kernel(const MemoryKernel& kernel, const Experiment& experiment, const std::string& path,
                        const std::string& name) {
  write_baseline(path, kind, name, experiment, [&](h5::File& file) {
    const std::size_t functions = kernel.functions(), variables = kernel.variables;
    file.set_attribute("/", "degree", static_cast<double>(kernel.degree));
    file.set_attribute("/", "quadrature", static_cast<double>(kernel.quadrature));
    file.set_attribute("/", "grid", static_cast<double>(kernel.grid));
    file.set_attribute("/", "step", kernel.step);
    const std::vector<double> degrees(kernel.degrees.begin(), kernel.degrees.end());
    file.create_dataset("/degrees", {functions, variables})
        .write({0, 0}, {functions, variables}, degrees.data());
    // A chunk is a series: those that vanish by symmetry take no space.
    file.create_dataset("/kernel", {functions, variables, kernel.times}, {1, 1, kernel.times})
        .write({0, 0, 0}, {functions, variables, kernel.times}, kernel.values.data());
  });
}

MemoryKernel load_memory_kernel(const std::string& path) {
  const h5::File file = open_baseline(path, kind);
  const auto whole = [&](const char* name, double low, double high) {
    const double value = file.number_attribute("/", name);
    if (!(value >= low && value <= high) || value != std::floor(value))
      throw Error("{}: attribute \"{}\" is {}, expected a whole number from {} to {}", path, name, value, low,
                  high);
    return static_cast<std::size_t>(value);
  };
  MemoryKernel kernel;
  kernel.degree = whole("degree", 1, 16);
  kernel.quadrature = whole("quadrature", 1, 64);
  kernel.grid = whole("grid", 8, 1 << 20);
  kernel.step = file.number_attribute("/", "step");
  if (!(kernel.step > 0)) throw Error("{}: attribute \"step\" is {}, expected a time > 0", path, kernel.step);

  const h5::Dataset degrees = file.dataset("/degrees"), values = file.dataset("/kernel");
  const auto& dims = values.dims();
  if (dims.size() != 3 || dims[1] == 0 || dims[1] % 2 != 0 || dims[2] < 2 ||
      degrees.dims() != std::vector<std::size_t>{dims[0], dims[1]})
    throw Error("{}: /degrees is ({}) and /kernel is ({}), expected (J, 2M) and (J, 2M, times)", path,
                fmt::join(degrees.dims(), ", "), fmt::join(dims, ", "));
  kernel.variables = dims[1];
  kernel.times = dims[2];
  for (const double value : degrees.read_all()) {
    if (!(value >= 0 && value <= static_cast<double>(kernel.degree)) || value != std::floor(value))
      throw Error("{}: /degrees holds {}, expected whole numbers up to {}", path, value, kernel.degree);
    kernel.degrees.push_back(static_cast<std::size_t>(value));
  }
  for (std::size_t i = 0; i < dims[0]; ++i) {
    std::size_t total = 0;
    for (std::size_t l = 0; l < dims[1]; ++l) total += kernel.degrees[i * dims[1] + l];
    if (total > kernel.degree)
      throw Error("{}: /degrees, row {}: the total degree {} is above {}", path, i, total, kernel.degree);
  }
  kernel.values = values.read_all();
  for (const double value : kernel.values)
    if (!std::isfinite(value)) throw Error("{}: /kernel holds a number that is not finite", path);
  return kernel;
}

}  // namespace mac
