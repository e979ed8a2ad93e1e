#include "io/json_text.hpp"

#include <mac/error.hpp>

#include "io/input_file.hpp"

namespace mac {

std::string read_json_text(const std::filesystem::path& path) {
  constexpr int deepest = 100;
  std::string text = read_file(path);
  int depth = 0;
  bool quoted = false, escaped = false;
  for (const char c : text) {
    if (quoted) {
      quoted = c != '"' || escaped;
      escaped = c == '\\' && !escaped;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > deepest) throw Error("{}: its JSON nests more than {} deep", path.string(), deepest);
  }
  return text;
}

}  // namespace mac
