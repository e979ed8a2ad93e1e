#include "training/soap.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <mac/random.hpp>
#include <numeric>

namespace mac::test {
namespace {

const NetworkShape shape{LayerKind::mamba, 4, 4, 6, 1, 3};

std::vector<double> normal_numbers(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, Purpose::noise, 0);
  std::vector<double> numbers(count);
  for (double& number : numbers) number = random.normal();
  return numbers;
}

/// A matrix of the network, and where its L, R, P, Q lie one after the other in `bases`.
struct Bases {
  std::size_t offset, m, n, L, R, P, Q;
};

std::vector<Bases> bases_of(const NetworkShape& network) {
  std::vector<Bases> all;
  std::size_t at = 0;
  const ParameterLayout layout(network);
  for (const TensorSpec& tensor : layout.tensors()) {
    const std::size_t m = tensor.shape[0], n = tensor.size / m;
    if (m == 1 || n == 1) continue;
    all.push_back({tensor.offset, m, n, at, at + m * m, at + m * m + n * n, at + 2 * m * m + n * n});
    at += 2 * (m * m + n * n);
  }
  return all;
}

/// aᵀ C b for columns a, b of two bases (n, n).
double form(const double* a, const double* C, const double* b, std::size_t n, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t l = 0; l < n; ++l) sum += a[k * n + i] * (C ? C[k * n + l] : k == l) * b[l * n + j];
  return sum;
}

TEST(Soap, TakesAdamWsFirstStep) {
  const std::size_t count = parameter_count(shape);
  Soap<double> soap(shape, 0.1, 1);
  AdamW<double> adamw(count, 0.1);
  const std::vector<double> gradient = normal_numbers(count, 1);
  std::vector<double> a = normal_numbers(count, 2), b = a;
  soap.step(a, gradient, 1e-2, 0.9);
  adamw.step(b, gradient, 1e-2, 0.9);
  for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);  // both move by lr · sign(g)
}

TEST(Soap, KeepsItsBasesOrthonormalWhateverTheGradients) {
  const std::size_t count = parameter_count(shape);
  for (const double size : {1.0, 1e-9, 0.0}) {
    Soap<double> soap(shape, 0, 1);
    std::vector<double> parameters(count);
    for (std::uint64_t step = 0; step < 60; ++step) {
      std::vector<double> gradient = normal_numbers(count, step);
      // Half of all entries never have a gradient: the covariances are singular.
      for (std::size_t i = 0; i < count; ++i) gradient[i] *= i % 4 < 2 ? size : 0;
      soap.step(parameters, gradient, 1e-3, 0.9);
    }
    for (const Bases& b : bases_of(shape))
      for (const auto& [at, n] : {std::pair{b.P, b.m}, std::pair{b.Q, b.n}})
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j)
            // Householder reflections are orthogonal to rounding.
            ASSERT_NEAR(form(soap.bases().data() + at, nullptr, soap.bases().data() + at, n, i, j), i == j,
                        1e-13);
    for (const double p : parameters) ASSERT_TRUE(std::isfinite(p));
  }
}

/// A row-major matrix in an array.
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
Rows rows_of(const std::vector<double>& numbers, std::size_t at, std::size_t m, std::size_t n) {
  return Eigen::Map<const Rows>(numbers.data() + at, static_cast<Eigen::Index>(m),
                                static_cast<Eigen::Index>(n));
}

/// The columns of a basis by falling Rayleigh quotient.
std::vector<Eigen::Index> by_eigenvalue(const Rows& basis, const Rows& covariance) {
  const Eigen::VectorXd quotient = (basis.transpose() * covariance * basis).diagonal();
  std::vector<Eigen::Index> order(static_cast<std::size_t>(quotient.size()));
  std::iota(order.begin(), order.end(), Eigen::Index{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](Eigen::Index j) { return quotient[j]; });
  return order;
}

