// When the CUDA engine cuts sequences in time. That the segments give what whole sequences give is tested
// with the engines (FewVeryLongSequences).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "network/cuda/mamba_segments.hpp"

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

RC_GTEST_PROP(Segments, CoverASequenceAndNoneIsEmpty, ()) {
  const int batch = *rc::gen::inRange(1, 600), layers = *rc::gen::inRange(1, 8),
            quads = *rc::gen::inRange(1, 30000), slots = *rc::gen::inRange(1, 1000);
  const Segments segments = cut_sequences(batch, layers, quads, slots);
  RC_ASSERT(segments.count >= 1);
  RC_ASSERT(segments.all_quads() >= quads);
  RC_ASSERT(segments.all_quads() - quads < segments.quads);
}

}  // namespace
}  // namespace mac::cuda
