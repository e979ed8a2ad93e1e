// Ensembles whose scores are known: members and truth drawn from normal distributions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mac/random.hpp>
#include <mac/verification.hpp>
#include <numbers>
#include <numeric>

namespace mac {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t trajectories = 400, times = 12, d = 2, members = 9;

/// At every time N(mean, sigma) with a mean of its own, itself N(0, 1): `scale` times sigma for the members.
RolloutSplit normal_forecasts(double sigma, double scale) {
  RandomStream random(2, Purpose::noise, 0);
  RolloutSplit split;
  split.name = "test";
  split.labels.resize(trajectories);
  for (std::size_t t = 0; t < times; ++t) split.time.push_back(0.5 * static_cast<double>(t));
  split.blow_up_time.assign(trajectories, nan);
  split.resolved.resize(trajectories * times * d);
  split.true_resolved.resize(split.resolved.size());
  split.members.count = members;
  split.members.resolved.resize(members * split.resolved.size());
  split.members.blow_up_time.assign(trajectories * members, nan);
  for (std::size_t i = 0; i < trajectories; ++i)
    for (std::size_t k = 0; k < times * d; ++k) {
      const double mean = random.normal();
      split.true_resolved[i * times * d + k] = mean + sigma * random.normal();
      for (std::size_t m = 0; m < members; ++m)
        split.members.resolved[(i * members + m) * times * d + k] = mean + scale * sigma * random.normal();
    }
  return split;
}

Verification verified(const RolloutSplit& split) {
  VerificationCollector collector;
  collector.add(split);
  return collector.finish().value();
}

TEST(Verification, OfAPerfectEnsembleFindsNothingWrong) {
  const double sigma = 0.5, climate = std::sqrt(1 + sigma * sigma);
  const Verification of = verified(normal_forecasts(sigma, 1));
  EXPECT_EQ(of.members, members);
  EXPECT_EQ(of.trajectories, trajectories);
  EXPECT_EQ(of.time.front(), 0.5);
  EXPECT_EQ(of.time.size(), times - 1);
  const double n = static_cast<double>(trajectories * d);
  for (std::size_t k = 0; k < of.time.size(); ++k) {
    // Means over 800 forecasts; a CRPS has about its mean as standard deviation: five standard errors.
    const double crps = sigma / std::sqrt(std::numbers::pi) / climate;
    EXPECT_NEAR(of.crps[k], crps, 5 * crps / std::sqrt(n));
    EXPECT_NEAR(of.climatology[k], 1 / std::sqrt(std::numbers::pi), 5 * 0.56 / std::sqrt(n));
    EXPECT_NEAR(of.persistence[k], 2 / std::sqrt(std::numbers::pi), 5 * 0.85 / std::sqrt(n));
    EXPECT_NEAR(of.spread[k] / of.error[k], 1, 0.15);
  }
  EXPECT_NEAR(of.spread_error_ratio(100), 1, 0.04);
  EXPECT_NEAR(std::accumulate(of.ranks.begin(), of.ranks.end(), 0.0), 1, 1e-12);
  // 8800 ranks of 10 kinds: a share of .1 has the standard deviation .0032.
  for (const double share : of.ranks) EXPECT_NEAR(share, 0.1, 0.016);
  for (std::size_t k = 0; k < reliability_bins; ++k) {
    if (of.forecasts[k] < 0.01) continue;
    // A member is above with the probability that was forecast, give or take nine members.
    EXPECT_NEAR(of.observed[k], static_cast<double>(k) / 10, 0.2) << k;
  }
  EXPECT_NEAR(of.correlation, 0, 0.1);  // all forecasts are equally uncertain
}

TEST(Verification, OfATooNarrowEnsembleSaysSo) {
  const Verification of = verified(normal_forecasts(0.5, 0.25));
  EXPECT_NEAR(of.spread_error_ratio(100), 0.25, 0.03);
  EXPECT_GT(of.ranks.front() + of.ranks.back(), 0.5);
  EXPECT_GT(of.crps[3], verified(normal_forecasts(0.5, 1)).crps[3]);
}

/// Member m of trajectory i is lost from time t on.
void lose(RolloutSplit& split, std::size_t i, std::size_t m, std::size_t t) {
  split.members.blow_up_time[i * members + m] = split.time[t];
  const auto run =
      split.members.resolved.begin() + static_cast<std::ptrdiff_t>((i * members + m) * times * d);
  std::fill(run + static_cast<std::ptrdiff_t>(t * d), run + static_cast<std::ptrdiff_t>(times * d), nan);
}

TEST(Verification, CountsLostMembersAndTheirTrajectories) {
  RolloutSplit split = normal_forecasts(0.5, 1);
  for (std::size_t i = 0; i < trajectories; i += 4) lose(split, i, 2, 6);
  const Verification of = verified(split);
  EXPECT_EQ(of.trajectories, trajectories);
  EXPECT_EQ(of.lost_members, trajectories / 4);
  EXPECT_EQ(of.lost[4], 0);                        // the lead times are those of the indices 1, 2, ...
  EXPECT_NEAR(of.lost[5], 0.25 / members, 1e-12);  // a sum of 800 numbers
  EXPECT_NEAR(of.lost.back(), 0.25 / members, 1e-12);
  EXPECT_NEAR(std::accumulate(of.ranks.begin(), of.ranks.end(), 0.0), 1, 1e-12);
}

TEST(Verification, OfAnEnsembleThatIsLostIsTheFarthestValueOfTheTruth) {
  RolloutSplit split = normal_forecasts(0.5, 1);
  for (std::size_t m = 0; m < members; ++m)
    for (std::size_t i = 0; i < trajectories; ++i) lose(split, i, m, 1);
  const Verification of = verified(split);
  // The truth lies within some three standard deviations, so that one of its ends is between three and six off. The
  // members' last values are nearer.
  EXPECT_GT(of.crps.back(), 3);
  EXPECT_LT(of.crps.back(), 6);
  EXPECT_GT(of.error.back(), of.crps.back()) << "a root mean square is above the mean";
  EXPECT_EQ(of.spread.back(), 0);
  EXPECT_EQ(of.lost.back(), 1);
}

TEST(Verification, DoesNotRewardBlowingUp) {
  // Of ensembles that are right, too narrow, too wide or far off; some of their members stand still from a time on, or
  // are lost there: what is known of them is the same.
  RandomStream random(5, Purpose::noise, 0);
  for (const double scale : {1.0, 0.1, 5.0, 1000.0})
    for (int trial = 0; trial < 5; ++trial) {
      RolloutSplit still = normal_forecasts(0.5, scale), lost = still;
      for (std::size_t run = 0; run < trajectories * members; ++run) {
        if (random.uniform() < 0.7) continue;
        const std::size_t t = 1 + static_cast<std::size_t>(random.uniform() * (times - 1));
        double* const values = still.members.resolved.data() + run * times * d;
        for (std::size_t k = t * d; k < times * d; ++k) values[k] = values[(t - 1) * d + k % d];
        lose(lost, run / members, run % members, t);
      }
      const Verification a = verified(still), b = verified(lost);
      for (std::size_t k = 0; k < a.time.size(); ++k) {
        EXPECT_GE(b.crps[k], a.crps[k] * (1 - 1e-12)) << scale << ", lead time " << k;
        EXPECT_GE(b.error[k], a.error[k] * (1 - 1e-12)) << scale << ", lead time " << k;
      }
    }
}

TEST(Verification, FindsThatSpreadPredictsError) {
  // Half of the trajectories are ten times as uncertain.
  RolloutSplit split = normal_forecasts(0.2, 1);
  RandomStream random(8, Purpose::noise, 0);
  for (std::size_t i = 0; i < trajectories; i += 2)
    for (std::size_t k = 0; k < times * d; ++k) {
      const double mean = random.normal();
      split.true_resolved[i * times * d + k] = mean + 2 * random.normal();
      for (std::size_t m = 0; m < members; ++m)
        split.members.resolved[(i * members + m) * times * d + k] = mean + 2 * random.normal();
    }
  EXPECT_GT(verified(split).correlation, 0.5);
}

}  // namespace
}  // namespace mac
