// Which instruction sets the kernels are compiled for, and how one is chosen. Include before hwy/highway.h.
//
// x86-64: plain scalar code, SSE4, AVX2 with FMA, AVX-512; the newest one present is chosen at run time. Sets
// in between would cost build time and gain little. Kernels keep arrays of vectors, so vectors without a
// compile-time size (SVE, RVV) are left out; on AArch64 NEON serves.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

/// In namespace mac, once a file: the function `Result name()` calls `compiled`, a function of HWY_NAMESPACE,
/// as it was compiled for the newest instruction set that the machine has.
#define MAC_DISPATCH(Result, name, compiled) \
  HWY_EXPORT(compiled);                      \
  template <>                                \
  Result name() {                            \
    return HWY_DYNAMIC_DISPATCH(compiled)(); \
  }
