#include "training/soap.hpp"

#include <Eigen/Core>
#include <Eigen/Householder>
#include <algorithm>
#include <numeric>

#include "integrators/simd.hpp"
#include "parallel/parallel_for.hpp"

namespace mac {

namespace {

/// c (n) += Σ_l factor(l) · row l of b (k, n), one after the other; c stays in registers for four of them.
template <class T, class Factor>
[[gnu::always_inline]] inline void add_rows(T* __restrict c, Factor factor, const T* __restrict b,
                                            std::size_t k, std::size_t n) {
  std::size_t l = 0;
  for (; l + 4 <= k; l += 4) {
    const T f0 = factor(l), f1 = factor(l + 1), f2 = factor(l + 2), f3 = factor(l + 3);
    const T* const rows = b + l * n;
    for (std::size_t j = 0; j < n; ++j)
      c[j] = (((c[j] + f0 * rows[j]) + f1 * rows[n + j]) + f2 * rows[2 * n + j]) + f3 * rows[3 * n + j];
  }
  for (; l < k; ++l) {
    const T f = factor(l);
    for (std::size_t j = 0; j < n; ++j) c[j] += f * b[l * n + j];
  }
}

/// c (m, n) = a (m, k) · b (k, n)
template <class T>
MAC_VECTOR_CLONES void multiply(T* c, const T* a, const T* b, std::size_t m, std::size_t k, std::size_t n) {
  std::fill(c, c + m * n, T(0));
  for (std::size_t i = 0; i < m; ++i)
    add_rows(
        c + i * n, [&](std::size_t l) { return a[i * k + l]; }, b, k, n);
}

/// c (k, n) = keep · c + share · aᵀ b with a (m, k), b (m, n)
template <class T>
MAC_VECTOR_CLONES void add_transposed_product(T* c, T keep, T share, const T* a, const T* b, std::size_t m,
                                              std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < k * n; ++i) c[i] *= keep;
  for (std::size_t i = 0; i < k; ++i)
    add_rows(
        c + i * n, [&](std::size_t l) { return share * a[l * k + i]; }, b, m, n);
}

template <class T>
void transpose(T* to, const T* from, std::size_t rows, std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
}

/// The Q of vectors = Q R, by Householder reflections: an orthonormal basis with the leading spans of the
/// columns; one that depends on those before it gets some direction orthogonal to all. Reflection by
/// reflection, not by Eigen's HouseholderQR, whose sums follow the size of the processor's cache.
Eigen::MatrixXd orthonormal_basis(Eigen::MatrixXd vectors) {
  const Eigen::Index n = vectors.rows();
  Eigen::VectorXd tau(n), work(n);
  double length = 0;
  const auto reflection = [&](Eigen::Index k) { return vectors.col(k).tail(n - k - 1); };
  for (Eigen::Index k = 0; k < n; ++k) {
    vectors.col(k).tail(n - k).makeHouseholderInPlace(tau[k], length);
    vectors.bottomRightCorner(n - k, n - k - 1).applyHouseholderOnTheLeft(reflection(k), tau[k], work.data());
  }
  Eigen::MatrixXd q = Eigen::MatrixXd::Identity(n, n);
  for (Eigen::Index k = n; k-- > 0;)
    q.bottomRightCorner(n - k, n - k).applyHouseholderOnTheLeft(reflection(k), tau[k], work.data());
  return q;
}

/// A step of orthogonal iteration: basis (n, n; columns) becomes an orthonormal basis of covariance · basis,
/// the directions of the largest eigenvalues first. Returns where each column came from. `product` is
/// scratch.
template <class T>
std::vector<std::size_t> iterate(T* basis, const T* covariance, std::size_t n, T* product) {
  multiply(product, covariance, basis, n, n, n);
  std::vector<double> eigenvalue(n);
  for (std::size_t i = 0; i < n * n; ++i)
    eigenvalue[i % n] += static_cast<double>(basis[i]) * static_cast<double>(product[i]);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // A training that has gone wrong is noticed after the step: until then NaN must have a place, too.
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t j) {
    return std::isnan(eigenvalue[j]) ? -INFINITY : eigenvalue[j];
  });

  const auto size = static_cast<Eigen::Index>(n);
  using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd vectors =
      Eigen::Map<const Rows>(product, size, size)(Eigen::all, order).template cast<double>();
  Eigen::Map<Rows>(basis, size, size) = orthonormal_basis(vectors).cast<T>();
  return order;
}

}  // namespace

std::vector<SoapMatrix> soap_matrices(const NetworkShape& shape) {
  std::vector<SoapMatrix> matrices;
  std::size_t bases = 0;
  const ParameterLayout layout(shape);
  for (const TensorSpec& tensor : layout.tensors()) {
    const std::size_t m = tensor.shape[0], n = tensor.size / m;
    if (m == 1 || n == 1) continue;
    const std::size_t L = bases, R = L + m * m, P = R + n * n, Q = P + m * m;
    matrices.push_back({tensor.offset, m, n, L, R, P, Q});
    bases = Q + n * n;
  }
  return matrices;
}

