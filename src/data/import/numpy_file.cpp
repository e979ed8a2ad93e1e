// NumPy's .npy: "\x93NUMPY", version, length of a header, the header as a Python dictionary
// {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }, then the numbers. And .npz, a zip archive of them,
// stored or deflated; members that are compressed are unpacked into a temporary file that has no name.
#include <zlib.h>

#include <charconv>
#include <mac/error.hpp>

#include "data/import/byte_window.hpp"
#include "data/import/foreign_file.hpp"
#include "data/import/raw_numbers.hpp"

namespace mac {

namespace {

/// One array of a file, which begins at byte `offset` of it.
struct NumpyArray {
  std::shared_ptr<ByteWindow> bytes;
  RawType type;
  std::size_t offset = 0;
  Extents dims, strides;
};

std::uint32_t little(const unsigned char* bytes, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

/// What stands after 'key': in the header's dictionary.
std::string_view entry(const std::string& where, std::string_view header, const std::string& key) {
  const auto at = header.find("'" + key + "':");
  if (at == std::string_view::npos) throw Error("{}: the header of the array has no {}", where, key);
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (rest.empty()) throw Error("{}: the header of the array ends after {}", where, key);
  return rest;
}

RawType type_of(const std::string& where, std::string_view descr) {
  if (descr.starts_with('['))
    throw Error("{}: is an array of records; save each field as an array of its own", where);
  const std::string_view text = descr.substr(1, descr.find('\'', 1) - 1);
  RawType type;
  if (text.size() >= 3) {
    type.big_endian = text[0] == '>';
    type.kind = text[1] == 'b' ? 'u' : text[1];
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data() + 2, end, type.bytes).ptr != end) type.kind = '?';
  }
  if (type.kind == 'c')
    throw Error("{}: holds complex numbers; save their real and imaginary parts as variables", where);
  const bool whole = (type.kind == 'i' || type.kind == 'u') &&
                     (type.bytes == 1 || type.bytes == 2 || type.bytes == 4 || type.bytes == 8);
  if (text.size() < 3 || !(whole || (type.kind == 'f' && (type.bytes == 4 || type.bytes == 8))))
    throw Error("{}: holds elements of type {}, expected real numbers of 32 or 64 bits, or whole numbers",
                where, text);
  return type;
}

NumpyArray read_header(const std::string& where, std::shared_ptr<ByteWindow> bytes, std::size_t begin,
                       std::size_t end) {
  unsigned char fixed[12];
  if (end - begin < sizeof fixed) throw Error("{}: is too short for a NumPy array", where);
  bytes->read(begin, sizeof fixed, fixed);
  if (std::memcmp(fixed, "\x93NUMPY", 6) != 0) throw Error("{}: is no NumPy array", where);
  const std::size_t prefix = fixed[6] == 1 ? 10 : 12;
  const std::size_t length = little(fixed + 8, prefix - 8);
  if (length > end - begin - prefix || length > 1'000'000)
    throw Error("{}: announces a header of {} bytes, which it does not have", where, length);
  std::string header(length, ' ');
  bytes->read(begin + prefix, length, header.data());

  NumpyArray array{
      std::move(bytes), type_of(where, entry(where, header, "descr")), begin + prefix + length, {}, {}};
  std::string_view shape = entry(where, header, "shape");
  shape = shape.substr(0, shape.find(')'));
  std::size_t most =
      (end - array.offset) / array.type.bytes;  // elements that are there, over the axes so far
  bool none = false;
  for (std::size_t at = 1; at < shape.size();) {
    if (shape[at] == ' ' || shape[at] == ',') {
      ++at;
      continue;
    }
    std::size_t n = 0;
    const auto [rest, failure] = std::from_chars(shape.data() + at, shape.data() + shape.size(), n);
    if (failure != std::errc()) throw Error("{}: has a shape that cannot be read: {})", where, shape);
    array.dims.push_back(n);
    most = n > 0 ? most / n : 0;
    none = none || n == 0;
    at = static_cast<std::size_t>(rest - shape.data());
  }
  if (most == 0 && !none)
    throw Error("{}: announces the shape {}), for which the file is too short", where, shape);
  const bool fortran = entry(where, header, "fortran_order").starts_with("True");
  array.strides.resize(array.dims.size());
  std::size_t stride = array.type.bytes;
  for (std::size_t i = 0; i < array.dims.size(); ++i) {
    const std::size_t axis = fortran ? i : array.dims.size() - 1 - i;
    array.strides[axis] = stride;
    stride *= array.dims[axis];
  }
  return array;
}

class NumpyFile final : public ForeignFile {
 public:
  explicit NumpyFile(std::string path) : ForeignFile(std::move(path)) {}

  void add(const std::string& name, NumpyArray array) {
    arrays_.push_back({name, array.dims});
    stored_.push_back(std::move(array));
  }
  void add_other(const std::string& name) { others_.push_back(name); }

  void read(std::size_t index, const Extents& start, const Extents& count, double* out) override {
    const NumpyArray& array = stored_.at(index);
    read_strided(*array.bytes, array.type, array.offset, array.strides, start, count, out);
  }

