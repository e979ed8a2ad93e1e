#include "systems/real_fft.hpp"

#include <algorithm>
#include <mutex>
#include <new>

namespace mac {

namespace {
std::mutex planner;  // FFTW's planner is not thread-safe; executing plans is
}

AlignedDoubles aligned_doubles(std::size_t count) {
  double* memory = fftw_alloc_real(count);
  if (!memory) throw std::bad_alloc();
  std::fill_n(memory, count, 0.0);
  return AlignedDoubles(memory);
}

RealFft::RealFft(std::size_t n) : n_(n), grid_(aligned_doubles(n)), modes_(aligned_doubles(2 * (n / 2 + 1))) {
  // Estimated, not measured: a measured plan may differ from run to run, and with it the last bits of the
  // data.
  const unsigned flags = FFTW_ESTIMATE | FFTW_DESTROY_INPUT;
  auto* const modes = reinterpret_cast<fftw_complex*>(modes_.get());
  const std::lock_guard lock(planner);
  to_grid_ = fftw_plan_dft_c2r_1d(static_cast<int>(n), modes, grid_.get(), flags);
  to_modes_ = fftw_plan_dft_r2c_1d(static_cast<int>(n), grid_.get(), modes, flags);
}

RealFft::~RealFft() {
  const std::lock_guard lock(planner);
  fftw_destroy_plan(to_grid_);
  fftw_destroy_plan(to_modes_);
}

}  // namespace mac
