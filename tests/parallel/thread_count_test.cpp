#include "parallel/thread_count.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace mac {
namespace {

TEST(ThreadCount, IsWhatWasAskedFor) { EXPECT_EQ(thread_count(3), 3); }

// A batch job has a share of the machine's cores: more threads than that would wait for each other.
TEST(ThreadCount, CountsTheCoresThatTheProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int alone = thread_count(0);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(alone, 1);
  EXPECT_EQ(thread_count(0), CPU_COUNT(&before));
}

}  // namespace
}  // namespace mac
