// The checksum of a whole safetensors file, kept in its own metadata:
//
//   "file_checksum": "xxh64 of this file 0123456789abcdef"
//
// It is computed with zeros for its sixteen digits. Name and text both mark it: one flipped bit cannot make a
// file look as if it had none.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mac {

inline constexpr const char* file_checksum_key = "file_checksum";

/// The entry's text before the file is complete.
std::string blank_file_checksum();

/// Puts the digits into the complete file, whose header is the JSON text with the blank entry.
void seal_safetensors(std::string& file, std::size_t header_size);

/// Takes the entry out of the metadata and says whether there was one. Throws Error, naming the file, unless
/// the parts of the file (its first bytes, header and data) are those it was computed from.
bool check_safetensors(std::map<std::string, std::string>& metadata, std::string_view prefix,
                       std::string header, std::string_view data, const std::string& file);

}  // namespace mac
