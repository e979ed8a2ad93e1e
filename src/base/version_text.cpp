#include <H5public.h>
#include <fftw3.h>
#include <fmt/format.h>
#include <hwy/targets.h>

#include <mac/cuda.hpp>
#include <mac/version.hpp>

namespace mac {

std::string version_text() {
  return fmt::format(
      "mac {} (commit {})\n"
      "compiler  GCC-compatible {}\n"
      "features  HDF5 {}.{}.{}, {}, {}, SIMD up to {} on this machine",
      version(), commit(), __VERSION__, H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE, fftw_version,
      cuda_description(), hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
}

}  // namespace mac
