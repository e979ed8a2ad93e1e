// Which time points of which sequences lie in which vector lanes.
#pragma once

#include <algorithm>
#include <mac/network.hpp>

namespace mac::cpu {

// Time points of a chunk: a multiple of six (linear layers take six at once). A block of the paper's networks
// then works in 1 to 2 MB; from 12 to 24 the speed is the same.
constexpr std::size_t kChunk = 18;

/// Part of the time of a batch's sequences, cut in segments that lie in a lane each: first those of the first
/// sequence, then those of the second, and so on. A whole sequence is a segment, too.
struct Stretch {
  SequenceDims dims;         // of the caller's arrays
  std::size_t segments = 1;  // of a sequence
  std::size_t begin = 0;     // of the first segment
  std::size_t length;        // of a segment

  std::size_t all_segments() const { return dims.batch * segments; }
  std::size_t sequence_of(std::size_t segment) const { return segment / segments; }
  bool is_first(std::size_t segment) const { return segment % segments == 0; }
  bool is_last(std::size_t segment) const { return segment % segments == segments - 1; }
  std::size_t chunks() const { return (length + kChunk - 1) / kChunk; }
  std::size_t rows_of(std::size_t chunk) const { return std::min(kChunk, length - chunk * kChunk); }
  /// Where a segment's chunk begins in an array (batch, time).
  std::size_t place(std::size_t segment, std::size_t chunk) const {
    return sequence_of(segment) * dims.time + begin + segment % segments * length + chunk * kChunk;
  }
};

inline Stretch whole_sequences(SequenceDims dims) { return {dims, 1, 0, dims.time}; }

/// The segments that are computed together, in a lane each: `count` of them, from `first` on.
struct Group {
  std::size_t index, first, count;
};

/// Some time points of a group.
struct Chunk {
  const Stretch& stretch;
  Group group;
  std::size_t index;

  std::size_t rows() const { return stretch.rows_of(index); }
  /// Where a lane's time points begin in an array (batch, time).
  std::size_t place(std::size_t lane) const { return stretch.place(group.first + lane, index); }
};

}  // namespace mac::cpu
