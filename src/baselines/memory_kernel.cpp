// Mori–Zwanzig memory kernels of a Fourier system (Qadeer, Stinis, Wan, arXiv:2506.19274; the convolution of
// the paper's sec_rom):
//
//   d theta_j/dt = R^_j + sum_nu int_0^t K_{nu j}(t-s) h_nu(x(s)) ds,   x = theta/sigma, sigma_k = e^{-k}
//
// with h_nu the Hermite basis of independent standard Gaussians x, the unresolved modes zero at t = 0:
//
//   F_{nu j}(t)  = E h_nu(x(0)) dM_j/dt(t)       M the closure along the full-order trajectory from x(0)
//   G_{nu mu}(t) = E h_nu(x(0)) d/dt h_mu(x(t))
//   K = F - G * K                                volterra.hpp
//
// E is tensor Gauss–Hermite quadrature over full-order trajectories.
//
// Sign symmetries. Translation by pi flips the odd modes, reflection (if the system has it) flips every phi;
// both map quadrature nodes to nodes and h_nu to +-h_nu. So trajectories are needed for one node of each
// orbit only, and F, G and K couple only functions and modes of equal parity: the equations fall apart into
// sectors, four for Burgers and two for KdV.
#include "baselines/memory_kernel.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>
#include <mac/progress.hpp>
#include <optional>

#include "baselines/hermite.hpp"
#include "baselines/volterra.hpp"
#include "parallel/parallel_for.hpp"
#include "parallel/thread_count.hpp"
#include "systems/fourier.hpp"

