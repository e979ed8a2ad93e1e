#include "coupling/fourier_frame.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mac/random.hpp>
#include <numbers>

namespace mac {
namespace {

constexpr std::size_t modes = 5;
using Row = std::vector<double>;

Row random_row(std::uint32_t stream) {
  RandomStream random(3, Purpose::test_data, stream);
  Row row(2 * modes);
  for (double& value : row) value = random.normal();
  return row;
}

Row without(Row row, const std::vector<std::size_t>& absent) {
  for (const std::size_t k : absent) row[k - 1] = row[modes + k - 1] = 0;
  return row;
}

Row turned(Row row, double angle) {
  Row factors(2 * modes);
  fourier_factors(modes, angle, factors.data());
  turn_modes(modes, factors.data(), row.data());
  return row;
}

Row in_own_frame(Row row) {
  enter_frame(modes, row.data(), row.data(), 1, row.size());
  return row;
}

double largest_difference(const Row& a, const Row& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Whatever modes a state has: alone, with common divisors, without the first.
TEST(FourierFrame, AStateLooksTheSameInItsFrameHoweverItIsTurned) {
  const std::vector<std::vector<std::size_t>> absences{
      {}, {1}, {1, 2}, {1, 3, 5}, {1, 2, 4, 5}, {1, 2, 3}, {1, 3, 4}, {2, 3, 4}, {1, 2, 3, 4}};
  for (std::uint32_t stream = 0; stream < absences.size(); ++stream) {
    const Row row = without(random_row(stream), absences[stream]), seen = in_own_frame(row);
    RandomStream random(8, Purpose::test_data, stream);
    for (int k = 0; k < 50; ++k) {
      const double angle = random.uniform(-10, 10);
      // Rounding of angles of order 10 times mode 5, in states of order 1.
      EXPECT_LT(largest_difference(in_own_frame(turned(row, angle)), seen), 1e-13)
          << stream << " by " << angle;
    }
  }
}

TEST(FourierFrame, TheFirstModeIsRealAndPositiveInIt) {
  const Row seen = in_own_frame(random_row(4));
  EXPECT_GT(seen[0], 0);
  EXPECT_NEAR(seen[modes], 0, 1e-15);
}

TEST(FourierFrame, AFirstModeThatIsRoundingIsNotAskedForItsPhase) {
  Row row = without(random_row(5), {1});
  const Row seen = in_own_frame(row);
  row[0] = 1e-9, row[modes] = -2e-9;
  EXPECT_LT(largest_difference(in_own_frame(row), seen), 1e-8);
}

TEST(FourierFrame, StatesWithoutAPhaseHaveTheirWord) {
  EXPECT_EQ(fourier_angle(modes, Row(2 * modes).data()), 0);
  Row row = random_row(6);
  row[3] = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(fourier_angle(modes, row.data())));
}

TEST(FourierFrame, TurningBackIsTheInverseAndTheTranspose) {
  const Row a = random_row(1), b = random_row(2);
  Row factors(2 * modes), back = turned(a, 0.7), of_b = b;
  fourier_factors(modes, 0.7, factors.data());
  turn_modes_back(modes, factors.data(), back.data());
  EXPECT_LT(largest_difference(back, a), 1e-15);
  turn_modes_back(modes, factors.data(), of_b.data());
  double left = 0, right = 0;
  for (std::size_t i = 0; i < a.size(); ++i) left += turned(a, 0.7)[i] * b[i], right += a[i] * of_b[i];
  EXPECT_NEAR(left, right, 1e-14);
}

TEST(FourierFrame, AColumnKeepsTheFrameOfItsFirstStepUntilItIsForgotten) {
  ColumnFrames frames(modes, 2);
  const Row first = random_row(1), second = random_row(2);
  frames.choose(1, first.data());
  EXPECT_TRUE(std::isnan(frames.angle(1))) << "no step is taken yet";
  frames.choose(1, second.data());
  frames.keep(1);
  EXPECT_EQ(frames.angle(1), fourier_angle(modes, second.data()));
  frames.choose(1, first.data());
  EXPECT_EQ(frames.angle(1), fourier_angle(modes, second.data()));
  frames.forget(1);
  frames.choose(1, first.data());
  frames.keep(1);
  EXPECT_EQ(frames.angle(1), fourier_angle(modes, first.data()));
  EXPECT_TRUE(std::isnan(frames.angle(0)));
}

}  // namespace
}  // namespace mac
