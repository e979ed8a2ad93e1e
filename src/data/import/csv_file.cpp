// Tables of text: a column is an array. Fields are parted by commas, semicolons, tabs or blanks, whichever the first
// line has; a first line with words names the columns, "x [m]" with their units. Lines that begin with # are
// comments. An empty field, NA, nan and null are missing. The file is read once for its line count and its
// mistakes, and after that by blocks of lines.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <mac/error.hpp>
#include <set>

#include "data/import/byte_window.hpp"
#include "data/import/foreign_file.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace {

constexpr std::size_t rows_per_block = 2048, longest_line = 1 << 20;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\"");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\"") - first + 1);
}

bool is_missing(std::string_view field) {
  std::string lower(field);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower.empty() || lower == "na" || lower == "n/a" || lower == "nan" || lower == "null" ||
         lower == "none";
}

bool parse_number(std::string_view field, double& value) {
  if (is_missing(field)) {
    value = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  const auto [rest, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (failure == std::errc::result_out_of_range) value = field.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  return failure != std::errc::invalid_argument && rest == field.data() + field.size();
}

char separator_of(std::string_view line) {
  for (const char candidate : {';', '\t', ','})
    if (line.find(candidate) != std::string_view::npos) return candidate;
  return line.find(' ') != std::string_view::npos ? ' ' : ',';
}

void part(std::string_view line, char separator, std::vector<std::string_view>& fields) {
  fields.clear();
  if (separator == ' ') {
    for (line = trimmed(line); !line.empty(); line = trimmed(line)) {
      const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
      fields.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    return;
  }
  for (;;) {
    const auto end = line.find(separator);
    fields.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

/// "x [m]" and "x (m)" as name and unit.
ForeignArray column_of(std::string_view header) {
  for (const auto& [open, close] : {std::pair{'[', ']'}, std::pair{'(', ')'}})
    if (const auto at = header.find(open); at != std::string_view::npos && at > 0 && header.ends_with(close))
      return {std::string(trimmed(header.substr(0, at))),
              {},
              {},
              std::string(trimmed(header.substr(at + 1, header.size() - at - 2)))};
  return {std::string(header), {}};
}

/// Lines of a file, one after the other from any byte.
class Lines {
 public:
  Lines(ByteWindow& bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}
  void seek(std::size_t at) { at_ = at; }
  std::size_t at() const { return at_; }
  /// The next line without its end; false at the end of the file.
  bool next(std::string& line) {
    line.clear();
    if (at_ >= bytes_.size()) return false;
    for (;;) {
      char piece[512];
      const std::size_t count = std::min(sizeof piece, bytes_.size() - at_);
      bytes_.read(at_, count, piece);
      const auto* end = static_cast<const char*>(std::memchr(piece, '\n', count));
      line.append(piece, end ? static_cast<std::size_t>(end - piece) : count);
      at_ += end ? static_cast<std::size_t>(end - piece) + 1 : count;
      if (end || at_ >= bytes_.size()) break;
      if (line.size() > longest_line)
        throw Error("{}: has a line of over a megabyte; it is no table of numbers", path_);
    }
    return true;
  }

 private:
  ByteWindow& bytes_;
  std::string path_;
  std::size_t at_ = 0;
};

class CsvFile final : public ForeignFile {
 public:
  explicit CsvFile(const std::string& path) : ForeignFile(path), bytes_(path), lines_(bytes_, path) {
    std::string line;
    std::vector<std::string_view> fields;
    std::size_t number = 0, rows = 0;
    for (std::size_t begin = 0; lines_.next(line); begin = lines_.at()) {
      ++number;
      if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
      if (is_comment(line)) continue;
      if (columns_ == 0) {
        separator_ = separator_of(line);
        part(line, separator_, fields);
        columns_ = fields.size();
        const bool named = take_names(fields);
        if (named) continue;
      }
      if (rows % rows_per_block == 0) blocks_.push_back(begin);
      check_row(line, number, fields);
      ++rows;
    }
    if (rows == 0) throw Error("{}: has no line of numbers", path);
    for (ForeignArray& array : arrays_) array.dims = {rows};
  }

  void read(std::size_t index, const Extents& start, const Extents& count, double* out) override {
    for (std::size_t done = 0; done < count[0];) {
      const std::size_t row = start[0] + done, block = row / rows_per_block;
      if (block != held_) hold(block);
      const std::size_t first = row - block * rows_per_block,
                        here = std::min(count[0] - done, rows_per_block - first);
      for (std::size_t i = 0; i < here; ++i) out[done + i] = values_[(first + i) * columns_ + index];
      done += here;
    }
  }

 private:
  static bool is_comment(std::string_view line) {
    const std::string_view text = trimmed(line);
    return text.empty() || text.front() == '#';
  }

  /// Whether the first line names the columns; else they are column1, column2, ...
  bool take_names(const std::vector<std::string_view>& fields) {
    double ignored;
    const bool named =
        std::ranges::any_of(fields, [&](std::string_view field) { return !parse_number(field, ignored); });
    std::set<std::string> taken;  // of up to half a million
    for (std::size_t i = 0; i < fields.size(); ++i) {
      ForeignArray column = named ? column_of(fields[i]) : ForeignArray{fmt::format("column{}", i + 1), {}};
      if (column.name.empty()) column.name = fmt::format("column{}", i + 1);
      if (!taken.insert(column.name).second) throw Error("{}: has two columns called {}", path_, column.name);
      arrays_.push_back(std::move(column));
    }
    return named;
  }

  void check_row(std::string_view line, std::size_t number, std::vector<std::string_view>& fields) const {
    part(line, separator_, fields);
    if (fields.size() != columns_)
      throw Error("{}:{}: has {} fields, expected {}", path_, number, fields.size(), columns_);
    double ignored;
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (!parse_number(fields[i], ignored))
        throw Error("{}:{}: \"{}\" in column {} is no number{}", path_, number, fields[i], arrays_[i].name,
                    fields[i].find(',') != std::string_view::npos ? "; write decimals with a point" : "");
  }

  void hold(std::size_t block) {
    const std::size_t rows = std::min(rows_per_block, arrays_.front().dims[0] - block * rows_per_block);
    values_.assign(rows * columns_, std::numeric_limits<double>::quiet_NaN());
    lines_.seek(blocks_.at(block));
    std::string line;
    std::vector<std::string_view> fields;
    for (std::size_t row = 0; row < rows && lines_.next(line);) {
      if (is_comment(line)) continue;
      part(line, separator_, fields);
      for (std::size_t i = 0; i < std::min(columns_, fields.size()); ++i)
        parse_number(fields[i], values_[row * columns_ + i]);
      ++row;
    }
    held_ = block;
  }

  ByteWindow bytes_;
  Lines lines_;
  char separator_ = ',';
  std::size_t columns_ = 0, held_ = static_cast<std::size_t>(-1);
  std::vector<std::size_t> blocks_;  // the byte at which each block of rows begins
  std::vector<double> values_;       // of the block held, (rows, columns)
};

}  // namespace

std::unique_ptr<ForeignFile> open_csv(const std::string& path) {
  require_file(path);
  return std::make_unique<CsvFile>(path);
}

}  // namespace mac
