#include "io/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace mac {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, Dtype>, 3> dtypes{
    {{"F32", Dtype::f32}, {"F64", Dtype::f64}, {"I64", Dtype::i64}}};
constexpr std::size_t largest_rank = 8;

/// Parses with two extra rules: no key twice in one object, and nothing nested deeper than the format needs,
/// so that a hostile header cannot cost more memory than its own length many times over.
Json parse_strictly(std::string_view text, const std::string& file) {
  constexpr int deepest = 3;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest) throw Error("{}: header is nested too deeply", file);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw Error("{}: header has '{}' twice", file, value.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::parse_error& error) {
    throw Error("{}: header is not valid JSON at byte {}", file, error.byte);
  } catch (const Json::exception&) {  // a number that no type holds
    throw Error("{}: header is not valid JSON", file);
  }
}

class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& name, const Json& entry)
      : file_(file), name_(name), entry_(entry) {}

  TensorInfo read(std::size_t data_size) const {
    if (name_.empty()) throw Error("{}: a tensor has an empty name", file_);
    if (!entry_.is_object()) fail("is not described by a JSON object");
    for (const auto& [key, value] : entry_.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(fmt::format("has an unknown key '{}'", key));

    TensorInfo info;
    info.name = name_;
    info.dtype = dtype();
    info.shape = shape();
    info.count = count(info.shape);
    const auto [begin, end] = offsets();
    if (begin > end) fail(fmt::format("begins at byte {} after its end {}", begin, end));
    if (end > data_size) fail(fmt::format("ends at byte {} of {} in the file", end, data_size));
    const std::size_t bytes = product(info.count, size_of(info.dtype));
    if (end - begin != bytes)
      fail(fmt::format("has {} bytes of data, its shape needs {}", end - begin, bytes));
    info.begin = begin;
    return info;
  }

 private:
  Dtype dtype() const {
    const Json& text = value("dtype");
    if (!text.is_string()) fail("has a dtype that is not a string");
    const auto name = text.get<std::string>();
    for (const auto& [known, dtype] : dtypes)
      if (known == name) return dtype;
    fail(fmt::format("has dtype '{}': expected F32, F64 or I64", name));
  }

  std::vector<std::size_t> shape() const {
    const Json& array = value("shape");
    if (!array.is_array()) fail("has a shape that is not an array");
    if (array.size() > largest_rank)
      fail(fmt::format("has {} dimensions: expected at most {}", array.size(), largest_rank));
    std::vector<std::size_t> sizes;
    for (const Json& size : array) sizes.push_back(integer(size, "shape"));
    return sizes;
  }

  std::pair<std::size_t, std::size_t> offsets() const {
    const Json& array = value("data_offsets");
    if (!array.is_array() || array.size() != 2) fail("has data_offsets that are not a pair");
    return {integer(array[0], "data_offsets"), integer(array[1], "data_offsets")};
  }

  std::size_t count(const std::vector<std::size_t>& sizes) const {
    std::size_t elements = 1;
    for (const std::size_t size : sizes) elements = product(elements, size);
    return elements;
  }

  std::size_t product(std::size_t a, std::size_t b) const {
    if (b != 0 && a > std::numeric_limits<std::size_t>::max() / b) fail("has a shape whose size overflows");
    return a * b;
  }

  std::size_t integer(const Json& value, std::string_view key) const {
    if (!value.is_number_unsigned())
      fail(fmt::format("has a {} entry that is not a non-negative integer", key));
    return value.get<std::size_t>();
  }

  const Json& value(const char* key) const {
    const auto found = entry_.find(key);
    if (found == entry_.end()) fail(fmt::format("has no {}", key));
    return *found;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("{}: tensor '{}' {}", file_, name_, what);
  }

  const std::string& file_;
  const std::string& name_;
  const Json& entry_;
};

std::map<std::string, std::string> metadata_of(const Json& object, const std::string& file) {
  if (!object.is_object()) throw Error("{}: __metadata__ is not a JSON object", file);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) throw Error("{}: metadata '{}' is not a string", file, key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

void check_coverage(const std::vector<TensorInfo>& tensors, std::size_t data_size, const std::string& file) {
  std::size_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < covered)
      throw Error("{}: tensor '{}' overlaps the one before it at byte {}", file, tensor.name, tensor.begin);
    if (tensor.begin > covered)
      throw Error("{}: {} bytes before tensor '{}' belong to no tensor", file, tensor.begin - covered,
                  tensor.name);
    covered += tensor.count * size_of(tensor.dtype);
  }
  if (covered < data_size)
    throw Error("{}: {} bytes at the end belong to no tensor", file, data_size - covered);
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return std::ranges::find(dtypes, dtype, [](const auto& entry) { return entry.second; })->first;
}

std::size_t size_of(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 8; }

SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_size,
                                           const std::string& file) {
  if (!json.starts_with('{')) throw Error("{}: header does not start with '{{'", file);
  const Json root = parse_strictly(json, file);
  SafetensorsHeader header;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__")
      header.metadata = metadata_of(entry, file);
    else
      header.tensors.push_back(EntryReader(file, name, entry).read(data_size));
  }
  // Empty tensors come before the one that starts at the same byte.
  std::ranges::sort(header.tensors, {}, [](const TensorInfo& tensor) {
    return std::tuple(tensor.begin, tensor.count, tensor.name);
  });
  check_coverage(header.tensors, data_size, file);
  return header;
}

}  // namespace mac
