#include "training/validation.hpp"

#include <gtest/gtest.h>

namespace mac::test {
namespace {

TEST(ValidationPieces, CoverAShortTrajectoryEvenly) {
  const auto pieces = spread_pieces(1, 1001, 50);
  ASSERT_EQ(pieces.size(), 50u);
  for (std::size_t k = 0; k < 50; ++k) EXPECT_EQ(pieces[k].first, k * 1001 / 50);
}

TEST(ValidationPieces, AreOnePerTrajectoryWhereThereAreEnough) {
  const auto pieces = spread_pieces(64, 1, 50);
  ASSERT_EQ(pieces.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(pieces[i].trajectory, i);
    EXPECT_EQ(pieces[i].first, 0u);
  }
}

TEST(ValidationPieces, AreSharedByTrajectoriesAndNeverRepeatAStart) {
  const auto pieces = spread_pieces(3, 2, 50);
  ASSERT_EQ(pieces.size(), 6u);  // three trajectories with two places to start
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(pieces[i].trajectory, i / 2);
    EXPECT_EQ(pieces[i].first, i % 2);
  }
}

TEST(ValidationPieces, AreAsManyAsAskedForWhereTheyDontDivideEvenly) {
  const auto pieces = spread_pieces(3, 100, 5);
  ASSERT_EQ(pieces.size(), 5u);
  EXPECT_EQ(pieces.front().trajectory, 0u);
  EXPECT_EQ(pieces.back().trajectory, 2u);
}

}  // namespace
}  // namespace mac::test
