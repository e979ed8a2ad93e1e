// SOAP (Vyas et al. 2024): Adam's step taken in the eigenbases of the gradients' covariances.
//
// For a weight matrix W with gradient G and first moment M:
//
//   W <- (1 - lr decay) W - lr P [(P^T M Q) / sqrt(V)] Q^T,   V <- beta2 V + (1 - beta2) (P^T G Q)^2
//
// with Adam's bias corrections. P holds the eigenvectors of L, Q those of R,
//
//   L <- beta L + (1 - beta) G G^T,   R <- beta R + (1 - beta) G^T G,
//
// and both follow by a step of orthogonal iteration now and then, from the identity on. Vectors take Adam's
// step. For networks of this size a step costs as much as the gradients of three sequences, and does what
// three of AdamW's do (docs/training.md).
#pragma once

#include "training/adamw.hpp"

namespace mac {

inline constexpr double soap_beta2 = 0.99, soap_covariance_beta = 0.95;

/// Whether the bases follow after that many steps, the last one included.
inline bool soap_follows(std::size_t steps_taken) { return steps_taken == 1 || steps_taken % 10 == 0; }

/// A tensor of more than one dimension, the first against the rest.
struct SoapMatrix {
  std::size_t offset, rows, columns;  // in the parameters
  std::size_t L, R, P, Q;             // in the bases, one after the other
};
std::vector<SoapMatrix> soap_matrices(const NetworkShape& shape);

/// Before the first step: no covariances, the identity as P and Q.
template <class T>
std::vector<T> initial_bases(const std::vector<SoapMatrix>& matrices);

template <class T>
class Soap final : public Optimiser<T> {
 public:
  Soap(const NetworkShape& shape, double weight_decay, int threads);

  void step(std::span<T> parameters, std::span<const T> gradient, double lr, double beta1) override;
  OptimiserState<T> state() const override;
  void restore(const OptimiserState<T>& state, std::size_t steps_taken) override;

  const std::vector<T>& bases() const { return bases_; }

 private:
  struct Matrix : SoapMatrix {
    std::vector<T> rotated, scratch, direction;
  };

  void step_matrix(Matrix& matrix, const AdamStep<T>& step, T* parameters, const T* gradient);
  /// P and Q follow L and R; the second moments go with their directions.
  void follow(Matrix& matrix);

  double weight_decay_;
  std::size_t steps_taken_ = 0;
  std::vector<T> first_moment_, second_moment_;
  std::vector<T> bases_;  // L, R, P, Q of all matrices
  int threads_;           // each takes whole matrices: results don't depend on their number
  std::vector<Matrix> matrices_;
  std::vector<bool> in_matrix_;  // for each parameter
};

}  // namespace mac
