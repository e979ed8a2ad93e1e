// Content of files and texts as a short name: 128 bits of XXH3 in hexadecimal.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

std::string hash_text(std::string_view text);
/// Throws Error if the file cannot be read.
std::string hash_file(const std::filesystem::path& path);
/// One hash of several parts; their boundaries count.
std::string hash_parts(const std::vector<std::string>& parts);

}  // namespace mac
