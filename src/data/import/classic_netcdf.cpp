// Classic NetCDF: "CDF" and a version (1, 2: offsets of 64 bits, 5: sizes of 64 bits), then lists of dimensions,
// attributes and variables, all big-endian and padded to four bytes. Variables whose first dimension is the record
// dimension lie interleaved, a record after the other.
#include <algorithm>
#include <limits>
#include <mac/error.hpp>

#include "data/import/byte_window.hpp"
#include "data/import/foreign_file.hpp"
#include "data/import/raw_numbers.hpp"

namespace mac {

namespace {

constexpr std::size_t most = 1 << 20;  // entries of a list, or bytes of a name: more is damage

struct Attribute {
  std::string name, text;
  std::vector<double> numbers;
};

class ClassicNetcdf final : public ForeignFile {
 public:
  explicit ClassicNetcdf(const std::string& path) : ForeignFile(path), bytes_(path) {
    unsigned char magic[4];
    bytes_.read(0, 4, magic);
    version_ = magic[3];
    if (version_ != 1 && version_ != 2 && version_ != 5)
      throw Error("{}: is NetCDF of the unknown version {}", path, version_);
    at_ = 4;
    records_ = size();
    const std::size_t dimensions = list(10);
    for (std::size_t i = 0; i < dimensions; ++i) {
      names_.push_back(name());
      lengths_.push_back(size());
    }
    read_attributes();
    read_variables();
  }

  void read(std::size_t index, const Extents& start, const Extents& count, double* out) override {
    const Stored& stored = stored_.at(index);
    read_strided(bytes_, stored.type, stored.offset, stored.strides, start, count, out);
    std::size_t total = 1;
    for (const std::size_t n : count) total *= n;
    for (std::size_t i = 0; i < total; ++i) {
      bool missing = false;
      for (const double fill : stored.missing) missing = missing || out[i] == fill;
      out[i] = missing ? std::numeric_limits<double>::quiet_NaN() : out[i] * stored.scale + stored.shift;
    }
  }

 private:
  struct Stored {
    RawType type;
    std::size_t offset = 0;
    Extents strides;
    std::vector<double> missing;
    double scale = 1, shift = 0;
  };

  std::size_t whole(std::size_t bytes) {
    unsigned char raw[8];
    bytes_.read(at_, bytes, raw);
    at_ += bytes;
    std::size_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | raw[i];
    return value;
  }
  std::size_t size() { return whole(version_ == 5 ? 8 : 4); }
  void check(std::size_t count) const {
    if (count > most)
      throw Error("{}: is a damaged NetCDF file: a list of its header has {} entries", path_, count);
  }
  /// How many entries the list has that must be of this kind; none where it is absent.
  std::size_t list(std::size_t kind) {
    const std::size_t found = whole(4), count = size();
    if (found != kind && (found != 0 || count != 0))
      throw Error("{}: is a damaged NetCDF file: its header has a list of kind {} in place of {}", path_,
                  found, kind);
    check(count);
    return count;
  }
  std::string name() {
    const std::size_t length = size();
    check(length);
    std::string text(length, ' ');
    bytes_.read(at_, length, text.data());
    at_ += (length + 3) / 4 * 4;
    return text;
  }
  RawType type() {
    const std::size_t kind = whole(4);
    constexpr RawType types[] = {{'i', 1, true}, {'t', 1, true}, {'i', 2, true}, {'i', 4, true},
                                 {'f', 4, true}, {'f', 8, true}, {'u', 1, true}, {'u', 2, true},
                                 {'u', 4, true}, {'i', 8, true}, {'u', 8, true}};
    if (kind < 1 || kind > std::size(types))
      throw Error("{}: is a damaged NetCDF file: it has a type {}", path_, kind);
    return types[kind - 1];
  }

  std::vector<Attribute> read_attributes() {
    std::vector<Attribute> attributes(list(12));
    for (Attribute& attribute : attributes) {
      attribute.name = name();
      const RawType kind = type();
      const std::size_t count = size();
      check(count);
      std::string raw(count * kind.bytes, ' ');
      bytes_.read(at_, raw.size(), raw.data());
      at_ += (raw.size() + 3) / 4 * 4;
      if (kind.kind == 't')
        attribute.text = raw.substr(0, raw.find('\0'));
      else
        for (std::size_t i = 0; i < count; ++i)
          attribute.numbers.push_back(
              raw_number(kind, reinterpret_cast<const unsigned char*>(raw.data()) + i * kind.bytes));
    }
    return attributes;
  }

