#include <gtest/gtest.h>

#include <cmath>
#include <mac/random.hpp>
#include <vector>

namespace mac {
namespace {

TEST(RandomStream, IsTheSameWhereverAndWheneverItIsMade) {
  RandomStream first(7, Purpose::test_data, 3);
  RandomStream other(7, Purpose::test_data, 4);
  other.normal();
  RandomStream again(7, Purpose::test_data, 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first.uniform(), again.uniform());
}

TEST(RandomStream, DiffersBySeedPurposeAndIndex) {
  const auto first = [](std::uint64_t seed, Purpose purpose, std::uint32_t index) {
    return RandomStream(seed, purpose, index).bits();
  };
  const auto base = first(1, Purpose::weights, 0);
  EXPECT_NE(base, first(2, Purpose::weights, 0));
  EXPECT_NE(base, first(1ULL << 32, Purpose::weights, 0));
  EXPECT_NE(base, first(1, Purpose::noise, 0));
  EXPECT_NE(base, first(1, Purpose::weights, 1));
}

TEST(RandomStream, GivesManyNormalsAsOneByOne) {
  for (const std::size_t words_before : {0, 1, 2, 4})
    for (const std::size_t normals_before : {0, 1, 2})
      for (const std::size_t count : {0, 1, 2, 7, 100}) {
        RandomStream one(7, Purpose::noise, 3), many(7, Purpose::noise, 3);
        for (RandomStream* stream : {&one, &many}) {
          for (std::size_t i = 0; i < words_before; ++i) stream->bits();
          for (std::size_t i = 0; i < normals_before; ++i) stream->normal();
        }
        std::vector<double> expected(count), found(count);
        for (double& value : expected) value = one.normal();
        many.normals(found);
        EXPECT_EQ(found, expected);
        EXPECT_EQ(many.normal(), one.normal()) << "and what comes after them";
        EXPECT_EQ(many.bits(), one.bits());
      }
}

TEST(RandomStream, HasTheMomentsOfItsDistributions) {
  RandomStream random(1, Purpose::noise, 0);
  const int n = 200000;
  double sum = 0, square = 0, mean = 0, counts[5] = {};
  for (int i = 0; i < n; ++i) {
    const double z = random.normal();
    sum += z, square += z * z;
    mean += random.uniform(-1, 3);
    counts[random.below(5)] += 1;
  }
  // Four standard errors of each estimate.
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(square / n, 1, 4 * std::sqrt(2.0 / n));
  EXPECT_NEAR(mean / n, 1, 4 * std::sqrt(16.0 / 12 / n));
  for (const double count : counts) EXPECT_NEAR(count / n, 0.2, 4 * std::sqrt(0.16 / n));
}

}  // namespace
}  // namespace mac
