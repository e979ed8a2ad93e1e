// Writing Protocol Buffers: a message is a run of (field number, wire type) tags and values, in any order.
//
//   wire type 0   varint: 7 bits a byte, lowest first, the top bit says that more follow
//   wire type 2   a length as varint, then that many bytes: text, raw data, or a message
//   wire type 5   four bytes, little-endian
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace mac::protobuf {

class Message {
 public:
  Message& integer(std::uint32_t field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));  // a negative number is its two's complement, ten bytes
    return *this;
  }
  Message& real(std::uint32_t field, float value) {
    tag(field, 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>((bits >> shift) & 0xff));
    return *this;
  }
  Message& text(std::uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, std::uint32_t wire_type) { varint(field << 3 | wire_type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace mac::protobuf
