#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "io/input_file.hpp"
#include "io/safetensors_checksum.hpp"
#include "io/safetensors_header.hpp"

namespace mac {

static_assert(std::endian::native == std::endian::little,
              "safetensors are read and written as they lie in memory");

namespace {

constexpr std::size_t length_bytes = 8;

/// The header's length, from the first eight bytes of a file of `file_size` bytes.
std::size_t header_length(std::string_view prefix, std::size_t file_size, const std::string& file) {
  if (file_size < length_bytes)
    throw Error("{}: is {} bytes long, too short for a safetensors file", file, file_size);
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), length_bytes);
  if (length > largest_safetensors_header)
    throw Error("{}: claims a header of {} bytes, more than the {} allowed; is it a safetensors file?", file,
                length, largest_safetensors_header);
  if (length > file_size - length_bytes)
    throw Error("{}: claims a header of {} bytes but has only {} left; is it truncated?", file, length,
                file_size - length_bytes);
  return static_cast<std::size_t>(length);
}

template <class T, class Out>
void append(const std::string& data, const TensorInfo& tensor, std::vector<Out>& out) {
  for (std::size_t i = 0; i < tensor.count; ++i) {
    T value;  // the bytes need not be aligned
    std::memcpy(&value, data.data() + tensor.begin + i * sizeof(T), sizeof(T));
    out.push_back(value);
  }
}

template <class T>
std::string copy_bytes(std::span<const T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace

Safetensors Safetensors::parse(std::string_view bytes, const std::string& file) {
  const std::size_t header_size = header_length(bytes, bytes.size(), file);
  const std::string_view data = bytes.substr(length_bytes + header_size);
  Safetensors result;
  result.file_ = file;
  const std::string text(bytes.substr(length_bytes, header_size));
  SafetensorsHeader header = parse_safetensors_header(text, data.size(), file);
  result.has_checksum_ = check_safetensors(header.metadata, bytes.substr(0, length_bytes), text, data, file);
  result.metadata_ = std::move(header.metadata);
  result.tensors_ = std::move(header.tensors);
  result.data_ = data;
  return result;
}

Safetensors Safetensors::read(const std::filesystem::path& path) {
  const std::string file = path.string();
  if (const FileKind kind = file_kind(path); kind != FileKind::safetensors && kind != FileKind::unknown)
    throw Error("{}: is {}, expected a network (safetensors)", file, description(kind));
  std::error_code failure;
  std::ifstream in(path, std::ios::binary);
  const std::uintmax_t file_size = std::filesystem::file_size(path, failure);
  if (!in || failure) throw Error("{}: cannot be read", file);
  const auto read_bytes = [&](std::size_t count) {
    std::string bytes(count, '\0');
    if (!in.read(bytes.data(), static_cast<std::streamsize>(count))) throw Error("{}: cannot be read", file);
    return bytes;
  };

  // The header is checked before memory is taken for the data.
  const std::string prefix = read_bytes(std::min<std::size_t>(file_size, length_bytes));
  const std::size_t header_size = header_length(prefix, file_size, file);
  const std::size_t data_size = file_size - length_bytes - header_size;
  Safetensors result;
  result.file_ = file;
  const std::string text = read_bytes(header_size);
  SafetensorsHeader header = parse_safetensors_header(text, data_size, file);
  result.data_ = read_bytes(data_size);
  result.has_checksum_ = check_safetensors(header.metadata, prefix, text, result.data_, file);
  result.metadata_ = std::move(header.metadata);
  result.tensors_ = std::move(header.tensors);
  return result;
}

const TensorInfo* Safetensors::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
  return found == tensors_.end() ? nullptr : &*found;
}

const TensorInfo& Safetensors::at(std::string_view name) const {
  const TensorInfo* const tensor = find(name);
  if (!tensor) throw Error("{}: has no tensor '{}'", file_, name);
  return *tensor;
}

std::vector<double> Safetensors::numbers(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  if (tensor.dtype == Dtype::i64)
    throw Error("{}: tensor '{}' has dtype I64: expected F32 or F64", file_, name);
  std::vector<double> values;
  values.reserve(tensor.count);
  if (tensor.dtype == Dtype::f32)
    append<float>(data_, tensor, values);
  else
    append<double>(data_, tensor, values);
  return values;
}

std::vector<std::int64_t> Safetensors::integers(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  if (tensor.dtype != Dtype::i64)
    throw Error("{}: tensor '{}' has dtype {}: expected I64", file_, name, to_string(tensor.dtype));
  std::vector<std::int64_t> values;
  values.reserve(tensor.count);
  append<std::int64_t>(data_, tensor, values);
  return values;
}

void SafetensorsWriter::set_metadata(const std::string& key, const std::string& text) {
  metadata_[key] = text;
}

void SafetensorsWriter::add(const std::string& name, std::vector<std::size_t> shape,
                            std::span<const float> values) {
  add_entry({name, Dtype::f32, std::move(shape), copy_bytes(values)}, values.size());
}

void SafetensorsWriter::add(const std::string& name, std::vector<std::size_t> shape,
                            std::span<const double> values) {
  add_entry({name, Dtype::f64, std::move(shape), copy_bytes(values)}, values.size());
}

void SafetensorsWriter::add(const std::string& name, std::vector<std::size_t> shape,
                            std::span<const std::int64_t> values) {
  add_entry({name, Dtype::i64, std::move(shape), copy_bytes(values)}, values.size());
}

void SafetensorsWriter::add_entry(Entry entry, std::size_t count) {
  std::size_t expected = 1;
  for (const std::size_t size : entry.shape) expected *= size;
  if (count != expected)
    throw Error("tensor '{}' has {} values, its shape needs {}", entry.name, count, expected);
  if (entry.name.empty() || entry.name == "__metadata__")
    throw Error("a tensor cannot be named '{}'", entry.name);
  if (std::ranges::find(entries_, entry.name, &Entry::name) != entries_.end())
    throw Error("tensor '{}' was added twice", entry.name);
  entries_.push_back(std::move(entry));
}

std::string SafetensorsWriter::bytes() const {
  // Wide elements first: with the header padded to eight bytes, every tensor is aligned.
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::stable_partition(order.begin(), order.end(),
                        [](const Entry* entry) { return size_of(entry->dtype) == 8; });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  auto metadata = metadata_;
  metadata[file_checksum_key] = blank_file_checksum();
  header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const Entry* entry : order) {
    header[entry->name] = {{"dtype", to_string(entry->dtype)},
                           {"shape", entry->shape},
                           {"data_offsets", {offset, offset + entry->data.size()}}};
    offset += entry->data.size();
  }
  // Bytes that are not UTF-8 are replaced rather than losing the file over a comment.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > largest_safetensors_header)
    throw Error("the header is larger than {} bytes", largest_safetensors_header);

  const std::uint64_t length = text.size();
  std::string bytes(length_bytes, '\0');
  std::memcpy(bytes.data(), &length, length_bytes);
  bytes.reserve(length_bytes + text.size() + offset);
  bytes += text;
  for (const Entry* entry : order) bytes += entry->data;
  seal_safetensors(bytes, text.size());
  return bytes;
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  write_file_atomically(path, bytes());
}

}  // namespace mac
