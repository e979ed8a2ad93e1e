// How few long sequences are cut, by their shape alone: never by threads or vector lanes, so that neither changes
// a bit of the result.
//
// A sequence becomes one or several stretches, computed one after the other, of a multiple of 16 segments each,
// computed side by side: 16 fill the lanes of the widest vectors, and several groups keep several threads busy. A
// last stretch without segments takes the time points that are left.
#pragma once

#include <algorithm>

#include "network/cpu/stretch.hpp"

namespace mac::cpu {

/// Batches of more sequences are not cut: they fill half of the widest vectors at least, and segments cost half as
/// much work again.
inline constexpr std::size_t largest_cut_batch = 8;

struct SegmentPlan {
  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kShortest = 54;         // three chunks: each segment has borders to compute
  static constexpr std::size_t kLong = 2 * kShortest;  // of more groups than one a sequence

  SequenceDims dims;
  std::size_t spans = 0;  // stretches in segments; 0: not cut at all
  std::size_t segments = 0, length = 0;

  /// `record`: bytes kept of a time point. Up to `most` bytes the records of all stretches are kept; else they are
  /// made again in the backward pass, for stretches of half as much.
  SegmentPlan(SequenceDims of, std::size_t record, std::size_t most) : dims(of) {
    if (record == 0 || dims.batch == 0 || dims.batch > largest_cut_batch) return;
    if (dims.time < kLanes * kShortest) return;
    const std::size_t bytes = dims.batch * dims.time * record;
    spans = bytes <= most ? 1 : std::min(2 * bytes / (most + 1) + 1, dims.time / (kLanes * kShortest));
    const std::size_t time = dims.time / spans, of_groups = std::clamp<std::size_t>(16 / dims.batch, 1, 4);
    segments = kLanes * std::clamp<std::size_t>(time / (kLanes * kLong), 1, of_groups);
    length = time / segments;
  }

  bool cuts() const { return spans > 0; }
  std::size_t left() const { return dims.time - spans * segments * length; }
  std::size_t stretches() const { return spans + (left() > 0 ? 1 : 0); }
  Stretch at(std::size_t stretch) const {
    if (stretch < spans) return {dims, segments, stretch * segments * length, length};
    return {dims, 1, dims.time - left(), left()};
  }
};

}  // namespace mac::cpu
