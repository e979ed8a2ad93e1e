// Work shared among ranks: each index once, results in order on rank 0, a failure known to everybody.
#include "parallel/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>

#include "parallel/ranks_in_order.hpp"
#include "support/thread_ranks.hpp"

namespace mac {
namespace {

using test::message_of;
using test::on_ranks;

struct Numbers {
  std::vector<double> some, more;
};
std::array<std::vector<double>*, 2> arrays(Numbers& numbers) { return {&numbers.some, &numbers.more}; }

class OverRanks : public testing::TestWithParam<std::size_t> {};

TEST_P(OverRanks, EveryIndexIsComputedOnceAndFinishedInOrderOnRankZero) {
  constexpr std::size_t count = 53;
  std::vector<std::atomic<int>> computed(count);
  std::vector<double> order, sums;
  const auto failures = on_ranks(GetParam(), [&] {
    for (int repeat = 0; repeat < 2; ++repeat)  // one call after the other mixes up nothing
      ranks_in_order(
          count, 2,
          [&](std::size_t, std::size_t i) {
            if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // others overtake
            EXPECT_EQ(ranks().size(), 1u);  // who computes is alone
            ++computed[i];
            return Numbers{{static_cast<double>(i), 1}, std::vector<double>(i, 1.0)};
          },
          [&](std::size_t i, const Numbers& numbers) {
            EXPECT_EQ(ranks().rank(), 0u);
            order.push_back(static_cast<double>(i));
            sums.push_back(numbers.some[0] + std::accumulate(numbers.more.begin(), numbers.more.end(), 0.0));
          });
  });
  for (const auto& failure : failures) EXPECT_EQ(message_of(failure), "");
  for (const auto& times : computed) EXPECT_EQ(times, 2);
  ASSERT_EQ(order.size(), 2 * count);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], static_cast<double>(i % count));
    EXPECT_EQ(sums[i], 2 * order[i]);
  }
}

TEST_P(OverRanks, AFailureNamesItsRankAndEndsAll) {
  std::atomic<std::size_t> finished{0};
  const auto failures = on_ranks(GetParam(), [&] {
    bytes_in_order(
        1000, 1, Supply::prefetch,
        [&](std::size_t, std::size_t i) -> Bytes {
          if (i == 20) throw Error("trajectory {} blew up", i);
          return {};
        },
        [&](std::size_t, const Bytes&) { ++finished; });
  });
  EXPECT_NE(message_of(failures[0]).find("trajectory 20 blew up"), std::string::npos)
      << message_of(failures[0]);
  for (std::size_t r = 1; r < failures.size(); ++r) EXPECT_EQ(message_of(failures[r]), "another rank failed");
  EXPECT_LE(finished, 20u);
}

TEST_P(OverRanks, WhatRankZeroCannotWriteEndsAll) {
  const auto failures = on_ranks(GetParam(), [&] {
    bytes_in_order(
        100, 1, Supply::one_by_one, [](std::size_t, std::size_t) { return Bytes(10); },
        [&](std::size_t i, const Bytes&) {
          if (i == 3) throw Error("the disk is full");
        });
  });
  EXPECT_EQ(message_of(failures[0]), "the disk is full");
  for (std::size_t r = 1; r < failures.size(); ++r) EXPECT_EQ(message_of(failures[r]), "another rank failed");
}

TEST_P(OverRanks, RankZeroDoesAloneWhatOnlyOneMayDo) {
  std::atomic<int> calls{0};
  const auto failures = on_ranks(GetParam(), [&] {
    on_root([&] {
      ++calls;
      EXPECT_EQ(ranks().size(), 1u);
    });
    on_root([] { throw UsageError("no"); });
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(message_of(failures[0]), "no");
  for (std::size_t r = 1; r < failures.size(); ++r) EXPECT_EQ(message_of(failures[r]), "another rank failed");
}

INSTANTIATE_TEST_SUITE_P(Counts, OverRanks, testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace mac
