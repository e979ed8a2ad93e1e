// The bytes of saved columns, those of the CPU runtime and of the CUDA runtime: a head, and a record for each column
// (docs/c-api.md has the table).
//
// A record: steps (64 bits), recurrent state (state_size numbers in the precision), the last two closures (2 x outputs
// doubles, the later one first); of a stochastic closure then the noise it read last (channels doubles), seed and stream
// (64 bits each); of one with frames the column's angle (a double, NaN while it has none).
#pragma once

#include <cmath>
#include <cstring>
#include <span>

#include "runtime/runtime_model.hpp"

namespace mac {

inline constexpr std::size_t saved_head_size = 64;

std::size_t saved_record_size(const RuntimeModel& model);

/// Writes the head before `columns` records that lie behind it already.
void write_saved_head(const RuntimeModel& model, std::size_t columns, std::span<std::byte> out);

struct SavedRecords {
  std::size_t columns;
  std::span<const std::byte> bytes;
};
/// Throws Error unless the bytes are whole, and of this model and precision.
SavedRecords read_saved(const RuntimeModel& model, std::span<const std::byte> saved);

/// How many columns the head speaks of; Error where there is none.
std::size_t count_saved(std::span<const std::byte> saved);

/// Throws Error unless these bytes are of a saved state, of whatever model, and whole.
void check_saved(std::span<const std::byte> saved);

template <class T>
bool all_finite(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;  // a caller's buffer need not be aligned
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace mac
