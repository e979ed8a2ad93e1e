// The reduced model with a memory kernel (memory_kernel.cpp), an integro-differential equation (eq. (2), eq_rom1, of
// the paper with the memory term of its sec_rom):
//
//   d theta_j/dt = R^_j(theta) + C_j,    C_j(t) = sum_nu int_0^t K_{nu j}(t-s) h_nu(x(s)) ds
//
// Heun's method at the kernel's step, the integral by the trapezoid rule in both stages:
//
//   C_m = dt (S_m + 1/2 K_0 h(x_m)),   S_m = 1/2 K_m h_0 + sum_{l=1}^{m-1} K_l h_{m-l}
//
// Both stages at t_m, the corrector that ends there and the predictor that starts there, share S_m, so a step
// costs one sum over the past. It still grows with the step index: that is the price of an explicit memory.
//
// Saved steps may be multiples of the kernel's step, which is then taken several times, or fractions of it:
// then the cubic through both ends of a step and their slopes gives the states between.
#include <algorithm>
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/error.hpp>

#include "baselines/hermite.hpp"
#include "baselines/memory_kernel.hpp"
#include "integrators/simd.hpp"
#include "rollout/group.hpp"

namespace mac {

namespace {

constexpr std::size_t lags_per_tile = 1024;  // a tile of one series stays in the first-level cache

/// sum_i a_i b_i in eight interleaved partial sums: the same bits on every instruction set.
MAC_VECTOR_CLONES
double dot(std::size_t n, const double* a, const double* b) {
  constexpr std::size_t lanes = 8;
  double partial[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) partial[l] += a[i + l] * b[i + l];
  for (; i < n; ++i) partial[i % lanes] += a[i] * b[i];
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

/// How the saved steps of a split lie to the kernel's; one of the two is 1.
struct Steps {
  std::size_t per_saved = 1;  // kernel steps in a saved one
  std::size_t saved_per = 1;  // saved steps in a kernel step
};

Steps match_steps(const MemoryKernel& kernel, const DataSplit& split) {
  const double dt = (split.time().back() - split.time().front()) / static_cast<double>(split.times() - 1);
  const double ratio = dt / kernel.step;
  // Times are decimal numbers in binary: allow their rounding, nothing more.
  const auto whole = [](double value) {
    return value > 0.5 && std::abs(value / std::round(value) - 1) < 1e-6;
  };
  if (whole(ratio)) return {static_cast<std::size_t>(std::llround(ratio)), 1};
  if (whole(1 / ratio)) return {1, static_cast<std::size_t>(std::llround(1 / ratio))};
  throw UsageError(
      "split {} is saved every {:g}, which is neither a multiple nor a fraction of the memory kernel's step "
      "{:g}",
      split.name(), dt, kernel.step);
}

/// The components of the closure that function nu acts on; the others vanish by symmetry.
std::vector<std::vector<std::size_t>> active_components(const MemoryKernel& kernel) {
  std::vector<std::vector<std::size_t>> active(kernel.functions());
  for (std::size_t nu = 0; nu < kernel.functions(); ++nu)
    for (std::size_t j = 0; j < kernel.variables; ++j) {
      const double* series = kernel.series(nu, j);
      if (std::any_of(series, series + kernel.times, [](double k) { return k != 0; }))
        active[nu].push_back(j);
    }
  return active;
}

/// Immutable, shared by all groups.
struct Shared {
  std::shared_ptr<const MemoryKernel> kernel;
  HermiteBasis basis;
  std::vector<std::vector<std::size_t>> active;
  std::vector<double> sigma;
};

class MemoryGroup final : public ClosureGroup, public HasIntegrator {
 public:
  MemoryGroup(const Shared& shared, const Steps& steps, std::size_t count)
      : shared_(shared),
        kernel_(*shared.kernel),
        steps_(steps),
        count_(count),
        d_(kernel_.variables),
        functions_(kernel_.functions()),
        past_(count * d_),
        memory_(count * d_),
        x_(d_),
        h_(functions_),
        work_(shared.basis.work_size()) {
    for (auto* array : {&start_, &start_rate_, &end_rate_, &end_, &end_memory_, &stage_})
      array->resize(count * d_);
  }

  void predict(std::size_t n, const double* y, double* closure) override {
    const std::size_t within = n % steps_.saved_per;
    if (within == 0) {
      record(y);
      std::copy(memory_.begin(), memory_.end(), closure);
      return;
    }
    const double s = static_cast<double>(within) / static_cast<double>(steps_.saved_per);
    for (std::size_t i = 0; i < count_ * d_; ++i) closure[i] = (1 - s) * memory_[i] + s * end_memory_[i];
  }

  void advance(std::size_t n, const GroupStep& step, double* y) override {
    const std::size_t within = n % steps_.saved_per;
    if (within == 0) {
      std::copy_n(y, count_ * d_, end_.begin());
      for (std::size_t s = 0; s < steps_.per_saved; ++s) {
        if (s > 0) record(end_.data());
        heun_step(step);
      }
      if (steps_.saved_per > 1) finish_slopes(step);
    }
    interpolate(within + 1, y);
  }

  /// The memory is the whole past: too much to save.
  std::optional<std::size_t> memory_size() const override { return std::nullopt; }

 private:
  /// h_nu of trajectory i, latest first: the value at step m is at index capacity_ - 1 - m, so that a sum
  /// over lags runs forward through kernel and history alike.
  double* history(std::size_t i, std::size_t nu) {
    return history_.data() + (i * functions_ + nu) * capacity_;
  }

  /// Room for step m_ in the history.
  void grow() {
    if (m_ < capacity_) return;
    const std::size_t old = capacity_;
    std::vector<double> values = std::move(history_);
    capacity_ = std::max<std::size_t>(256, std::min(2 * old, kernel_.times));
    history_.assign(count_ * functions_ * capacity_, 0.0);
    for (std::size_t series = 0; series < count_ * functions_; ++series)
      std::copy_n(values.data() + series * old, old, history_.data() + (series + 1) * capacity_ - old);
  }

  void evaluate_basis(const double* y) {
    for (std::size_t l = 0; l < d_; ++l) x_[l] = y[l] / shared_.sigma[l];
    shared_.basis.evaluate(x_.data(), h_.data(), work_.data());
  }

  /// out_j = past_j + dt/2 sum_nu K_{nu j}(0) h_nu: the memory term of trajectory i with h_ as its last
  /// value.
  void close_integral(std::size_t i, double* out) const {
    std::copy_n(past_.data() + i * d_, d_, out);
    for (std::size_t nu = 0; nu < functions_; ++nu)
      for (const std::size_t j : shared_.active[nu])
        out[j] += kernel_.step / 2 * kernel_.series(nu, j)[0] * h_[nu];
  }

  /// The state at step m_ enters the history; memory_ becomes C_m.
  void record(const double* y) {
    grow();
    for (std::size_t i = 0; i < count_; ++i) {
      evaluate_basis(y + i * d_);
      // The trapezoid rule halves the first value in every sum to come.
      const double weight = m_ == 0 ? 0.5 : 1.0;
      for (std::size_t nu = 0; nu < functions_; ++nu) history(i, nu)[capacity_ - 1 - m_] = weight * h_[nu];
      if (m_ > 0) close_integral(i, memory_.data() + i * d_);
    }
  }

  /// past_ = dt S_{m+1} for all trajectories. Tiles are shared by the group's trajectories; every sum has the
  /// same order whatever the group.
  void sum_over_past() {
    std::fill(past_.begin(), past_.end(), 0.0);
    const std::size_t lags = m_ + 1;  // 1..m+1
    for (std::size_t nu = 0; nu < functions_; ++nu) {
      if (shared_.active[nu].empty()) continue;
      for (std::size_t first = 1; first <= lags; first += lags_per_tile) {
        const std::size_t length = std::min(lags_per_tile, lags + 1 - first);
        for (std::size_t i = 0; i < count_; ++i) {
          const double* values = history(i, nu) + (capacity_ - 1 - lags + first);
          for (const std::size_t j : shared_.active[nu])
            past_[i * d_ + j] += dot(length, kernel_.series(nu, j) + first, values);
        }
      }
    }
    for (double& value : past_) value *= kernel_.step;
  }

  /// One step of end_ from t_m to t_{m+1}, after record(end_); start_ keeps where it came from.
  void heun_step(const GroupStep& step) {
    if (m_ + 1 >= kernel_.times)
      throw UsageError(
          "the memory kernel reaches only to t = {:g}; for a longer rollout compute it with a longer horizon",
          static_cast<double>(m_) * kernel_.step);
    start_ = end_;
    sum_over_past();
    for (std::size_t i = 0; i < count_; ++i) {
      const double* y = start_.data() + i * d_;
      double *k1 = start_rate_.data() + i * d_, *k2 = end_rate_.data() + i * d_;
      double* predicted = stage_.data() + i * d_;
      const System& system = step.system_of(i);
      system.reduced_rhs(y, k1);
      for (std::size_t l = 0; l < d_; ++l) {
        k1[l] += memory_[i * d_ + l];
        predicted[l] = y[l] + kernel_.step * k1[l];
      }
      evaluate_basis(predicted);
      close_integral(i, end_memory_.data() + i * d_);
      system.reduced_rhs(predicted, k2);
      for (std::size_t l = 0; l < d_; ++l)
        end_[i * d_ + l] = y[l] + kernel_.step / 2 * (k1[l] + (k2[l] + end_memory_[i * d_ + l]));
    }
    ++m_;
  }

  /// end_rate_ and end_memory_ at the corrected end of the step.
  void finish_slopes(const GroupStep& step) {
    for (std::size_t i = 0; i < count_; ++i) {
      const double* y = end_.data() + i * d_;
      double *rate = end_rate_.data() + i * d_, *memory = end_memory_.data() + i * d_;
      evaluate_basis(y);
      close_integral(i, memory);
      step.system_of(i).reduced_rhs(y, rate);
      for (std::size_t l = 0; l < d_; ++l) rate[l] += memory[l];
    }
  }

  /// The state `part` saved steps into the kernel step.
  void interpolate(std::size_t part, double* y) const {
    if (part == steps_.saved_per) {
      std::copy(end_.begin(), end_.end(), y);
      return;
    }
    const double s = static_cast<double>(part) / static_cast<double>(steps_.saved_per), r = 1 - s;
    for (std::size_t i = 0; i < count_ * d_; ++i)
      y[i] = r * r * (1 + 2 * s) * start_[i] + s * s * (3 - 2 * s) * end_[i] +
             kernel_.step * s * r * (r * start_rate_[i] - s * end_rate_[i]);
  }

  const Shared& shared_;
  const MemoryKernel& kernel_;
  Steps steps_;
  std::size_t count_, d_, functions_;
  std::size_t m_ = 0;                  // the kernel step that end_ is at
  std::size_t capacity_ = 0;           // steps that the history has room for
  std::vector<double> history_;        // (count, J, capacity_)
  std::vector<double> past_, memory_;  // (count, d): dt S at the end of the step, C at its start
  std::vector<double> start_, start_rate_, end_, end_rate_, end_memory_, stage_;
  std::vector<double> x_, h_, work_;
};

class MemoryModel final : public ClosureModel {
 public:
  MemoryModel(std::shared_ptr<const MemoryKernel> kernel, std::string name)
      : name_(std::move(name)),
        shared_{kernel, HermiteBasis(kernel->variables, kernel->degree, kernel->degrees),
                active_components(*kernel), memory_scales(kernel->variables)} {}

  std::string name() const override { return name_; }
  HeldClosure held() const override { return {}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    if (split.resolved_size() != shared_.kernel->variables)
      throw UsageError("the memory kernel is for {} resolved variables, split {} has {}",
                       shared_.kernel->variables, split.name(), split.resolved_size());
    return std::make_unique<MemoryGroup>(shared_, match_steps(*shared_.kernel, split), count);
  }

 private:
  std::string name_;
  Shared shared_;
};

}  // namespace

std::unique_ptr<ClosureModel> make_memory_model(std::shared_ptr<const MemoryKernel> kernel,
                                                std::string name) {
  return std::make_unique<MemoryModel>(std::move(kernel), std::move(name));
}

}  // namespace mac
