#include "io/safetensors_checksum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mac/error.hpp>

#include "io/xxh64.hpp"

namespace mac {

namespace {

constexpr std::string_view words = "xxh64 of this file ";
constexpr std::size_t digits = 16;

std::uint64_t chained(std::string_view bytes, std::uint64_t seed) {
  return content_hash(std::as_bytes(std::span(bytes)), seed);
}

/// Of the parts in their order; the header with zeros for the digits.
std::string digits_of(std::string_view prefix, std::string_view header, std::string_view data) {
  return fmt::format("{:016x}", chained(data, chained(header, chained(prefix, 0))));
}

}  // namespace

std::string blank_file_checksum() { return std::string(words) + std::string(digits, '0'); }

void seal_safetensors(std::string& file, std::size_t header_size) {
  const std::size_t prefix_size = sizeof(std::uint64_t);
  const std::string_view all(file);
  const std::string_view header = all.substr(prefix_size, header_size);
  const std::string text =
      digits_of(all.substr(0, prefix_size), header, all.substr(prefix_size + header_size));
  const std::size_t at = header.find(fmt::format("\"{}\":\"{}", file_checksum_key, blank_file_checksum()));
  file.replace(file.find(words, prefix_size + at) + words.size(), digits, text);
}

bool check_safetensors(std::map<std::string, std::string>& metadata, std::string_view prefix,
                       std::string header, std::string_view data, const std::string& file) {
  const auto found = metadata.find(file_checksum_key);
  const bool other_name = std::ranges::any_of(metadata, [&](const auto& entry) {
    return entry.first != file_checksum_key && entry.second.size() == words.size() + digits &&
           entry.second.starts_with(words);
  });
  if (found == metadata.end() && !other_name) return false;
  const std::string text = found == metadata.end() ? std::string() : found->second;
  const std::size_t at = text.starts_with(words) ? header.find('"' + text + '"') : std::string::npos;
  bool fits = false;
  if (at != std::string::npos && text.size() == words.size() + digits) {
    header.replace(at + 1 + words.size(), digits, digits, '0');
    fits = text.ends_with(digits_of(prefix, header, data));
  }
  if (!fits)
    throw Error(
        "{}: is damaged, its checksum does not fit its contents; if another program changed it, take \"{}\" "
        "out of its metadata",
        file, file_checksum_key);
  metadata.erase(found);
  return true;
}

}  // namespace mac
