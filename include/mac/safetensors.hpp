// Safetensors files: named arrays after a JSON header. The layout is
//
//   8 bytes   length N of the header, little-endian
//   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                    "__metadata__": {"key": "text", ...}}
//   the rest  the arrays, row-major, little-endian, without gaps
//
// The reader takes nothing on trust: every length, offset and shape is checked against the file before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mac {

enum class Dtype { f32, f64, i64 };

std::string_view to_string(Dtype dtype);  // "F32", as in the file
std::size_t size_of(Dtype dtype);         // bytes of one element

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<std::size_t> shape;
  std::size_t count = 0;  // elements
  std::size_t begin = 0;  // first byte after the header
};

class Safetensors {
 public:
  /// Throws Error, naming the file and the tensor, for anything that is not a well-formed file.
  static Safetensors read(const std::filesystem::path& path);
  /// The same from memory; `file` is only for messages.
  static Safetensors parse(std::string_view bytes, const std::string& file);

  const std::string& file() const { return file_; }
  /// Whether the file has a checksum of itself, which it fits then; the metadata are without it.
  bool has_checksum() const { return has_checksum_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of their data

  const TensorInfo* find(std::string_view name) const;  // null when absent
  const TensorInfo& at(std::string_view name) const;    // throws Error when absent

  /// The elements of an F32 or F64 tensor; throws Error for an I64 one.
  std::vector<double> numbers(std::string_view name) const;
  /// The elements of an I64 tensor; throws Error for any other.
  std::vector<std::int64_t> integers(std::string_view name) const;

 private:
  std::string file_;
  std::map<std::string, std::string> metadata_;
  std::vector<TensorInfo> tensors_;
  std::string data_;
  bool has_checksum_ = false;
};

/// Collects tensors and metadata, then writes them with a checksum of the whole file. The same contents give the
/// same bytes.
class SafetensorsWriter {
 public:
  void set_metadata(const std::string& key, const std::string& text);
  void add(const std::string& name, std::vector<std::size_t> shape, std::span<const float> values);
  void add(const std::string& name, std::vector<std::size_t> shape, std::span<const double> values);
  void add(const std::string& name, std::vector<std::size_t> shape, std::span<const std::int64_t> values);

  std::string bytes() const;
  /// Written beside the final name, synced, renamed: the file appears whole or not at all.
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    std::string name;
    Dtype dtype;
    std::vector<std::size_t> shape;
    std::string data;
  };
  void add_entry(Entry entry, std::size_t count);

  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
};

}  // namespace mac
