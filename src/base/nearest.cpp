#include "base/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace mac {

namespace {

/// Levenshtein distance: insertions, deletions and replacements that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view written, const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, written.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(written, candidate);
    if (distance < best_distance && distance < candidate.size()) best = &candidate, best_distance = distance;
  }
  return best ? fmt::format("; did you mean \"{}\"?", *best) : std::string();
}

}  // namespace mac
