// Linear least squares over more rows than fit in memory: the rows seen so far are kept as the triangle of
// their QR factorisation, [A b] = Q R, which has the same least-squares problem.
#pragma once

#include <Eigen/Core>
#include <vector>

namespace mac {

class LeastSquares {
 public:
  explicit LeastSquares(std::size_t columns);

  /// One equation: row . coefficients ~ target.
  void add(const double* row, double target);

  struct Solution {
    std::vector<double> coefficients;
    double residual;  // sum of squares
  };
  /// Throws Error if the columns are not independent.
  Solution solve();

 private:
  void compress();

  std::size_t columns_;
  Eigen::Index filled_ = 0;
  Eigen::MatrixXd rows_;  // [A b], the first columns_ + 1 rows a triangle after the first compression
};

}  // namespace mac
