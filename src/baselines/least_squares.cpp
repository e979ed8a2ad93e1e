#include "baselines/least_squares.hpp"

#include <Eigen/QR>
#include <mac/error.hpp>

namespace mac {

namespace {
constexpr Eigen::Index rows_at_once = 4096;
}

LeastSquares::LeastSquares(std::size_t columns)
    : columns_(columns), rows_(rows_at_once, static_cast<Eigen::Index>(columns) + 1) {}

void LeastSquares::add(const double* row, double target) {
  if (filled_ == rows_.rows()) compress();
  for (std::size_t i = 0; i < columns_; ++i) rows_(filled_, static_cast<Eigen::Index>(i)) = row[i];
  rows_(filled_, static_cast<Eigen::Index>(columns_)) = target;
  ++filled_;
}

void LeastSquares::compress() {
  const Eigen::Index size = std::min(filled_, rows_.cols());
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(rows_.topRows(filled_));
  const Eigen::MatrixXd triangle = qr.matrixQR().topRows(size).triangularView<Eigen::Upper>();
  rows_.topRows(size) = triangle;
  filled_ = size;
}

LeastSquares::Solution LeastSquares::solve() {
  compress();
  const auto n = static_cast<Eigen::Index>(columns_);
  if (filled_ < n) throw Error("a least-squares fit of {} coefficients has only {} equations", n, filled_);
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(rows_.topLeftCorner(n, n));
  if (qr.rank() < n) throw Error("a least-squares fit of {} coefficients has only rank {}", n, qr.rank());
  const Eigen::VectorXd solution = qr.solve(rows_.col(n).head(n));
  const double last = filled_ > n ? rows_(n, n) : 0.0;
  return {std::vector<double>(solution.begin(), solution.end()), last * last};
}

}  // namespace mac
