#include "baselines/hermite.hpp"

#include <Eigen/Eigenvalues>
#include <cmath>

namespace mac {

GaussHermite gauss_hermite(std::size_t count) {
  // The Jacobi matrix of He_n has zeros on its diagonal and sqrt(1), sqrt(2), ... beside it.
  const auto n = static_cast<Eigen::Index>(count);
  Eigen::MatrixXd jacobi = Eigen::MatrixXd::Zero(n, n);
  for (Eigen::Index i = 1; i < n; ++i)
    jacobi(i, i - 1) = jacobi(i - 1, i) = std::sqrt(static_cast<double>(i));
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(jacobi);
  GaussHermite rule{std::vector<double>(count), std::vector<double>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    const auto a = static_cast<Eigen::Index>(i), b = n - 1 - a;  // mirror images, made so to the last bit
    rule.nodes[i] = (solver.eigenvalues()[a] - solver.eigenvalues()[b]) / 2;
    rule.weights[i] =
        (std::pow(solver.eigenvectors()(0, a), 2) + std::pow(solver.eigenvectors()(0, b), 2)) / 2;
  }
  return rule;
}

namespace {

/// Appends every multi-index of the given total degree over variables l, l+1, ... to `out`.
void append_degrees(std::vector<std::size_t>& nu, std::size_t l, std::size_t total,
                    std::vector<std::size_t>& out) {
  if (l + 1 == nu.size()) {
    nu[l] = total;
    out.insert(out.end(), nu.begin(), nu.end());
    return;
  }
  for (std::size_t d = total + 1; d-- > 0;) {
    nu[l] = d;
    append_degrees(nu, l + 1, total - d, out);
  }
}

std::vector<std::size_t> all_degrees(std::size_t variables, std::size_t degree) {
  std::vector<std::size_t> nu(variables), degrees;
  for (std::size_t total = 0; total <= degree; ++total) append_degrees(nu, 0, total, degrees);
  return degrees;
}

}  // namespace

HermiteBasis::HermiteBasis(std::size_t variables, std::size_t degree)
    : HermiteBasis(variables, degree, all_degrees(variables, degree)) {}

HermiteBasis::HermiteBasis(std::size_t variables, std::size_t degree, std::vector<std::size_t> degrees)
    : variables_(variables), degree_(degree), degrees_(std::move(degrees)), factors_(size() * degree_, 0) {
  for (std::size_t d = 0; d <= degree_; ++d) root_.push_back(std::sqrt(static_cast<double>(d)));
  for (std::size_t i = 0; i < size(); ++i) {
    std::size_t* factor = factors_.data() + i * degree_;
    for (std::size_t l = 0; l < variables_; ++l)
      if (const std::size_t d = degrees_[i * variables_ + l]; d > 0) *factor++ = l * (degree_ + 1) + d;
  }
}

void HermiteBasis::fill_table(const double* x, double* table) const {
  for (std::size_t l = 0; l < variables_; ++l) {
    double* h = table + l * (degree_ + 1);
    h[0] = 1;
    if (degree_ > 0) h[1] = x[l];
    for (std::size_t d = 1; d < degree_; ++d) h[d + 1] = (x[l] * h[d] - root_[d] * h[d - 1]) / root_[d + 1];
  }
}

void HermiteBasis::evaluate(const double* x, double* values, double* work) const {
  fill_table(x, work);
  for (std::size_t i = 0; i < size(); ++i) {
    double product = 1;
    for (std::size_t f = 0; f < degree_; ++f) product *= work[factors_[i * degree_ + f]];
    values[i] = product;
  }
}

void HermiteBasis::rate(const double* x, const double* dxdt, double* rates, double* work) const {
  double* const slopes = work + variables_ * (degree_ + 1);  // d/dt h_d(x_l)
  fill_table(x, work);
  for (std::size_t l = 0; l < variables_; ++l)
    for (std::size_t d = 0; d <= degree_; ++d) {
      const std::size_t entry = l * (degree_ + 1) + d;
      slopes[entry] = d == 0 ? 0.0 : root_[d] * work[entry - 1] * dxdt[l];
    }
  for (std::size_t i = 0; i < size(); ++i) {
    const std::size_t* factor = factors_.data() + i * degree_;
    double sum = 0;
    for (std::size_t f = 0; f < degree_; ++f) {
      double product = slopes[factor[f]];
      for (std::size_t g = 0; g < degree_; ++g)
        if (g != f) product *= work[factor[g]];
      sum += product;
    }
    rates[i] = sum;
  }
}

}  // namespace mac
