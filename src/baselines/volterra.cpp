#include "baselines/volterra.hpp"

#include <Eigen/LU>
#include <algorithm>
#include <bit>
#include <optional>

#include "parallel/parallel_for.hpp"
#include "systems/real_fft.hpp"

namespace mac {

namespace {

constexpr std::size_t direct_length = 64;    // blocks this short are summed directly
constexpr std::size_t rows_for_threads = 8;  // with fewer, starting threads costs more than they save

/// Solves the times [first, first + length) after all that came before: the first half, then what it
/// contributes to the second, then the second half.
class Solver {
 public:
  Solver(const MatrixSeries& g, const MatrixSeries& f, double dt, int threads)
      : g_(g), k_(f), dt_(dt), threads_(g.rows < rows_for_threads ? 1 : threads) {
    const auto b = static_cast<Eigen::Index>(g.rows);
    Eigen::MatrixXd implicit(b, b);
    for (std::size_t i = 0; i < g.rows; ++i)
      for (std::size_t j = 0; j < g.rows; ++j)
        implicit(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) =
            (i == j ? 1.0 : 0.0) + dt / 2 * g.at(i, j)[0];
    implicit_.compute(implicit);
    solve(0, std::max(direct_length, std::bit_ceil(f.times)));
  }

  MatrixSeries take() { return std::move(k_); }

 private:
  void solve(std::size_t first, std::size_t length) {
    if (first >= k_.times) return;
    if (length <= direct_length) return solve_directly(first, std::min(first + length, k_.times));
    solve(first, length / 2);
    if (first + length / 2 < k_.times) add_history(first, length);
    solve(first + length / 2, length / 2);
  }

  /// The trapezoid weight of K_m in a sum over the past.
  static double weight(std::size_t m) { return m == 0 ? 0.5 : 1.0; }

  void solve_directly(std::size_t first, std::size_t end) {
    const std::size_t b = k_.rows;
    Eigen::VectorXd rhs(static_cast<Eigen::Index>(b));
    for (std::size_t n = first; n < end; ++n) {
      if (n == 0) continue;  // K_0 = F_0
      for (std::size_t c = 0; c < k_.cols; ++c) {
        for (std::size_t i = 0; i < b; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < b; ++j) {
            const double *g = g_.at(i, j), *k = k_.at(j, c);
            for (std::size_t m = first; m < n; ++m) sum += weight(m) * g[n - m] * k[m];
          }
          rhs[static_cast<Eigen::Index>(i)] = k_.at(i, c)[n] - dt_ * sum;
        }
        rhs = implicit_.solve(rhs);
        for (std::size_t i = 0; i < b; ++i) k_.at(i, c)[n] = rhs[static_cast<Eigen::Index>(i)];
      }
    }
  }

  /// Subtracts dt sum_m G_{n-m} K_m, m in the first half of the block, from every n of its second half. A
  /// circular convolution as long as the block: what wraps around lands in the first half, which is not used.
  void add_history(std::size_t first, std::size_t length) {
    const std::size_t half = length / 2, bins = length + 2;  // length/2 + 1 complex numbers
    const std::size_t b = k_.rows, cols = k_.cols;
    std::vector<double> past(b * cols * bins);
    const auto begin_of = [&](std::size_t j, std::size_t c) { return past.data() + (j * cols + c) * bins; };
    const std::size_t lags = std::min(length, g_.times), end = std::min(first + length, k_.times);

    std::vector<std::optional<RealFft>> transforms(static_cast<std::size_t>(std::max(threads_, 1)));
    const auto fft_of = [&](std::size_t worker) -> RealFft& {
      return transforms[worker] ? *transforms[worker] : transforms[worker].emplace(length);
    };
    parallel_for(b, threads_, [&](std::size_t j, std::size_t worker) {
      RealFft& fft = fft_of(worker);
      for (std::size_t c = 0; c < cols; ++c) {
        std::copy_n(k_.at(j, c) + first, half, fft.grid());
        if (first == 0) fft.grid()[0] *= weight(0);
        std::fill_n(fft.grid() + half, length - half, 0.0);
        fft.to_modes();
        std::copy_n(fft.modes(), bins, begin_of(j, c));
      }
    });
    parallel_for(b, threads_, [&](std::size_t i, std::size_t worker) {
      RealFft& fft = fft_of(worker);
      std::vector<double> sum(cols * bins);
      for (std::size_t j = 0; j < b; ++j) {
        std::copy_n(g_.at(i, j), lags, fft.grid());
        std::fill_n(fft.grid() + lags, length - lags, 0.0);
        fft.to_modes();
        for (std::size_t c = 0; c < cols; ++c) add_product(bins, fft.modes(), begin_of(j, c), &sum[c * bins]);
      }
      for (std::size_t c = 0; c < cols; ++c) {
        std::copy_n(&sum[c * bins], bins, fft.modes());
        fft.to_grid();
        const double scale = dt_ / static_cast<double>(length);
        double* k = k_.at(i, c);
        for (std::size_t n = first + half; n < end; ++n) k[n] -= scale * fft.grid()[n - first];
      }
    });
  }

  /// sum += x y, interleaved complex
  static void add_product(std::size_t count, const double* x, const double* y, double* sum) {
    for (std::size_t i = 0; i < count; i += 2) {
      sum[i] += x[i] * y[i] - x[i + 1] * y[i + 1];
      sum[i + 1] += x[i] * y[i + 1] + x[i + 1] * y[i];
    }
  }

  const MatrixSeries& g_;
  MatrixSeries k_;  // K where solved, elsewhere F minus the history so far
  double dt_;
  int threads_;
  Eigen::PartialPivLU<Eigen::MatrixXd> implicit_;
};

}  // namespace

MatrixSeries solve_volterra(const MatrixSeries& g, const MatrixSeries& f, double dt, int threads) {
  return Solver(g, f, dt, threads).take();
}

}  // namespace mac
