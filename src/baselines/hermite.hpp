// Gauss–Hermite quadrature and products of Hermite polynomials: integrals and an orthonormal basis for
// independent standard Gaussians x_1..x_n.
//
//   He_0 = 1,  He_1 = x,  He_{d+1} = x He_d - d He_{d-1},    h_d = He_d / sqrt(d!),    h_d' = sqrt(d) h_{d-1}
//   h_nu(x) = prod_l h_{nu_l}(x_l),   E h_nu h_mu = delta_{nu mu}
#pragma once

#include <cstddef>
#include <vector>

namespace mac {

struct GaussHermite {
  std::vector<double> nodes, weights;  // sum w f(x) = E f(x) for polynomials of degree <= 2 count - 1
};

/// Golub–Welsch. The nodes are exactly symmetric about zero.
GaussHermite gauss_hermite(std::size_t count);

/// The polynomials h_nu of n variables with |nu| <= degree, the constant included.
class HermiteBasis {
 public:
  /// All multi-indices, by degree and then lexicographically.
  HermiteBasis(std::size_t variables, std::size_t degree);
  /// The given ones: degrees (count, variables).
  HermiteBasis(std::size_t variables, std::size_t degree, std::vector<std::size_t> degrees);

  std::size_t size() const { return degrees_.size() / variables_; }
  std::size_t variables() const { return variables_; }
  std::size_t degree() const { return degree_; }
  /// nu of function i.
  const std::size_t* degrees(std::size_t i) const { return degrees_.data() + i * variables_; }

  /// Numbers of scratch that the functions below need.
  std::size_t work_size() const { return 2 * variables_ * (degree_ + 1); }
  /// h_nu(x) for every nu.
  void evaluate(const double* x, double* values, double* work) const;
  /// d/dt h_nu(x(t)) = sum_l dh_nu/dx_l dx_l/dt for every nu.
  void rate(const double* x, const double* dxdt, double* rates, double* work) const;

 private:
  void fill_table(const double* x, double* table) const;

  std::size_t variables_, degree_;
  std::vector<std::size_t> degrees_;
  std::vector<double> root_;  // sqrt(0), sqrt(1), ..
  // A function is a product of `degree_` entries of the table h_d(x_l) at l (degree_ + 1) + d; functions of
  // fewer variables are padded with entry 0, which is h_0 = 1.
  std::vector<std::size_t> factors_;
};

}  // namespace mac