 private:
  std::vector<NumpyArray> stored_;
};

/// A member of a zip archive.
struct Member {
  std::string name;
  unsigned method = 0;  // 0: stored, 8: deflated
  std::size_t packed = 0, size = 0, offset = 0;
};

/// Eight bytes of the extra field 1 of archives over 4 GB stand in for each entry that reads 0xffffffff.
void take_wide(const std::vector<unsigned char>& extra, std::vector<std::size_t*> entries) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::size_t kind = little(&extra[at], 2), size = little(&extra[at + 2], 2);
    if (kind == 1)
      for (std::size_t i = 0, from = at + 4;
           i < entries.size() && from + 8 <= std::min(extra.size(), at + 4 + size); ++i)
        if (*entries[i] == 0xffffffffU) {
          *entries[i] = little(&extra[from], 4) | static_cast<std::size_t>(little(&extra[from + 4], 4)) << 32;
          from += 8;
        }
    at += 4 + size;
  }
}

/// The members that the directory at the archive's end lists.
std::vector<Member> members(const std::string& path, ByteWindow& bytes) {
  constexpr std::size_t end_size = 22, entry_size = 46;
  const std::size_t size = bytes.size(), tail = std::min<std::size_t>(size, end_size + 65535);
  std::vector<unsigned char> end(tail);
  bytes.read(size - tail, tail, end.data());
  std::size_t at = tail < end_size ? 0 : tail - end_size + 1;
  while (at > 0 && little(&end[at - 1], 4) != 0x06054b50U) --at;
  if (at == 0) throw Error("{}: is a damaged zip archive: it has no directory at its end", path);
  std::size_t count = little(&end[at - 1 + 10], 2), begin = little(&end[at - 1 + 16], 4);
  if (begin == 0xffffffffU || count == 0xffffU) {  // a directory for large archives lies before this one
    if (at - 1 < 20 || little(&end[at - 21], 4) != 0x07064b50U)
      throw Error("{}: is a damaged zip archive: its directory for large files is missing", path);
    const std::size_t wide_at =
        little(&end[at - 21 + 8], 4) | static_cast<std::size_t>(little(&end[at - 21 + 12], 4)) << 32;
    unsigned char wide[56];
    bytes.read(wide_at, sizeof wide, wide);
    count = little(wide + 32, 4);
    begin = little(wide + 48, 4) | static_cast<std::size_t>(little(wide + 52, 4)) << 32;
  }
  std::vector<Member> found;
  for (std::size_t i = 0; i < count; ++i) {
    unsigned char entry[entry_size];
    bytes.read(begin, entry_size, entry);
    if (little(entry, 4) != 0x02014b50U)
      throw Error("{}: is a damaged zip archive: entry {} is none", path, i);
    const std::size_t name_size = little(entry + 28, 2), extra_size = little(entry + 30, 2);
    Member member{std::string(name_size, ' '), little(entry + 10, 2), little(entry + 20, 4),
                  little(entry + 24, 4), little(entry + 42, 4)};
    bytes.read(begin + entry_size, name_size, member.name.data());
    std::vector<unsigned char> extra(extra_size);
    bytes.read(begin + entry_size + name_size, extra_size, extra.data());
    take_wide(extra, {&member.size, &member.packed, &member.offset});
    begin += entry_size + name_size + extra_size + little(entry + 32, 2);
    unsigned char local[30];
    bytes.read(member.offset, sizeof local, local);
    member.offset += sizeof local + little(local + 26, 2) + little(local + 28, 2);
    found.push_back(std::move(member));
  }
  return found;
}

/// The member unpacked into a temporary file, in pieces.
std::shared_ptr<ByteWindow> unpack(const std::string& where, ByteWindow& bytes, const Member& member) {
  OpenFile file = temporary_file(where);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error("{}: cannot be unpacked", where);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  std::vector<unsigned char> in(1 << 16), out(1 << 16);
  std::size_t read = 0, written = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0 && read < member.packed) {
      const std::size_t count = std::min(in.size(), member.packed - read);
      bytes.read(member.offset + read, count, in.data());
      read += count;
      stream.next_in = in.data();
      stream.avail_in = static_cast<unsigned>(count);
    }
    stream.next_out = out.data();
    stream.avail_out = static_cast<unsigned>(out.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) throw Error("{}: its compressed bytes are damaged", where);
    const std::size_t count = out.size() - stream.avail_out;
    if (count > member.size - written)  // a damaged archive must not fill the disk
      throw Error("{}: does not unpack to the {} bytes that its archive announces", where, member.size);
    write_temporary(file.get(), written, out.data(), count, where);
    written += count;
  }
  if (written != member.size)
    throw Error("{}: does not unpack to the {} bytes that its archive announces", where, member.size);
  return read_temporary(std::move(file), where);
}

}  // namespace

std::unique_ptr<ForeignFile> open_npy(const std::string& path) {
  auto file = std::make_unique<NumpyFile>(path);
  const auto bytes = std::make_shared<ByteWindow>(path);
  file->add("y", read_header(path, bytes, 0, bytes->size()));  // it has no name of its own
  return file;
}

std::unique_ptr<ForeignFile> open_npz(const std::string& path) {
  auto file = std::make_unique<NumpyFile>(path);
  const auto bytes = std::make_shared<ByteWindow>(path);
  for (const Member& member : members(path, *bytes)) {
    if (!member.name.ends_with(".npy")) {
      file->add_other(member.name);
      continue;
    }
    const std::string name = member.name.substr(0, member.name.size() - 4), where = path + ": " + name;
    if (member.method != 0 && member.method != 8)
      throw Error("{}: is compressed by method {}, expected none or deflate", where, member.method);
    if (member.method == 0) {
      file->add(name, read_header(where, bytes, member.offset, member.offset + member.size));
    } else {
      const auto unpacked = unpack(where, *bytes, member);
      file->add(name, read_header(where, unpacked, 0, unpacked->size()));
    }
  }
  return file;
}

}  // namespace mac