namespace mac {

namespace {

constexpr std::size_t times_per_block = 32;
constexpr std::size_t coarsest_grid = 128, finest_grid = 4096;  // of the full-order solver
// Largest amplitude of the solver's highest modes against the largest mode. 3e-5 (Burgers, 128 points) goes
// with kernels right to 1e-9, 3e-4 (KdV, 128 points) with 5e-6.
constexpr double largest_tail = 1e-4;

using RowMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// One sign symmetry: which variables it flips.
using Flip = std::vector<bool>;

std::vector<Flip> sign_symmetries(const System& system) {
  const std::size_t modes = system.fourier_modes();
  std::vector<Flip> flips;
  for (const Symmetry& symmetry : system.symmetries()) {
    Flip flip(2 * modes, false);
    for (std::size_t k = 1; k <= modes; ++k) {
      if (symmetry.kind == Symmetry::Kind::fourier_translation)
        flip[k - 1] = flip[modes + k - 1] = k % 2 == 1;
      if (symmetry.kind == Symmetry::Kind::fourier_reflection) flip[k - 1] = true;
    }
    flips.push_back(std::move(flip));
  }
  return flips;
}

/// Bit s: whether the function with these degrees is odd under symmetry s.
unsigned parity(const std::vector<Flip>& flips, const std::size_t* degrees) {
  unsigned bits = 0;
  for (std::size_t s = 0; s < flips.size(); ++s) {
    std::size_t odd = 0;
    for (std::size_t l = 0; l < flips[s].size(); ++l) odd += flips[s][l] ? degrees[l] : 0;
    bits |= static_cast<unsigned>(odd % 2) << s;
  }
  return bits;
}

/// Basis functions and closure components of one parity.
struct Sector {
  std::size_t first = 0, count = 0;  // functions
  std::vector<std::size_t> columns;  // components of the closure
};

struct Basis {
  HermiteBasis functions;  // ordered by sector
  std::vector<Sector> sectors;
};

Basis make_basis(std::size_t variables, std::size_t degree, const std::vector<Flip>& flips) {
  const HermiteBasis all(variables, degree);
  std::vector<std::size_t> degrees;
  std::vector<Sector> sectors;
  for (unsigned bits = 0; bits < 1u << flips.size(); ++bits) {
    Sector sector;
    sector.first = degrees.size() / variables;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (parity(flips, all.degrees(i)) == bits)
        degrees.insert(degrees.end(), all.degrees(i), all.degrees(i) + variables);
    sector.count = degrees.size() / variables - sector.first;
    for (std::size_t j = 0; j < variables; ++j) {
      std::vector<std::size_t> linear(variables, 0);
      linear[j] = 1;
      if (parity(flips, linear.data()) == bits) sector.columns.push_back(j);
    }
    sectors.push_back(std::move(sector));
  }
  return {HermiteBasis(variables, degree, std::move(degrees)), std::move(sectors)};
}

/// One quadrature node of each orbit of the sign symmetries, weighted by the whole orbit.
struct Nodes {
  std::vector<double> x;  // (count, variables)
  std::vector<double> weight;
};

Nodes orbit_representatives(std::size_t variables, std::size_t quadrature, const std::vector<Flip>& flips) {
  const GaussHermite rule = gauss_hermite(quadrature);
  Nodes nodes;
  std::vector<std::size_t> digit(variables, 0);
  const auto next = [&] {
    std::size_t l = 0;
    while (l < variables && ++digit[l] == quadrature) digit[l++] = 0;
    return l < variables;
  };
  do {
    std::vector<std::vector<std::size_t>> orbit;
    for (unsigned bits = 0; bits < 1u << flips.size(); ++bits) {
      auto image = digit;
      for (std::size_t s = 0; s < flips.size(); ++s)
        for (std::size_t l = 0; l < variables; ++l)
          if ((bits >> s & 1u) && flips[s][l]) image[l] = quadrature - 1 - image[l];
      if (std::find(orbit.begin(), orbit.end(), image) == orbit.end()) orbit.push_back(std::move(image));
    }
    if (*std::min_element(orbit.begin(), orbit.end()) != digit) continue;
    double weight = static_cast<double>(orbit.size());
    for (const std::size_t i : digit) {
      nodes.x.push_back(rule.nodes[i]);
      weight *= rule.weights[i];
    }
    nodes.weight.push_back(weight);
  } while (next());
  return nodes;
}

/// All full-order trajectories, advanced together block by block in time.
class Ensemble {
 public:
  Ensemble(const FourierSystem& system, const HermiteBasis& basis, const Nodes& nodes, double step)
      : system_(system),
        basis_(basis),
        variables_(basis.variables()),
        step_(step),
        sigma_(memory_scales(variables_)) {
    // One solver step per kernel step where that is stable: at 1e-3 ten times smaller ones change K by 1e-10
    // (Burgers) and 2e-7 (KdV) of its size.
    const double limit = system.largest_stable_dt().value_or(step);
    substeps_ = static_cast<std::size_t>(std::ceil(step / limit));
    states_.assign(nodes.weight.size(), std::vector<double>(system.full_size(), 0.0));
    for (std::size_t q = 0; q < states_.size(); ++q)
      for (std::size_t l = 0; l < variables_; ++l) {
        const std::size_t k = l % (variables_ / 2) + 1, part = l / (variables_ / 2);
        states_[q][2 * k + part] = sigma_[l] * nodes.x[q * variables_ + l];
      }
  }

  std::size_t size() const { return states_.size(); }
  std::size_t row_size() const { return basis_.size() + variables_; }

  /// Fills rates (count, size(), row_size()) with d/dt h_mu(x(t)) and dM_j/dt for `count` times; ends one
  /// step after the last of them.
  void advance(std::size_t count, double* rates, int threads) {
    std::vector<std::optional<Worker>> workers(static_cast<std::size_t>(std::max(threads, 1)));
    parallel_for(states_.size(), threads, [&](std::size_t q, std::size_t w) {
      if (!workers[w]) workers[w].emplace(*this);
      workers[w]->run(q, count, rates);
    });
    for (const std::optional<Worker>& worker : workers)
      if (worker) tail_ = std::max(tail_, worker->tail);
  }

  /// Largest amplitude among the highest modes of the solver, relative to the largest mode.
  double tail() const { return tail_; }

 private:
  struct Worker {
    explicit Worker(Ensemble& e)
        : ensemble(e),
          solver(e.system_.make_solver(e.step_ / static_cast<double>(e.substeps_))),
          full_rate(e.system_.full_size()),
          x(e.variables_),
          dxdt(e.variables_),
          work(e.basis_.work_size()) {}

