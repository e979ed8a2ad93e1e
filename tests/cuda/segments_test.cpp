// When the CUDA engine cuts sequences in time. That the segments give what whole sequences give is tested
// with the engines (FewVeryLongSequences).
#include "network/kinds/mamba/cuda/segments.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <utility>

namespace mac::cuda {
namespace {

constexpr int h200 = 3 * 132;  // blocks of the Burgers network that an H200 holds

TEST(Segments, AreOneWhereTheBatchFillsTheDevice) {
  EXPECT_EQ(cut_sequences(96, 4, 2501, h200).count, 1);
  EXPECT_EQ(cut_sequences(512, 3, 14, 132).count, 1);
}

TEST(Segments, AreOneForShortSequences) { EXPECT_EQ(cut_sequences(1, 4, 251, h200).count, 1); }

TEST(Segments, FillTheDeviceForFewLongSequences) {
  const Segments segments = cut_sequences(8, 4, 2501, h200);
  EXPECT_LE(8 * segments.count, h200);
  EXPECT_GT(8 * segments.count, h200 * 9 / 10);
}

/// The lengths of the tests that are meant to be in segments, on an H200 that holds three blocks on a
/// multiprocessor, or one.
TEST(Segments, AreWhatTheTestsOfTheEnginesExpect) {
  for (const auto& [batch, slots] : {std::pair{2, h200}, std::pair{2, 132}, std::pair{1, 132}}) {
    const Segments of_1249 = cut_sequences(batch, 2, 313, slots),
                   of_1306 = cut_sequences(batch, 2, 327, slots);
    EXPECT_EQ(of_1249.count, 25);
    EXPECT_EQ(of_1249.quads, 13);  // 24 · 13 + 1
    EXPECT_EQ(of_1306.count, 26);
    EXPECT_EQ(of_1306.quads, 13);
  }
}

RC_GTEST_PROP(Segments, CoverASequenceAndNoneIsEmpty, ()) {
  const int batch = *rc::gen::inRange(1, 40), layers = *rc::gen::inRange(1, 8),
            quads = *rc::gen::inRange(1, 30000), slots = *rc::gen::inRange(1, 1000);
  const Segments segments = cut_sequences(batch, layers, quads, slots);
  RC_ASSERT(segments.count >= 1);
  RC_ASSERT(segments.all_quads() >= quads);
  RC_ASSERT(segments.all_quads() - quads < segments.quads);
  RC_ASSERT(segments.count == 1 || batch * segments.count <= slots);
}

}  // namespace
}  // namespace mac::cuda
