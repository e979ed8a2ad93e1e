#include "network/normaliser.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <mac/model.hpp>

namespace mac {
namespace {

TEST(Normaliser, MultipliesByTheFactor) {
  const Normaliser map({0.1, -3}, {0.7, 0.3});
  const double factor = 1 / 0.7;
  EXPECT_EQ(map.to_network(0, 1.3), (1.3 - 0.1) * factor) << "a product, to the last bit";
  EXPECT_EQ(map.to_physical(1, 2.5), -3 + 0.3 * 2.5);
  EXPECT_EQ(map.factor(1), 1 / 0.3);
}

TEST(Normaliser, ComesBack) {
  const Normaliser map({1e3}, {1e-4});
  // Of a value that is 1e7 scales from zero the map keeps all but the digits that the difference loses.
  EXPECT_NEAR(map.to_physical(0, map.to_network(0, 1000.00025)), 1000.00025, 1e-12);
}

TEST(Normaliser, GoesToADeviceAsOneArray) {
  const Normaliser map({1, 2, 3}, {4, 5, 6});
  const std::vector<double> numbers = map.numbers();
  const NormaliserView view = Normaliser::view_of(numbers.data(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(view.to_network(i, 7.7), map.to_network(i, 7.7));
    EXPECT_EQ(view.to_physical(i, 7.7), map.to_physical(i, 7.7));
  }
}

TEST(Normaliser, TakesInputsAndOutputsFromAModel) {
  const Normalisers both(Normalisation{{1}, {2}, {3, 4}, {5, 6}});
  EXPECT_EQ(both.input.to_network(0, 5), 2);
  EXPECT_EQ(both.output.to_physical(1, 2), 16);
}

}  // namespace
}  // namespace mac