    void run(std::size_t q, std::size_t count, double* rates) {
      const std::size_t modes = ensemble.variables_ / 2, width = ensemble.row_size();
      const std::size_t highest = ensemble.system_.grid() / 2 - 1;
      solver->start(ensemble.states_[q]);
      for (std::size_t t = 0; t < count; ++t) {
        const double* theta = solver->state().data();
        solver->full_rhs(solver->state(), full_rate);
        gather_modes(modes, theta, x.data());
        gather_modes(modes, full_rate.data(), dxdt.data());
        for (std::size_t l = 0; l < x.size(); ++l) {
          x[l] /= ensemble.sigma_[l];
          dxdt[l] /= ensemble.sigma_[l];
        }
        double* row = rates + (t * ensemble.size() + q) * width;
        ensemble.basis_.rate(x.data(), dxdt.data(), row, work.data());
        closure_rate(modes, highest, ensemble.system_.wavenumber(), theta, full_rate.data(),
                     row + ensemble.basis_.size());
        for (std::size_t s = 0; s < ensemble.substeps_; ++s) solver->step();
      }
      ensemble.states_[q].assign(solver->state().begin(), solver->state().end());
      watch_tail(ensemble.states_[q]);
    }

    void watch_tail(const std::vector<double>& theta) {
      const auto largest = [&](std::size_t from) {
        double value = 0;
        for (std::size_t i = from; i < theta.size(); ++i) value = std::max(value, std::abs(theta[i]));
        return value;
      };
      const double scale = largest(0);
      // NaN must count as a failure: max keeps its first argument when compared with one.
      const double ratio = scale > 0 ? largest(theta.size() - theta.size() / 8) / scale : 0;
      tail = std::isfinite(ratio) && std::isfinite(theta[2]) ? std::max(tail, ratio) : HUGE_VAL;
    }

    Ensemble& ensemble;
    std::unique_ptr<FullSolver> solver;
    std::vector<double> full_rate, x, dxdt, work;
    double tail = 0;
  };

