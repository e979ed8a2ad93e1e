// The two functions of Highway's library that its run-time dispatch calls. Debian has Highway as a shared
// library only; with these the runtime needs no library beyond libstdc++. MAC's full library links Highway.
#include <hwy/targets.h>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {

/// The instruction sets this machine and its operating system have, of those in network/cpu/targets.hpp.
int64_t SupportedTargets() {
  int64_t targets = HWY_ENABLED_BASELINE | HWY_EMU128;
#if HWY_ARCH_X86
  // What the compiler may use in code for each set (hwy/ops/set_macros-inl.h).
  const auto has_sse4 = [] {
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  };
  const auto has_f16c = [] {  // which not every clang knows by name
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  };
  const auto has_avx2 = [&] {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && has_f16c();
  };
  const auto has_avx3 = [] {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  };
  __builtin_cpu_init();
  if (has_sse4()) {
    targets |= HWY_SSE4;
    if (has_avx2()) {
      targets |= HWY_AVX2;
      if (has_avx3()) targets |= HWY_AVX3;
    }
  }
#endif
  return targets;
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;  // the same for every model: what the machine has
  return chosen;
}

}  // namespace hwy
