#include "base/portable.hpp"

#include <hwy/targets.h>

#include <cstdint>
#include <mac/error.hpp>

namespace mac {

void use_portable_instructions() {
#if HWY_ARCH_X86
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0)
    throw UsageError("--portable: this processor has no AVX2, whose results it would give");
  hwy::DisableTargets(~static_cast<std::int64_t>(HWY_AVX2));
#endif  // elsewhere there is one set only
}

}  // namespace mac
