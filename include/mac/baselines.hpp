// Closures that were there before networks: what a learned one has to beat. Each is fitted or computed once,
// saved in an HDF5 file that says where it comes from, and rolled out like any other model. `name` is the
// model's name in files and tables.
#pragma once

#include <array>
#include <cstdint>
#include <mac/rollout.hpp>
#include <memory>
#include <string>
#include <vector>

namespace mac {

/// A polynomial of degree 4 in each variable and AR(1) noise (src/baselines/wilks.cpp).
struct WilksFit {
  std::array<double, 5> coefficients{};
  double phi = 0;    // autocorrelation of the residual over one step
  double sigma = 0;  // its standard deviation
  double r_squared = 0;
  double step = 0;  // of the data it was fitted to
  std::uint64_t seed = 0;
};
/// All fits use the train split and throw UsageError for a system they are not made for.
WilksFit fit_wilks(const DataFile& data, std::uint64_t seed);
std::unique_ptr<ClosureModel> make_wilks(const WilksFit& fit, std::string name);
void save_wilks(const WilksFit& fit, const Experiment& experiment, const std::string& path,
                const std::string& name);
WilksFit load_wilks(const std::string& path);

/// A polynomial in each variable and its neighbours on the ring (src/baselines/polynomial.cpp).
struct PolynomialFit {
  std::array<double, 14> coefficients{};
  double r_squared = 0;
  double step = 0;
};
PolynomialFit fit_polynomial(const DataFile& data);
std::unique_ptr<ClosureModel> make_polynomial(const PolynomialFit& fit, std::string name);
void save_polynomial(const PolynomialFit& fit, const Experiment& experiment, const std::string& path,
                     const std::string& name);
PolynomialFit load_polynomial(const std::string& path);

/// Mori–Zwanzig memory kernels of a Fourier system (Burgers, KdV); see src/baselines/memory_kernel.cpp.
struct MemoryKernelOptions {
  std::size_t degree = 1;      // of the Hermite basis: 1 linear, 3 cubic
  std::size_t quadrature = 3;  // Gauss–Hermite points per variable: quadrature^(2M) full-order trajectories
  double horizon = 20;         // K is known on [0, horizon]
  double step = 1e-3;          // of the kernels, and of the rollout with them
  int threads = 0;             // 0: all cores
  bool quiet = false;
};

struct MemoryKernel {
  std::size_t variables = 0;  // 2M: phi_1..phi_M psi_1..psi_M
  std::size_t degree = 0;
  std::size_t quadrature = 0;
  std::size_t grid = 0;  // of the full-order solver: the smallest of 128, 256, .. that resolves it
  double step = 0;
  std::size_t times = 0;             // horizon / step + 1
  std::vector<std::size_t> degrees;  // (J, 2M): the multi-index nu of each basis function h_nu
  std::vector<double> values;        // (J, 2M, times): K_{nu j}(t)

  std::size_t functions() const { return variables == 0 ? 0 : degrees.size() / variables; }
  const double* series(std::size_t nu, std::size_t j) const {
    return values.data() + (nu * variables + j) * times;
  }
};

/// Throws UsageError for a system without Fourier modes, Error where the grid does not resolve the solutions.
MemoryKernel compute_memory_kernel(const System& system, const MemoryKernelOptions& options);
/// Rolls out on data saved at multiples or whole fractions of the kernel's step, up to its horizon.
std::unique_ptr<ClosureModel> make_memory_model(std::shared_ptr<const MemoryKernel> kernel, std::string name);
void save_memory_kernel(const MemoryKernel& kernel, const Experiment& experiment, const std::string& path,
                        const std::string& name);
MemoryKernel load_memory_kernel(const std::string& path);

/// Fits or computes the baseline that an entry of [[models]] describes and writes its file. Returns what came
/// out in a few words ("R2 0.905, ...").
std::string train_baseline(const Experiment& experiment, const ModelPlan& plan, const DataFile& data,
                           const std::string& path, int threads, bool quiet);

/// Whether the file is a saved baseline; false where there is none. Error if it cannot be read.
bool is_baseline(const std::string& path);
/// What it reads.
NetworkInputs baseline_inputs(const std::string& path);
/// The model in a file that any of the functions above has saved; UsageError if it is for another system.
/// `name` replaces the model's own unless empty; `given` names what the data give from outside.
std::unique_ptr<ClosureModel> load_baseline(const std::string& path, const System& system,
                                            std::string name = {},
                                            const std::vector<std::string>& given = {});

}  // namespace mac
