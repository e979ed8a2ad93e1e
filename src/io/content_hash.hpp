// Content of files and texts as a short name: 128 bits of XXH3 in hexadecimal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

std::string hash_text(std::string_view text);
/// Of its first bytes, or of all. Throws Error if the file cannot be read, or not so far.
std::string hash_file(const std::filesystem::path& path, std::optional<std::uintmax_t> first = std::nullopt);
/// One hash of several parts; their boundaries count.
std::string hash_parts(const std::vector<std::string>& parts);

}  // namespace mac
