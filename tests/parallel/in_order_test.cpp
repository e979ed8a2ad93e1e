#include "parallel/in_order.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace mac {
namespace {

TEST(ParallelInOrder, FinishesInOrderWhateverFinishesFirst) {
  std::vector<std::size_t> order;
  parallel_in_order(
      50, 4,
      [](std::size_t, std::size_t i) {
        std::this_thread::sleep_for(std::chrono::microseconds(i % 3 == 0 ? 500 : 10));
        return 2 * i;
      },
      [&](std::size_t i, std::size_t result) {
        EXPECT_EQ(result, 2 * i);
        order.push_back(i);
      });
  ASSERT_EQ(order.size(), 50u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ParallelInOrder, RethrowsTheFirstFailureAndFinishesNothingAfterIt) {
  std::atomic<int> finished{0};
  const auto run = [&] {
    parallel_in_order(
        100, 3,
        [](std::size_t, std::size_t i) {
          if (i == 7) throw std::runtime_error("seven");
          return i;
        },
        [&](std::size_t, std::size_t) { ++finished; });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LE(finished, 7);
}

TEST(ParallelInOrder, RethrowsAFailureToFinish) {
  const auto run = [] {
    parallel_in_order(
        5, 2, [](std::size_t, std::size_t i) { return i; },
        [](std::size_t i, std::size_t) {
          if (i == 2) throw std::runtime_error("disk full");
        });
  };
  EXPECT_THROW(run(), std::runtime_error);
}

TEST(ParallelInOrder, DoesNothingForNothing) {
  parallel_in_order(
      0, 8, [](std::size_t, std::size_t i) { return i; }, [](std::size_t, std::size_t) { FAIL(); });
}

}  // namespace
}  // namespace mac
