// A real field on a periodic grid of n points and its Fourier coefficients k = 0..n/2 (FFTW).
#pragma once

#include <fftw3.h>

#include <cstddef>
#include <memory>

namespace mac {

/// Doubles aligned for FFTW's vector code.
struct FftwFree {
  void operator()(void* memory) const { fftw_free(memory); }
};
using AlignedDoubles = std::unique_ptr<double[], FftwFree>;
AlignedDoubles aligned_doubles(std::size_t count);  // zeros

class RealFft {
 public:
  explicit RealFft(std::size_t n);
  ~RealFft();
  RealFft(const RealFft&) = delete;
  RealFft& operator=(const RealFft&) = delete;

  std::size_t points() const { return n_; }
  double* grid() { return grid_.get(); }    // n values
  double* modes() { return modes_.get(); }  // n/2 + 1 complex coefficients, interleaved

  /// grid_j = sum_k modes_k e^{ikx_j}; destroys modes.
  void to_grid() { fftw_execute(to_grid_); }
  /// modes_k = sum_j grid_j e^{-ikx_j}: n times the coefficients; may destroy grid.
  void to_modes() { fftw_execute(to_modes_); }

 private:
  std::size_t n_;
  AlignedDoubles grid_, modes_;
  fftw_plan to_grid_, to_modes_;
};

}  // namespace mac
