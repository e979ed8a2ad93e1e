// The reduced right-hand side of the Fourier systems (see fourier.hpp): eq. (4), eq_burgers_resolved, and eq. (5),
// eq_kdv_resolved, of the paper, and Kuramoto-Sivashinsky, with the sums cut off at M and without C.
#pragma once

#include <cstddef>
#include <mac/host_device.hpp>

namespace mac {

/// The truncated convolution sum_{p+q=k, |p|,|q|<=M} theta_p theta_q for k = 1..M.
template <class Scalar>
MAC_HOST_DEVICE void truncated_square(std::size_t modes, const Scalar* phi, const Scalar* psi, Scalar* re,
                                      Scalar* im) {
  for (std::size_t k = 1; k <= modes; ++k) {
    Scalar sum_re(0), sum_im(0);
    for (std::size_t p = 1; p < k; ++p) {  // theta_p theta_{k-p}
      const std::size_t q = k - p;
      sum_re += phi[p - 1] * phi[q - 1] - psi[p - 1] * psi[q - 1];
      sum_im += phi[p - 1] * psi[q - 1] + psi[p - 1] * phi[q - 1];
    }
    for (std::size_t p = 1; p + k <= modes; ++p) {  // theta_{-p} theta_{k+p}, and the same with p, q swapped
      const std::size_t q = k + p;
      sum_re += 2.0 * (phi[p - 1] * phi[q - 1] + psi[p - 1] * psi[q - 1]);
      sum_im += 2.0 * (phi[p - 1] * psi[q - 1] - psi[p - 1] * phi[q - 1]);
    }
    re[k - 1] = sum_re;
    im[k - 1] = sum_im;
  }
}

/// R^_k for y = phi_1..phi_M psi_1..psi_M; lambda holds real and imaginary
/// part of the linear operator's symbol, from k = 0 on.
template <class Scalar>
MAC_HOST_DEVICE void fourier_reduced_rhs(std::size_t modes, double wavenumber, const double* lambda,
                                         const Scalar* y, Scalar* dydt) {
  const Scalar *phi = y, *psi = y + modes;
  Scalar *dphi = dydt, *dpsi = dydt + modes;
  truncated_square(modes, phi, psi, dphi, dpsi);
  for (std::size_t k = 1; k <= modes; ++k) {
    const double half = 0.5 * static_cast<double>(k) * wavenumber, a = lambda[2 * k], b = lambda[2 * k + 1];
    const Scalar re = dphi[k - 1], im = dpsi[k - 1];  // -ikq/2 (re + i im) = kq/2 im - i kq/2 re
    dphi[k - 1] = half * im + (a * phi[k - 1] - b * psi[k - 1]);
    dpsi[k - 1] = a * psi[k - 1] + b * phi[k - 1] - half * re;
  }
}

}  // namespace mac