  void read_variables() {
    const std::size_t variables = list(11);
    std::size_t record = 0, recorded = 0,
                alone = 0;  // bytes of a record; variables that have one; bytes of the only one
    std::vector<std::size_t> with_records;
    for (std::size_t i = 0; i < variables; ++i) {
      ForeignArray array{name(), {}};
      const std::size_t rank = size();
      check(rank);
      bool has_records = false;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        const std::size_t dimension = size();
        if (dimension >= lengths_.size())
          throw Error("{}: is a damaged NetCDF file: {} has a dimension that is not there", path_,
                      array.name);
        has_records = has_records || (axis == 0 && lengths_[dimension] == 0);
        array.dims.push_back(lengths_[dimension] == 0 ? records_ : lengths_[dimension]);
        array.axes.push_back(names_[dimension]);
      }
      Stored stored;
      for (const Attribute& attribute : read_attributes()) {
        if (attribute.name == "units") array.units = attribute.text;
        if (attribute.numbers.size() != 1) continue;
        if (attribute.name == "_FillValue" || attribute.name == "missing_value")
          stored.missing.push_back(attribute.numbers[0]);
        if (attribute.name == "scale_factor") stored.scale = attribute.numbers[0];
        if (attribute.name == "add_offset") stored.shift = attribute.numbers[0];
      }
      stored.type = type();
      size();  // bytes of the variable, which the header of large files does not have right
      stored.offset = whole(version_ == 1 ? 4 : 8);
      stored.strides.resize(rank);
      std::size_t stride = stored.type.bytes;
      for (std::size_t axis = rank; axis-- > 0;) {
        stored.strides[axis] = stride;
        if (axis > 0 || !has_records) stride *= array.dims[axis];
      }
      if (has_records) record += (stride + 3) / 4 * 4, ++recorded, alone = stride;
      if (rank == 0 || stored.type.kind == 't') {
        others_.push_back(array.name + (rank == 0 ? " (one value)" : " (text)"));
        continue;
      }
      if (has_records) with_records.push_back(stored_.size());
      arrays_.push_back(std::move(array));
      stored_.push_back(std::move(stored));
    }
    for (const std::size_t i : with_records) stored_[i].strides[0] = recorded == 1 ? alone : record;
    for (std::size_t i = 0; i < stored_.size(); ++i)
      if (!is_there(arrays_[i], stored_[i]))
        throw Error("{}: announces {} with the shape ({}), for which the file is too short", path_,
                    arrays_[i].name, fmt::join(arrays_[i].dims, ", "));
  }

  /// Whether the file has the array's last element. As doubles: the products of a damaged header are as large as it likes.
  bool is_there(const ForeignArray& array, const Stored& stored) const {
    double last = static_cast<double>(stored.offset) + static_cast<double>(stored.type.bytes), stride = 1;
    for (std::size_t axis = array.dims.size(); axis-- > 0;) {
      if (array.dims[axis] == 0) return true;
      stride = axis + 1 == array.dims.size() ? static_cast<double>(stored.type.bytes)
                                             : stride * static_cast<double>(array.dims[axis + 1]);
      if (axis == 0) stride = std::max(stride, static_cast<double>(stored.strides[0]));  // of a record
      last += static_cast<double>(array.dims[axis] - 1) * stride;
    }
    return last <= static_cast<double>(bytes_.size());
  }

  ByteWindow bytes_;
  std::size_t version_ = 0, at_ = 0, records_ = 0;
  std::vector<std::string> names_;  // of the dimensions
  std::vector<std::size_t> lengths_;
  std::vector<Stored> stored_;
};

}  // namespace

std::unique_ptr<ForeignFile> open_classic_netcdf(const std::string& path) {
  return std::make_unique<ClassicNetcdf>(path);
}

}  // namespace mac
