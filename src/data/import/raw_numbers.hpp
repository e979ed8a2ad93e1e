// Numbers as they lie in a file, of any width and byte order, read as double.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "data/import/byte_window.hpp"
#include "data/import/foreign_file.hpp"

namespace mac {

struct RawType {
  char kind = 'f';  // f: floating, i: signed, u: unsigned
  std::size_t bytes = 8;
  bool big_endian = false;
};

inline double raw_number(const RawType& type, const unsigned char* from) {
  unsigned char bytes[8];
  std::copy_n(from, type.bytes, bytes);
  if (type.big_endian) std::reverse(bytes, bytes + type.bytes);
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    return static_cast<double>(value);
  };
  if (type.kind == 'f') return type.bytes == 4 ? as(float{}) : as(double{});
  const bool is_signed = type.kind == 'i';
  switch (type.bytes) {
    case 1:
      return is_signed ? as(std::int8_t{}) : as(std::uint8_t{});
    case 2:
      return is_signed ? as(std::int16_t{}) : as(std::uint16_t{});
    case 4:
      return is_signed ? as(std::int32_t{}) : as(std::uint32_t{});
    default:
      return is_signed ? as(std::int64_t{}) : as(std::uint64_t{});
  }
}

/// A block of an array whose element (i, j, ...) lies at offset + i strides[0] + j strides[1] + ... bytes.
inline void read_strided(ByteWindow& file, const RawType& type, std::size_t offset, const Extents& strides,
                         const Extents& start, const Extents& count, double* out) {
  std::size_t total = 1;
  for (const std::size_t n : count) total *= n;
  Extents index(count.size(), 0);
  // A row of the last axis that lies together is read at once.
  const bool together = !count.empty() && strides.back() == type.bytes;
  const std::size_t row = together ? count.back() : 1;
  std::vector<unsigned char> bytes(row * type.bytes);
  for (std::size_t done = 0; done < total; done += row) {
    std::size_t at = offset;
    for (std::size_t axis = 0; axis < count.size(); ++axis) at += (start[axis] + index[axis]) * strides[axis];
    file.read(at, bytes.size(), bytes.data());
    for (std::size_t i = 0; i < row; ++i) out[done + i] = raw_number(type, bytes.data() + i * type.bytes);
    for (std::size_t axis = count.size() - (together ? 1 : 0); axis-- > 0;) {
      if (++index[axis] < count[axis]) break;
      index[axis] = 0;
    }
  }
}

}  // namespace mac