  const FourierSystem& system_;
  const HermiteBasis& basis_;
  std::size_t variables_, substeps_;
  double step_;
  std::vector<double> sigma_;
  std::vector<std::vector<double>> states_;
  double tail_ = 0;
};

/// F and G of one sector.
struct Correlations {
  MatrixSeries f, g;
};

/// weighted (nodes, J): w_q h_nu(x_q(0)).
RowMatrix weighted_functions(const HermiteBasis& basis, const Nodes& nodes) {
  RowMatrix weighted(static_cast<Eigen::Index>(nodes.weight.size()), static_cast<Eigen::Index>(basis.size()));
  std::vector<double> work(basis.work_size());
  for (std::size_t q = 0; q < nodes.weight.size(); ++q) {
    double* row = weighted.data() + q * basis.size();
    basis.evaluate(nodes.x.data() + q * basis.variables(), row, work.data());
    for (std::size_t i = 0; i < basis.size(); ++i) row[i] *= nodes.weight[q];
  }
  return weighted;
}

/// Adds time t to F and G of every sector; rates (nodes, J + 2M).
void correlate(const RowMatrix& weighted, const Eigen::Map<const RowMatrix>& rates,
               const std::vector<Sector>& sectors, std::size_t t, std::vector<Correlations>& out) {
  const Eigen::Index functions = weighted.cols();
  for (std::size_t s = 0; s < sectors.size(); ++s) {
    const auto first = static_cast<Eigen::Index>(sectors[s].first);
    const auto count = static_cast<Eigen::Index>(sectors[s].count);
    const auto initial = weighted.middleCols(first, count).transpose();
    const Eigen::MatrixXd g = initial * rates.middleCols(first, count);
    for (Eigen::Index i = 0; i < count; ++i)
      for (Eigen::Index j = 0; j < count; ++j)
        out[s].g.at(static_cast<std::size_t>(i), static_cast<std::size_t>(j))[t] = g(i, j);
    for (std::size_t c = 0; c < sectors[s].columns.size(); ++c) {
      const Eigen::VectorXd f =
          initial * rates.col(functions + static_cast<Eigen::Index>(sectors[s].columns[c]));
      for (Eigen::Index i = 0; i < count; ++i) out[s].f.at(static_cast<std::size_t>(i), c)[t] = f[i];
    }
  }
}

/// Nothing where the system's grid turns out too coarse for its trajectories.
std::optional<std::vector<Correlations>> compute_correlations(const FourierSystem& system, const Basis& basis,
                                                              const Nodes& nodes, std::size_t times,
                                                              const MemoryKernelOptions& options,
                                                              int threads) {
  std::vector<Correlations> out;
  for (const Sector& sector : basis.sectors)
    out.push_back({MatrixSeries(sector.count, sector.columns.size(), times),
                   MatrixSeries(sector.count, sector.count, times)});
  Ensemble ensemble(system, basis.functions, nodes, options.step);
  const RowMatrix weighted = weighted_functions(basis.functions, nodes);
  const std::size_t slice = ensemble.size() * ensemble.row_size();
  std::vector<double> rates(times_per_block * slice);
  Progress progress(fmt::format("memory kernels: {} trajectories", ensemble.size()), times, options.quiet);
  for (std::size_t first = 0; first < times; first += times_per_block) {
    throw_if_interrupted();
    const std::size_t count = std::min(times_per_block, times - first);
    ensemble.advance(count, rates.data(), threads);
    if (!(ensemble.tail() < largest_tail)) return std::nullopt;
    parallel_for(count, threads, [&](std::size_t t, std::size_t) {
      const Eigen::Map<const RowMatrix> block(rates.data() + t * slice,
                                              static_cast<Eigen::Index>(ensemble.size()),
                                              static_cast<Eigen::Index>(ensemble.row_size()));
      correlate(weighted, block, basis.sectors, first + t, out);
    });
    progress.advance(count);
  }
  return out;
}

}  // namespace

MemoryKernel compute_memory_kernel(const System& system, const MemoryKernelOptions& options) {
  const auto* fourier = dynamic_cast<const FourierSystem*>(&system);
  if (!fourier)
    throw UsageError("memory kernels exist for Fourier systems (burgers, kdv), not for {}", system.name());
  const int threads = thread_count(options.threads);
  const std::size_t variables = system.resolved_size();
  const auto flips = sign_symmetries(system);
  const Basis basis = make_basis(variables, options.degree, flips);
  const Nodes nodes = orbit_representatives(variables, options.quadrature, flips);

  MemoryKernel kernel;
  kernel.variables = variables;
  kernel.degree = options.degree;
  kernel.quadrature = options.quadrature;
  kernel.step = options.step;
  kernel.times = static_cast<std::size_t>(std::llround(options.horizon / options.step)) + 1;
  kernel.degrees.assign(basis.functions.degrees(0),
                        basis.functions.degrees(0) + basis.functions.size() * variables);
  kernel.values.assign(basis.functions.size() * variables * kernel.times, 0.0);

  // Too coarse a grid shows as soon as the fields steepen, early on: starting again costs little.
  std::size_t grid = coarsest_grid;
  auto found = compute_correlations(*fourier->on_grid(grid), basis, nodes, kernel.times, options, threads);
  while (!found && grid < finest_grid) {
    grid *= 2;
    found = compute_correlations(*fourier->on_grid(grid), basis, nodes, kernel.times, options, threads);
  }
  if (!found)
    throw Error("{} points do not resolve the {} trajectories behind the memory kernels", finest_grid,
                system.name());
  kernel.grid = grid;
  std::vector<Correlations>& correlations = *found;
  for (std::size_t s = 0; s < basis.sectors.size(); ++s) {
    const Sector& sector = basis.sectors[s];
    const MatrixSeries k = solve_volterra(correlations[s].g, correlations[s].f, kernel.step, threads);
    correlations[s] = {};  // G is the largest array by far
    for (std::size_t i = 0; i < sector.count; ++i)
      for (std::size_t c = 0; c < sector.columns.size(); ++c)
        std::copy_n(
            k.at(i, c), kernel.times,
            kernel.values.data() + ((sector.first + i) * variables + sector.columns[c]) * kernel.times);
  }
  return kernel;
}

}  // namespace mac
