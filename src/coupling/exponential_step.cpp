#include "coupling/exponential_step.hpp"

#include <algorithm>
#include <mac/error.hpp>
#include <mac/linear_part.hpp>

#include "integrators/matrix_phi.hpp"
#include "integrators/simd.hpp"

namespace mac {

namespace {

using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// sum += factor x, n numbers
MAC_VECTOR_CLONES
void add_multiple(std::size_t n, double factor, const double* __restrict x, double* __restrict sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

}  // namespace

ExponentialStep::ExponentialStep(const System& system, double h, std::size_t columns)
    : system_(system), columns_(columns), d_(system.resolved_size()), size_(columns * d_) {
  const std::vector<double> linear = linear_part_of(system);
  if (linear.size() != d_ * d_)
    throw UsageError("the system \"{}\" declares no linear part of its reduced equations, which ETDRK4 needs",
                     system.name());
  const auto d = static_cast<Eigen::Index>(d_);
  const Eigen::MatrixXd l = Eigen::Map<const Dense>(linear.data(), d, d);
  const auto whole = phi_functions(h * l), half = phi_functions(h / 2 * l);
  for (std::size_t k = 0; k < d_ * d_; ++k)
    if (linear[k] != 0) l_.entries.push_back({k / d_, k % d_, linear[k]});
  const auto both_ways = [](const Eigen::MatrixXd& m) {
    const Dense rows = m;
    return Matrix{{m.data(), m.data() + m.size()}, {rows.data(), rows.data() + rows.size()}};
  };
  e_ = both_ways(whole[0]);
  e2_ = both_ways(half[0]);
  q_ = both_ways(h / 2 * half[1]);
  f1_ = both_ways(h * (whole[1] - 3 * whole[2] + 4 * whole[3]));
  f2_ = both_ways(h * (2 * whole[2] - 4 * whole[3]));
  f3_ = both_ways(h * (4 * whole[3] - whole[2]));
  half_.resize(size_);
  states_.resize(held_rk4::stages * size_);
  rates_.resize(states_.size());
}

// Every sum runs over the matrix's columns in rising order, so that the bits depend neither on the loops' order nor on how
// many columns there are. A column of the matrix serves all trajectories while it is in cache.

void ExponentialStep::add(const Matrix& m, double factor, const double* x, double* out) const {
  for (std::size_t j = 0; j < d_; ++j)
    for (std::size_t at = 0; at < size_; at += d_)
      add_multiple(d_, factor * x[at + j], m.by_columns.data() + j * d_, out + at);
}

void ExponentialStep::add_transposed(const Matrix& m, double factor, const double* x, double* out) {
  sums_.assign(size_, 0.0);
  for (std::size_t i = 0; i < d_; ++i)
    for (std::size_t at = 0; at < size_; at += d_)
      add_multiple(d_, x[at + i], m.by_rows.data() + i * d_, sums_.data() + at);
  add_multiple(size_, factor, sums_.data(), out);
}

void ExponentialStep::subtract(const SparseMatrix& m, const double* x, double* out) const {
  for (std::size_t at = 0; at < size_; at += d_)
    for (const auto& entry : m.entries) out[at + entry.row] += -x[at + entry.column] * entry.value;
}

void ExponentialStep::subtract_transposed(const SparseMatrix& m, const double* x, double* out) {
  sums_.assign(size_, 0.0);
  for (std::size_t at = 0; at < size_; at += d_)
    for (const auto& entry : m.entries) sums_[at + entry.column] += entry.value * x[at + entry.row];
  add_multiple(size_, -1, sums_.data(), out);
}

void ExponentialStep::stage_state(std::size_t i, const double* y) {
  double* const at = state(i);
  if (i == 0) {
    std::copy_n(y, size_, at);
    return;
  }
  if (i == 2) {  // begins at v, as a did
    std::ranges::copy(half_, at);
  } else {
    std::fill_n(at, size_, 0.0);
    add(e2_, 1, state(i == 3 ? 1 : 0), at);
    if (i == 1) std::copy_n(at, size_, half_.begin());
  }
  if (i < 3) {
    add(q_, 1, n(i - 1), at);
  } else {
    add(q_, 2, n(2), at);
    add(q_, -1, n(0), at);
  }
}

void ExponentialStep::rate(std::size_t i) {
  system_.reduced_rhs_columns(columns_, state(i), n(i));
  subtract(l_, state(i), n(i));
}

void ExponentialStep::add_closure(std::size_t i, const held_rk4::StageClosure& at) {
  const auto targets = system_.closure_targets();
  for (std::size_t column = 0; column < columns_; ++column)
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const std::size_t k = column * targets.size() + j;
      n(i)[column * d_ + targets[j]] +=
          held_rk4::line(at.closure[k], at.previous ? at.previous[k] : 0, at.share);
    }
}

void ExponentialStep::finish(double* y) const {
  const double *v = states_.data(), *rates = rates_.data();
  std::fill_n(y, size_, 0.0);
  add(e_, 1, v, y);
  add(f1_, 1, rates, y);
  add(f2_, 1, rates + size_, y);
  add(f2_, 1, rates + 2 * size_, y);
  add(f3_, 1, rates + 3 * size_, y);
}

void ExponentialStep::begin_adjoint(const double* d_next, double* d_y) {
  d_states_.assign(states_.size(), 0.0);
  d_rates_.assign(rates_.size(), 0.0);
  add_transposed(e_, 1, d_next, d_y);
  add_transposed(f1_, 1, d_next, d_n(0));
  add_transposed(f2_, 1, d_next, d_n(1));
  std::copy_n(d_n(1), size_, d_n(2));
  add_transposed(f3_, 1, d_next, d_n(3));
}

void ExponentialStep::add_closure_gradient(std::size_t i, double share, double* d_closure,
                                           double* d_previous) {
  const auto targets = system_.closure_targets();
  for (std::size_t column = 0; column < columns_; ++column)
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const double rate = d_n(i)[column * d_ + targets[j]];
      d_closure[column * targets.size() + j] += (1 + share) * rate;
      if (share != 0) d_previous[column * targets.size() + j] -= share * rate;
    }
}

/// From the gradients of n_i and y_i to those of what y_i was made of.
void ExponentialStep::stage_adjoint(std::size_t i, double* d_y) {
  double* const at = d_state(i);
  system_.reduced_rhs_vjp_columns(columns_, state(i), d_n(i), at);
  subtract_transposed(l_, d_n(i), at);
  if (i == 0) {
    for (std::size_t k = 0; k < size_; ++k) d_y[k] += at[k];
    return;
  }
  add_transposed(e2_, 1, at, i == 3 ? d_state(1) : d_y);
  if (i < 3) {
    add_transposed(q_, 1, at, d_n(i - 1));
  } else {
    add_transposed(q_, 2, at, d_n(2));
    add_transposed(q_, -1, at, d_n(0));
  }
}

}  // namespace mac
