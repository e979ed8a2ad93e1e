// The functions of a matrix that exponential integrators are made of:
//
//   phi_0(Z) = e^Z,   phi_k(Z) = (phi_{k-1}(Z) - I/(k-1)!) / Z,   k = 1, 2, 3
#pragma once

#include <Eigen/Core>
#include <array>

namespace mac {

/// phi_0..phi_3 of Z: Taylor series of Z / 2^s, doubled s times. No inverse of Z is needed, and no digits are
/// lost where Z is small.
std::array<Eigen::MatrixXd, 4> phi_functions(const Eigen::MatrixXd& z);

}  // namespace mac
