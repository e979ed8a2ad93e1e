// The text of a JSON file from anybody: JSON of any depth is parsed without recursion, but written and compared with it.
#pragma once

#include <filesystem>
#include <string>

namespace mac {

/// The file's text; Error, naming the file, where its lists and objects nest deeper than any of ours.
std::string read_json_text(const std::filesystem::path& path);

}  // namespace mac
