#include <gtest/gtest.h>

#include <cmath>
#include <mac/noise.hpp>
#include <mac/random.hpp>
#include <numeric>

namespace mac {
namespace {

TEST(Noise, OfAStepIsTheSameWhereverOneStarts) {
  const NoiseStream stream{.seed = 7, .stream = 3, .member = 2};
  for (const std::size_t channels : {1u, 2u, 3u, 8u}) {
    // One draw after the other from the same stream: an odd number of channels leaves the last word of a step unused.
    std::vector<double> all((channels + 1) / 2 * 2 * 5), some(channels);
    RandomStream(7, Purpose::stochastic_closure, 3, 2).normals(all);
    for (const std::size_t n : {4u, 0u, 2u}) {
      draw_noise(stream, n, some);
      for (std::size_t i = 0; i < channels; ++i) EXPECT_EQ(some[i], all[n * ((channels + 1) / 2 * 2) + i]);
    }
  }
}

TEST(Noise, OfMembersStreamsAndSeedsIsIndependent) {
  const std::vector<NoiseStream> streams{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
  std::vector<std::vector<double>> series;
  for (const NoiseStream& stream : streams) {
    series.emplace_back();
    for (std::size_t n = 0; n < 4000; ++n) {
      double z = 0;
      draw_noise(stream, n, {&z, 1});
      series.back().push_back(z);
    }
  }
  // A mean of 4000 products of independent normal numbers has the standard deviation 1/63.
  for (std::size_t a = 0; a < series.size(); ++a)
    for (std::size_t b = 0; b <= a; ++b)
      EXPECT_NEAR(std::inner_product(series[a].begin(), series[a].end(), series[b].begin(), 0.0) / 4000,
                  a == b ? 1 : 0, 0.08);
}

TEST(Noise, IsCorrelatedOverItsTime) {
  const double step = 0.1;
  const NoiseInputs inputs{.channels = 2, .time = 0.5};
  RedNoise noise(inputs, step, 1);
  double square = 0, product = 0, last = 0;
  const std::size_t steps = 40000;
  for (std::size_t n = 0; n < steps; ++n) {
    noise.advance(0, {.seed = 1}, n);
    square += noise.of(0)[1] * noise.of(0)[1];
    product += noise.of(0)[1] * last;
    last = noise.of(0)[1];
  }
  // About steps / 10 independent values: five standard errors are some .1.
  EXPECT_NEAR(square / static_cast<double>(steps), 1, 0.1);
  EXPECT_NEAR(product / square, std::exp(-step / inputs.time), 0.02);
}

TEST(Noise, GoesOnFromWhereItWasSaved) {
  const NoiseInputs inputs{.channels = 3, .time = 0.2};
  RedNoise whole(inputs, 0.05, 2), part(inputs, 0.05, 1);
  for (std::size_t n = 0; n < 30; ++n) {
    whole.advance(0, {.seed = 1}, n);
    whole.advance(1, {.seed = 1, .stream = 9}, n);
    if (n == 12) std::copy_n(whole.of(1), 3, part.of(0));
    if (n > 12) part.advance(0, {.seed = 1, .stream = 9}, n);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(part.of(0)[i], whole.of(1)[i]);
}

}  // namespace
}  // namespace mac
