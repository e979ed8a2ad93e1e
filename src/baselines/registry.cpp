#include "experiment/baseline_kinds.hpp"

#define MAC_BASELINES(BASELINE) \
  BASELINE(wilks)               \
  BASELINE(polynomial)          \
  BASELINE(linear_memory)       \
  BASELINE(cubic_memory)        \
  BASELINE(regression)

namespace mac {

#define MAC_DECLARE(name) BaselineKind name##_baseline();
MAC_BASELINES(MAC_DECLARE)
#undef MAC_DECLARE

const std::vector<BaselineKind>& baseline_kinds() {
#define MAC_ENTRY(name) name##_baseline(),
  static const std::vector<BaselineKind> kinds{MAC_BASELINES(MAC_ENTRY)};
#undef MAC_ENTRY
  return kinds;
}

}  // namespace mac