template <class T>
std::vector<T> initial_bases(const std::vector<SoapMatrix>& matrices) {
  std::vector<T> bases;
  for (const auto& [offset, m, n, L, R, P, Q] : matrices) {
    bases.resize(Q + n * n);
    for (std::size_t i = 0; i < m; ++i) bases[P + i * m + i] = 1;
    for (std::size_t i = 0; i < n; ++i) bases[Q + i * n + i] = 1;
  }
  return bases;
}

template <class T>
Soap<T>::Soap(const NetworkShape& shape, double weight_decay, int threads)
    : weight_decay_(weight_decay),
      first_moment_(parameter_count(shape)),
      second_moment_(parameter_count(shape)),
      threads_(threads),
      in_matrix_(parameter_count(shape)) {
  const std::vector<SoapMatrix> matrices = soap_matrices(shape);
  bases_ = initial_bases<T>(matrices);
  for (const SoapMatrix& matrix : matrices) {
    std::fill_n(in_matrix_.begin() + static_cast<std::ptrdiff_t>(matrix.offset), matrix.rows * matrix.columns,
                true);
    const std::size_t larger = std::max(matrix.rows, matrix.columns);
    const std::vector<T> scratch(larger * larger);
    matrices_.push_back({matrix, scratch, scratch, scratch});
  }
}

template <class T>
OptimiserState<T> Soap<T>::state() const {
  return {{first_moment_key, first_moment_}, {second_moment_key, second_moment_}, {bases_key, bases_}};
}

template <class T>
void Soap<T>::restore(const OptimiserState<T>& state, std::size_t steps_taken) {
  first_moment_ = state.at(first_moment_key);
  second_moment_ = state.at(second_moment_key);
  bases_ = state.at(bases_key);
  steps_taken_ = steps_taken;
}

template <class T>
void Soap<T>::step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) {
  const AdamStep<T> step(++steps_taken_, lr, weight_decay_, beta1, soap_beta2);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (in_matrix_[i])
      step.update_first(first_moment_[i], gradient[i]);
    else
      step.take(parameters[i], first_moment_[i], second_moment_[i], gradient[i]);
  }
  const bool now = soap_follows(steps_taken_);
  parallel_for(matrices_.size(), threads_, [&](std::size_t i, std::size_t) {
    Matrix& matrix = matrices_[i];
    step_matrix(matrix, step, parameters.data() + matrix.offset, gradient.data() + matrix.offset);
    if (now) follow(matrix);
  });
}

template <class T>
void Soap<T>::step_matrix(Matrix& matrix, const AdamStep<T>& step, T* parameters, const T* gradient) {
  const std::size_t m = matrix.rows, n = matrix.columns;
  const T* const P = bases_.data() + matrix.P;
  const T* const Q = bases_.data() + matrix.Q;
  T* const V = second_moment_.data() + matrix.offset;
  T* const rotated = matrix.rotated.data();
  T* const scratch = matrix.scratch.data();
  T* const direction = matrix.direction.data();
  const auto rotate = [&](const T* a) {  // rotated = Pᵀ a Q
    add_transposed_product(scratch, T(0), T(1), P, a, m, m, n);
    multiply(rotated, scratch, Q, m, n, n);
  };
  rotate(gradient);
  for (std::size_t i = 0; i < m * n; ++i) step.update_second(V[i], rotated[i]);
  rotate(first_moment_.data() + matrix.offset);
  for (std::size_t i = 0; i < m * n; ++i) rotated[i] = step.direction(rotated[i], V[i]);

  multiply(scratch, P, rotated, m, m, n);
  transpose(rotated, Q, n, n);
  multiply(direction, scratch, rotated, m, n, n);
  for (std::size_t i = 0; i < m * n; ++i) step.move(parameters[i], direction[i]);

  const T keep = static_cast<T>(soap_covariance_beta), share = static_cast<T>(1 - soap_covariance_beta);
  add_transposed_product(bases_.data() + matrix.R, keep, share, gradient, gradient, m, n, n);
  transpose(scratch, gradient, m, n);
  add_transposed_product(bases_.data() + matrix.L, keep, share, scratch, scratch, n, m, m);
}

template <class T>
void Soap<T>::follow(Matrix& matrix) {
  const std::size_t m = matrix.rows, n = matrix.columns;
  T* const bases = bases_.data();
  T* const V = second_moment_.data() + matrix.offset;
  std::vector<T>& scratch = matrix.scratch;
  const auto rows = iterate(bases + matrix.P, bases + matrix.L, m, scratch.data());
  const auto columns = iterate(bases + matrix.Q, bases + matrix.R, n, scratch.data());
  std::copy(V, V + m * n, scratch.begin());
  for (std::size_t i = 0; i < m * n; ++i) V[i] = scratch[rows[i / n] * n + columns[i % n]];
}

template std::vector<float> initial_bases(const std::vector<SoapMatrix>&);
template std::vector<double> initial_bases(const std::vector<SoapMatrix>&);
template class Soap<float>;
template class Soap<double>;

}  // namespace mac