TEST(Soap, TakesTheStepsOfItsFormulas) {
  constexpr double decay = 0.1, lr = 1e-2;
  const std::size_t count = parameter_count(shape);
  Soap<double> soap(shape, decay, 1);
  std::vector<double> parameters = normal_numbers(count, 1);
  struct Moments {
    Rows M, V, L, R;
  };
  std::vector<Moments> moments;
  for (const Bases& b : bases_of(shape)) {
    const auto m = static_cast<Eigen::Index>(b.m), n = static_cast<Eigen::Index>(b.n);
    moments.push_back({Rows::Zero(m, n), Rows::Zero(m, n), Rows::Zero(m, m), Rows::Zero(n, n)});
  }
  for (std::uint64_t step = 1; step <= 32; ++step) {
    const double beta1 = step < 10 ? 0.9 : 0.85, n = static_cast<double>(step);
    const std::vector<double> gradient = normal_numbers(count, 100 + step), before = parameters,
                              bases = soap.bases();
    soap.step(parameters, gradient, lr, beta1);
    std::size_t i = 0;
    for (const Bases& b : bases_of(shape)) {
      auto& [M, V, L, R] = moments[i++];
      const Rows G = rows_of(gradient, b.offset, b.m, b.n), P = rows_of(bases, b.P, b.m, b.m),
                 Q = rows_of(bases, b.Q, b.n, b.n);
      M += (1 - beta1) * (G - M);
      V = 0.99 * V + 0.01 * (P.transpose() * G * Q).cwiseAbs2();
      const Rows root = (V / (1 - std::pow(0.99, n))).cwiseSqrt().array() + 1e-8;
      const Rows W =
          (1 - lr * decay) * rows_of(before, b.offset, b.m, b.n) -
          lr / (1 - std::pow(beta1, n)) * P * (P.transpose() * M * Q).cwiseQuotient(root) * Q.transpose();
      // Rounding, where a second moment is small beside its neighbours.
      ASSERT_LT((W - rows_of(parameters, b.offset, b.m, b.n)).cwiseAbs().maxCoeff(), 1e-11) << step;

      L = 0.95 * L + 0.05 * G * G.transpose();
      R = 0.95 * R + 0.05 * G.transpose() * G;
      if (step != 1 && step % 10 != 0) {
        ASSERT_EQ(rows_of(soap.bases(), b.P, b.m, b.m), P);
        continue;
      }
      const auto rows = by_eigenvalue(P, L), columns = by_eigenvalue(Q, R);
      V = V(rows, columns).eval();
      for (const auto& [basis, covariance, order, at] :
           {std::tuple{&P, &L, &rows, b.P}, {&Q, &R, &columns, b.Q}}) {
        const auto size = static_cast<std::size_t>(covariance->rows());
        const Rows turned = rows_of(soap.bases(), at, size, size).transpose() * *covariance *
                            (*basis)(Eigen::all, *order);  // the triangle of a QR decomposition
        ASSERT_LT(Rows(turned.triangularView<Eigen::StrictlyLower>()).cwiseAbs().maxCoeff(),
                  1e-13 * covariance->norm())
            << step;
      }
    }
  }
}

TEST(Soap, FindsTheEigenvectorsOfTheCovariances) {
  const std::size_t count = parameter_count(shape);
  Soap<double> soap(shape, 0, 1);
  std::vector<double> parameters(count);
  const std::vector<double> gradient = normal_numbers(count, 5);
  // The same gradient all the time: L and R are GGᵀ and GᵀG from the first hundred steps on.
  for (int step = 0; step < 3000; ++step) soap.step(parameters, gradient, 1e-3, 0.9);
  for (const Bases& b : bases_of(shape)) {
    const double* const L = soap.bases().data() + b.L;
    const double* const P = soap.bases().data() + b.P;
    const double largest = form(P, L, P, b.m, 0, 0);
    for (std::size_t i = 0; i < b.m; ++i)
      for (std::size_t j = 0; j < i; ++j)
        // Orthogonal iteration turns off-diagonal entries down by the ratio of eigenvalues, 300 times.
        EXPECT_NEAR(form(P, L, P, b.m, i, j) / largest, 0, 1e-6);
    for (std::size_t i = 1; i < b.m; ++i)
      EXPECT_LE(form(P, L, P, b.m, i, i), form(P, L, P, b.m, i - 1, i - 1) + 1e-12 * largest);  // rounding
  }
}

