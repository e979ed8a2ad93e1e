#include "training/fitted_equations.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <mac/recorded.hpp>

namespace mac {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::size_t most_rows = 20000, most_terms = 300, highest_degree = 7;
constexpr std::size_t rows_per_term = 10;
constexpr double ridge =
    1e-12;  // of the largest diagonal element: terms may depend on each other on the data
constexpr double margin = 0.25;  // of the data's range; beyond it the polynomial stays as it is there

/// States and rates R^ = dy/dt - C, (rows, d); and the squares of what their errors are compared with.
struct Samples {
  Matrix states, rates;
  Vector sizes;
};

std::optional<Samples> sample(const System& system, const DataSplit& split, double dt) {
  const std::size_t times = split.times(), d = split.resolved_size(), c = split.closure_size();
  if (times < 5 || split.masked()) return std::nullopt;
  const auto targets = system.closure_targets();
  const std::size_t all = split.trajectories() * (times - 4), every = (all + most_rows - 1) / most_rows;
  const auto rows = static_cast<Eigen::Index>((all + every - 1) / every), n = static_cast<Eigen::Index>(d);
  Samples samples{Matrix(rows, n), Matrix(rows, n), Vector::Zero(n)};
  std::vector<double> y(times * d), closure(times * c);
  std::size_t k = 0;
  for (std::size_t i = 0; i < split.trajectories(); ++i) {
    split.read_resolved(i, 0, times, y.data());
    split.read_closure(i, 0, times, closure.data());
    for (std::size_t t = 2; t + 2 < times; ++t, ++k) {
      if (k % every != 0) continue;
      const auto row = static_cast<Eigen::Index>(k / every);
      const auto at = [&](std::size_t time, std::size_t v) { return y[time * d + v]; };
      Vector tendency(n), added = Vector::Zero(n);
      for (std::size_t v = 0; v < d; ++v)
        tendency[static_cast<Eigen::Index>(v)] =
            (at(t - 2, v) - 8 * at(t - 1, v) + 8 * at(t + 1, v) - at(t + 2, v)) / (12 * dt);
      for (std::size_t j = 0; j < c; ++j) added[static_cast<Eigen::Index>(targets[j])] += closure[t * c + j];
      for (std::size_t v = 0; v < d; ++v) {
        const auto column = static_cast<Eigen::Index>(v);
        const bool closed = std::ranges::find(targets, v) != targets.end();
        samples.states(row, column) = at(t, v);
        samples.rates(row, column) = tendency[column] - added[column];
        samples.sizes[column] += std::pow(closed ? added[column] : tendency[column], 2);
      }
    }
  }
  return samples;
}

/// All monomials of up to `degree` in d variables, each a list of variables: x_0 x_0 x_2 is {0, 0, 2}.
std::vector<std::vector<std::size_t>> monomials(std::size_t d, std::size_t degree) {
  std::vector<std::vector<std::size_t>> terms{{}};
  for (std::size_t begin = 0, p = 1; p <= degree; ++p) {
    const std::size_t end = terms.size();
    for (std::size_t k = begin; k < end; ++k)
      for (std::size_t v = terms[k].empty() ? 0 : terms[k].back(); v < d; ++v) {
        terms.push_back(terms[k]);
        terms.back().push_back(v);
      }
    begin = end;
  }
  return terms;
}

struct Polynomial {
  std::vector<std::vector<std::size_t>> terms;
  Vector middle, half;  // of the data's range: the variables are (y - middle)/half
  Matrix coefficients;  // (terms, d)

  /// terms.size() values at y
  void evaluate_terms(const double* y, double* values) const {
    std::vector<double> x(static_cast<std::size_t>(middle.size()));
    for (std::size_t v = 0; v < x.size(); ++v) {
      const auto i = static_cast<Eigen::Index>(v);
      x[v] = std::clamp((y[v] - middle[i]) / half[i], -1 - 2 * margin, 1 + 2 * margin);
    }
    for (std::size_t k = 0; k < terms.size(); ++k) {
      values[k] = 1;
      for (const std::size_t v : terms[k]) values[k] *= x[v];
    }
  }

  Matrix term_matrix(const Matrix& states) const {
    Matrix matrix(static_cast<Eigen::Index>(terms.size()), states.rows());
    for (Eigen::Index row = 0; row < states.rows(); ++row) {
      const Vector state = states.row(row);
      evaluate_terms(state.data(), matrix.col(row).data());
    }
    return matrix;
  }
};

/// The largest relative error over the equations.
double error_of(const Polynomial& polynomial, const Samples& samples) {
  const Matrix missed =
      samples.rates - polynomial.term_matrix(samples.states).transpose() * polynomial.coefficients;
  double largest = 0;
  for (Eigen::Index v = 0; v < missed.cols(); ++v)
    largest = std::max(largest, std::sqrt(missed.col(v).squaredNorm() / samples.sizes[v]));
  return largest;
}

Polynomial fit(const Samples& samples, std::size_t degree) {
  const auto d = static_cast<std::size_t>(samples.states.cols());
  Polynomial polynomial{monomials(d, degree), {}, {}, {}};
  const Vector low = samples.states.colwise().minCoeff(), high = samples.states.colwise().maxCoeff();
  polynomial.middle = (low + high) / 2;
  polynomial.half = ((high - low) / 2).cwiseMax(1e-300);
  const Matrix terms = polynomial.term_matrix(samples.states);
  Matrix gram = terms * terms.transpose();
  gram.diagonal().array() += ridge * gram.diagonal().maxCoeff();
  polynomial.coefficients = gram.ldlt().solve(terms * samples.rates);
  return polynomial;
}

double binomial(std::size_t n, std::size_t k) {
  double value = 1;
  for (std::size_t i = 1; i <= k; ++i) value *= static_cast<double>(n - k + i) / static_cast<double>(i);
  return value;
}

}  // namespace

std::optional<FittedEquations> fit_equations(std::shared_ptr<const System> recorded, const DataSplit& train,
                                             const DataSplit& validation, double dt) {
  const auto samples = sample(*recorded, train, dt), unseen = sample(*recorded, validation, dt);
  if (!samples || !unseen) return std::nullopt;
  const std::size_t d = train.resolved_size();
  std::optional<Polynomial> best;
  FittedEquations fitted;
  for (std::size_t degree = 1; degree <= highest_degree; ++degree) {
    const double terms = binomial(d + degree, degree);
    if (terms > most_terms || terms * rows_per_term > static_cast<double>(samples->states.rows())) break;
    Polynomial polynomial = fit(*samples, degree);
    const double error = error_of(polynomial, *unseen);
    if (!std::isfinite(error) || (best && error >= fitted.error)) continue;
    best = std::move(polynomial);
    fitted.degree = degree;
    fitted.error = error;
  }
  if (!best) return std::nullopt;
  fitted.system = with_reduced_rhs(
      std::move(recorded), [polynomial = std::move(*best)](std::size_t count, const double* y, double* dydt) {
        const auto d = static_cast<std::size_t>(polynomial.middle.size());
        std::vector<double> terms(polynomial.terms.size());
        for (std::size_t i = 0; i < count; ++i) {
          polynomial.evaluate_terms(y + i * d, terms.data());
          for (std::size_t v = 0; v < d; ++v) {
            double sum = 0;
            for (std::size_t k = 0; k < terms.size(); ++k)
              sum += terms[k] *
                     polynomial.coefficients(static_cast<Eigen::Index>(k), static_cast<Eigen::Index>(v));
            dydt[i * d + v] = sum;
          }
        }
      });
  return fitted;
}

}  // namespace mac
