// Runs a piece of a test once for every instruction set that was compiled and that this machine has.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace mac {

template <class Body>
void for_each_dispatch_target(const Body& body) {
  for (const auto target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace mac