/// Linear regression with inputs whose covariance is ill-conditioned and lies across the axes: a matrix
/// should become zero on x = H (λ_1 ξ_1, λ_2 ξ_2, ..), λ falling from 1 to 1e-2, H a Householder reflection.
/// Returns the expected loss 1/2 Σ |W x|² of all matrices, and writes the gradient for eight random x.
double regression(std::span<const double> parameters, std::span<double> gradient, std::uint64_t step) {
  constexpr std::size_t samples = 8;
  std::fill(gradient.begin(), gradient.end(), 0.0);
  double loss = 0;
  for (const Bases& b : bases_of(shape)) {
    const std::vector<double> w = normal_numbers(b.n, 40), noise = normal_numbers(samples * b.n, 100 + step);
    double squares = 0;
    for (const double value : w) squares += value * value;
    const auto lambda = [&](std::size_t k) {
      return std::pow(10, -2.0 * static_cast<double>(k) / static_cast<double>(b.n - 1));
    };
    const auto reflected = [&](std::vector<double> x) {
      double dot = 0;
      for (std::size_t k = 0; k < b.n; ++k) dot += w[k] * x[k];
      for (std::size_t k = 0; k < b.n; ++k) x[k] -= 2 * dot / squares * w[k];
      return x;
    };
    const double* const W = parameters.data() + b.offset;
    const auto apply = [&](const std::vector<double>& x, std::size_t row) {
      double sum = 0;
      for (std::size_t k = 0; k < b.n; ++k) sum += W[row * b.n + k] * x[k];
      return sum;
    };
    for (std::size_t k = 0; k < b.n; ++k) {
      std::vector<double> axis(b.n);
      axis[k] = lambda(k);
      axis = reflected(axis);
      for (std::size_t row = 0; row < b.m; ++row) loss += 0.5 * apply(axis, row) * apply(axis, row);
    }
    for (std::size_t s = 0; s < samples; ++s) {
      std::vector<double> x(b.n);
      for (std::size_t k = 0; k < b.n; ++k) x[k] = lambda(k) * noise[s * b.n + k];
      x = reflected(x);
      for (std::size_t row = 0; row < b.m; ++row)
        for (std::size_t k = 0; k < b.n; ++k)
          gradient[b.offset + row * b.n + k] += apply(x, row) * x[k] / samples;
    }
  }
  return loss;
}

double loss_after(Optimiser<double>& optimiser, std::uint64_t steps) {
  const std::size_t count = parameter_count(shape);
  std::vector<double> parameters = normal_numbers(count, 9), gradient(count);
  for (std::uint64_t step = 0; step < steps; ++step) {
    regression(parameters, gradient, step);
    optimiser.step(parameters, gradient, 1e-2 * (1 - static_cast<double>(step) / static_cast<double>(steps)),
                   0.9);
  }
  return regression(parameters, gradient, 0);
}

TEST(Soap, GoesStraightWhereTheInputsCovarianceLiesAcrossTheAxes) {
  Soap<double> soap(shape, 0, 1);
  AdamW<double> adamw(parameter_count(shape), 0);
  const double with_soap = loss_after(soap, 3000), with_adamw = loss_after(adamw, 3000);
  // Rotated, all directions converge alike; AdamW's axes each see the slowest (5.6e-11 against .027).
  EXPECT_LT(with_soap, 1e-3 * with_adamw) << with_soap << " " << with_adamw;
}

TEST(Soap, DoesNotDependOnTheNumberOfThreads) {
  const std::size_t count = parameter_count(shape);
  Soap<double> one(shape, 1e-3, 1), three(shape, 1e-3, 3);
  std::vector<double> a = normal_numbers(count, 3), b = a;
  for (std::uint64_t step = 0; step < 25; ++step) {
    const std::vector<double> gradient = normal_numbers(count, step);
    one.step(a, gradient, 1e-2, 0.9);
    three.step(b, gradient, 1e-2, 0.9);
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(one.bases(), three.bases());
}

}  // namespace
}  // namespace mac::test
