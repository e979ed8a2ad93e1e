#include "parallel/thread_count.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

namespace mac {
namespace {

TEST(ThreadCount, IsWhatWasAskedFor) { EXPECT_EQ(thread_count(3), 3); }

// A batch job has a share of the machine's cores: more threads than that would wait for each other.
TEST(ThreadCount, CountsTheCoresThatTheProcessMayUse) {
  ::unsetenv("OMP_NUM_THREADS");
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int alone = thread_count(0);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(alone, 1);
  EXPECT_LE(thread_count(0), CPU_COUNT(&before));  // fewer where a container has less
}

// What schedulers and libraries of workers set for programs like this one.
TEST(ThreadCount, OfNoneAskedForIsThatOfTheEnvironment) {
  ::setenv("OMP_NUM_THREADS", "5", 1);
  EXPECT_EQ(thread_count(0), 5);
  EXPECT_EQ(thread_count(2), 2);
  ::setenv("OMP_NUM_THREADS", "3,2", 1);  // of nested loops
  EXPECT_EQ(thread_count(0), 3);
  ::unsetenv("OMP_NUM_THREADS");
}

TEST(ThreadCount, IgnoresAnEnvironmentThatMeansNothing) {
  const int all = thread_count(0);
  for (const char* text : {"", "many", "-2", "0", "4x"}) {
    ::setenv("OMP_NUM_THREADS", text, 1);
    EXPECT_EQ(thread_count(0), all) << '"' << text << '"';
  }
  ::unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace mac
