#include "integrators/matrix_phi.hpp"

#include <cmath>

namespace mac {

std::array<Eigen::MatrixXd, 4> phi_functions(const Eigen::MatrixXd& z) {
  using Matrix = Eigen::MatrixXd;
  const double size = z.cwiseAbs().rowwise().sum().maxCoeff();
  int doublings = 0;
  std::frexp(size, &doublings);
  doublings = std::max(0, doublings + 1);  // |Z / 2^s| <= 1/2
  const Matrix one = Matrix::Identity(z.rows(), z.cols()), x = z * std::ldexp(1.0, -doublings);

  // phi_3 = sum_j X^j / (j+3)! by Horner's rule: 0.5^17 / 20! is far below rounding. The others from it.
  double factorial = 2432902008176640000.0;  // 20!
  Matrix phi3 = one / factorial;
  for (int j = 16; j >= 0; --j) {
    factorial /= j + 4;
    phi3 = x * phi3 + one / factorial;
  }
  const Matrix phi2 = x * phi3 + one / 2, phi1 = x * phi2 + one;
  std::array<Matrix, 4> phi{x * phi1 + one, phi1, phi2, phi3};
  // phi_k(2 X) 2^k = e^X phi_k(X) + sum_{j=1..k} phi_j(X) / (k-j)!
  for (int s = 0; s < doublings; ++s) {
    const Matrix e = phi[0];
    phi[3] = (e * phi[3] + phi[1] / 2 + phi[2] + phi[3]).eval() / 8;
    phi[2] = (e * phi[2] + phi[1] + phi[2]).eval() / 4;
    phi[1] = (e * phi[1] + phi[1]).eval() / 2;
    phi[0] = e * e;
  }
  return phi;
}

}  // namespace mac
