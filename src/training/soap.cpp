#include "training/soap.hpp"

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

/// v - 2 (w · v) w, from entry `first` on, w being a unit vector there.
void reflect(double* v, const double* w, std::size_t first, std::size_t n) {
  const double twice = 2 * std::inner_product(w + first, w + n, v + first, 0.0);
  for (std::size_t i = first; i < n; ++i) v[i] -= twice * w[i];
}

/// Householder's orthonormal basis for n vectors (rows of a), leading spans kept; vectors that depend on
/// those before them get some direction orthogonal to all.
std::vector<double> orthonormal_basis(std::vector<double> a, std::size_t n) {
  std::vector<double> signs(n), q(n * n);
  for (std::size_t k = 0; k < n; ++k) {
    double* const w = a.data() + k * n;
    const double norm = std::sqrt(std::inner_product(w + k, w + n, w + k, 0.0));
    signs[k] = w[k] > 0 ? -1 : 1;  // of the basis vector, seen from e_k
    w[k] -= signs[k] * norm;
    const double length = std::sqrt(std::inner_product(w + k, w + n, w + k, 0.0));
    for (std::size_t i = k; i < n; ++i) w[i] = length > 0 ? w[i] / length : 0;
    for (std::size_t j = k + 1; j < n; ++j) reflect(a.data() + j * n, w, k, n);
  }
  for (std::size_t j = 0; j < n; ++j) {
    double* const v = q.data() + j * n;
    v[j] = signs[j];
    for (std::size_t k = j + 1; k-- > 0;) reflect(v, a.data() + k * n, k, n);
  }
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

  std::vector<double> vectors(n * n);
  for (std::size_t i = 0; i < n * n; ++i) vectors[i] = static_cast<double>(product[i % n * n + order[i / n]]);
  const std::vector<double> q = orthonormal_basis(std::move(vectors), n);
  for (std::size_t i = 0; i < n * n; ++i) basis[i % n * n + i / n] = static_cast<T>(q[i]);
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
    : Optimiser<T>(parameter_count(shape)),
      weight_decay_(weight_decay),
      threads_(threads),
      in_matrix_(parameter_count(shape)) {
  const std::vector<SoapMatrix> matrices = soap_matrices(shape);
  this->bases = initial_bases<T>(matrices);
  for (const SoapMatrix& matrix : matrices) {
    std::fill_n(in_matrix_.begin() + static_cast<std::ptrdiff_t>(matrix.offset), matrix.rows * matrix.columns,
                true);
    const std::size_t larger = std::max(matrix.rows, matrix.columns);
    const std::vector<T> scratch(larger * larger);
    matrices_.push_back({matrix, scratch, scratch, scratch});
  }
}

template <class T>
void Soap<T>::step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) {
  const AdamStep<T> step(++this->steps_taken, lr, weight_decay_, beta1, soap_beta2);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    step.update_first(this->first_moment[i], gradient[i]);
    if (in_matrix_[i]) continue;
    step.update_second(this->second_moment[i], gradient[i]);
    step.move(parameters[i], step.direction(this->first_moment[i], this->second_moment[i]));
  }
  const bool now = soap_follows(this->steps_taken);
  parallel_for(matrices_.size(), threads_, [&](std::size_t i, std::size_t) {
    Matrix& matrix = matrices_[i];
    step_matrix(matrix, step, parameters.data() + matrix.offset, gradient.data() + matrix.offset);
    if (now) follow(matrix);
  });
}

template <class T>
void Soap<T>::step_matrix(Matrix& matrix, const AdamStep<T>& step, T* parameters, const T* gradient) {
  const std::size_t m = matrix.rows, n = matrix.columns;
  const T* const P = this->bases.data() + matrix.P;
  const T* const Q = this->bases.data() + matrix.Q;
  T* const V = this->second_moment.data() + matrix.offset;
  T* const rotated = matrix.rotated.data();
  T* const scratch = matrix.scratch.data();
  T* const direction = matrix.direction.data();
  const auto rotate = [&](const T* a) {  // rotated = Pᵀ a Q
    add_transposed_product(scratch, T(0), T(1), P, a, m, m, n);
    multiply(rotated, scratch, Q, m, n, n);
  };
  rotate(gradient);
  for (std::size_t i = 0; i < m * n; ++i) step.update_second(V[i], rotated[i]);
  rotate(this->first_moment.data() + matrix.offset);
  for (std::size_t i = 0; i < m * n; ++i) rotated[i] = step.direction(rotated[i], V[i]);

  multiply(scratch, P, rotated, m, m, n);
  transpose(rotated, Q, n, n);
  multiply(direction, scratch, rotated, m, n, n);
  for (std::size_t i = 0; i < m * n; ++i) step.move(parameters[i], direction[i]);

  const T keep = static_cast<T>(soap_covariance_beta), share = static_cast<T>(1 - soap_covariance_beta);
  add_transposed_product(this->bases.data() + matrix.R, keep, share, gradient, gradient, m, n, n);
  transpose(scratch, gradient, m, n);
  add_transposed_product(this->bases.data() + matrix.L, keep, share, scratch, scratch, n, m, m);
}

template <class T>
void Soap<T>::follow(Matrix& matrix) {
  const std::size_t m = matrix.rows, n = matrix.columns;
  T* const bases = this->bases.data();
  T* const V = this->second_moment.data() + matrix.offset;
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
