#include "parallel/parallel_for.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mac {
namespace {

TEST(ParallelFor, DoesEveryIndexOnceForAnyNumberOfThreads) {
  for (const int threads : {0, 1, 2, 3, 7})
    for (const std::size_t count : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, threads, [&](std::size_t i, std::size_t worker) {
        EXPECT_LT(worker, static_cast<std::size_t>(std::max(threads, 1)));
        ++done[i];
      });
      for (const auto& times : done) EXPECT_EQ(times, 1) << threads << " threads, " << count << " indices";
    }
}

// Threads of one loop, less or more of them, must not take part in the next one.
TEST(ParallelFor, KeepsManyShortLoopsApart) {
  std::vector<std::size_t> sums(4);
  for (std::size_t loop = 1; loop <= 20000; ++loop) {
    const int threads = static_cast<int>(loop % 4) + 1;
    const std::size_t count = loop % 7;
    std::fill(sums.begin(), sums.end(), 0);
    parallel_for(count, threads, [&](std::size_t i, std::size_t worker) {
      ASSERT_LT(worker, static_cast<std::size_t>(threads));
      sums[worker] += i + loop;
    });
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), std::size_t{0}),
              count * loop + (count > 0 ? count * (count - 1) / 2 : 0));
  }
}

TEST(ParallelFor, RethrowsAFailureAndSkipsWhatIsLeft) {
  std::atomic<int> done{0};
  const auto run = [&] {
    parallel_for(10000, 3, [&](std::size_t i, std::size_t) {
      if (i == 7) throw std::runtime_error("seven");
      // So long that the others cannot finish while the thread that failed waits for a core before it says so.
      if (i > 7) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LT(done, 9999);
  done = 0;
  parallel_for(10, 3, [&](std::size_t, std::size_t) { ++done; });  // none the worse for it
  EXPECT_EQ(done, 10);
}

TEST(ParallelFor, IsAPlainLoopInsideItself) {
  std::atomic<int> inner{0};
  parallel_for(8, 4, [&](std::size_t, std::size_t) {
    parallel_for(8, 4, [&](std::size_t, std::size_t worker) {
      EXPECT_EQ(worker, 0u);
      ++inner;
    });
  });
  EXPECT_EQ(inner, 64);
}

TEST(ParallelFor, RunsOnSeveralCallersAtOnce) {
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < 4; ++c)
      callers.emplace_back([&] {
        for (int loop = 0; loop < 200; ++loop) parallel_for(9, 3, [&](std::size_t, std::size_t) { ++done; });
      });
  }
  EXPECT_EQ(done, 4 * 200 * 9);
}

double seconds_of_processor() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Threads that wait by spinning would burn the core that somebody else needs: here three times the pause.
TEST(ParallelFor, ThreadsWithoutWorkSleep) {
  parallel_for(8, 4, [](std::size_t, std::size_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = seconds_of_processor();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(seconds_of_processor() - before, 0.1);
}

// As Python's multiprocessing does: the child has the memory of the team, not its threads.
TEST(ParallelFor, WorksInAForkedProcess) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not follow threads that start after a fork";
#elif defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a helper may hold a lock of the address sanitizer's allocator when the process forks";
#endif
  parallel_for(8, 4, [](std::size_t, std::size_t) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that waits for threads it does not have would wait for ever
    std::atomic<int> done{0};
    std::thread([] { parallel_for(8, 4, [](std::size_t, std::size_t) {}); }).join();
    parallel_for(100, 4, [&](std::size_t, std::size_t) { ++done; });
    _exit(done == 100 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace mac
