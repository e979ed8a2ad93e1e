#include "io/hdf5.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mac/error.hpp>
#include <map>
#include <mutex>
#include <numeric>

#include "io/atomic_file.hpp"
#include "io/file_digest.hpp"
#include "io/hdf5_probe.hpp"
#include "io/input_file.hpp"

namespace mac::h5 {

struct Written {
  struct Block {
    std::string dataset;
    std::vector<std::size_t> start, count;
    XXH64_hash_t hash;
  };
  struct Text {
    std::string dataset;
    std::vector<std::string> values;
  };
  std::string path;     // where the bytes are
  std::string failure;  // why a dataset could not be closed
  std::vector<Block> blocks;
  std::vector<Text> texts;
};

std::unique_lock<std::recursive_mutex> take_turn() {
  static std::recursive_mutex mutex;
  std::unique_lock turn(mutex);
  [[maybe_unused]] static const herr_t no_clean_up = H5dont_atexit();
  [[maybe_unused]] thread_local const herr_t silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  return turn;
}

namespace {

constexpr unsigned deflate_level = 1;        // smooth trajectories: the byte shuffle does most of the work
constexpr std::size_t most_deflated = 1032;  // bytes that one byte of deflate's can stand for

/// The innermost sentence of HDF5's error stack.
std::string reason() {
  std::string text;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
        if (n == 0 && error->desc) *static_cast<std::string*>(out) = error->desc;
        return 0;
      },
      &text);
  // A failed write comes with addresses and dates around what the system said.
  constexpr std::string_view marker = "error message = '";
  if (const auto at = text.find(marker); at != std::string::npos) {
    const auto begin = at + marker.size();
    return text.substr(begin, text.find('\'', begin) - begin);
  }
  return text.empty() ? "unknown HDF5 error" : text;
}

void check(herr_t status, const std::string& where, const char* what) {
  if (status < 0) throw Error("{}: cannot {}: {}", where, what, reason());
}

Handle checked(hid_t id, Handle::Close close, const std::string& where, const char* what) {
  if (id < 0) throw Error("{}: cannot {}: {}", where, what, reason());
  return {id, close};
}

std::vector<hsize_t> to_hsize(const std::vector<std::size_t>& values) {
  return {values.begin(), values.end()};
}

/// How many elements an object of this shape has. A damaged shape is found before memory is taken for it: the
/// whole cannot be longer than its file, unless it is compressed.
std::size_t element_count(hid_t object, hid_t space, std::size_t element_bytes, const std::string& where,
                          std::size_t compression = 1) {
  const Handle file = checked(H5Iget_file_id(object), H5Fclose, where, "find the file");
  hsize_t file_bytes = 0;
  check(H5Fget_filesize(file.get(), &file_bytes), where, "measure the file");
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(rank < 0 ? 0 : static_cast<std::size_t>(rank));
  check(H5Sget_simple_extent_dims(space, dims.data(), nullptr), where, "read the shape");
  const std::size_t most = file_bytes * compression / element_bytes;
  std::size_t count = 1;
  for (const hsize_t n : dims) {
    if (n > 0 && count > most / n) throw Error("{}: has a shape that the file is too short for", where);
    count *= n;
  }
  return count;
}

/// Text as it lies in the file: all of one length, padded with zeros. Strings of variable length would go to
/// a global heap, in which a damaged file makes HDF5 read out of bounds or loop for ever.
struct FixedStrings {
  explicit FixedStrings(const std::vector<std::string>& values) {
    std::size_t size = 1;  // HDF5 has no type of size zero
    for (const std::string& value : values) size = std::max(size, value.size());
    H5Tset_size(type.get(), size);
    H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    for (const std::string& value : values) bytes += value + std::string(size - value.size(), '\0');
  }
  const Handle type{H5Tcopy(H5T_C_S1), H5Tclose};
  std::string bytes;
};

void write_strings(hid_t object, const std::string& where, const std::string& name,
                   const std::vector<std::string>& values, bool scalar) {
  const auto turn = take_turn();
  const hsize_t count = values.size();
  const Handle space = checked(scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr),
                               H5Sclose, where, "describe an attribute");
  const FixedStrings strings(values);
  const Handle attribute =
      checked(H5Acreate2(object, name.c_str(), strings.type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
              H5Aclose, where, "create an attribute");
  check(H5Awrite(attribute.get(), strings.type.get(), strings.bytes.data()), where, "write an attribute");
}

/// Reads strings of an attribute or dataset by `read(out)`; those of variable length are of files that
/// earlier versions wrote.
template <class Read>
std::vector<std::string> take_strings(hid_t object, hid_t stored, hid_t space, const std::string& where,
                                      Read&& read) {
  if (H5Tget_class(stored) != H5T_STRING) throw Error("{} is not text", where);
  const std::size_t size = H5Tget_size(stored);
  const std::size_t count = element_count(object, space, std::max<std::size_t>(size, 1), where);
  std::vector<std::string> values;
  if (H5Tis_variable_str(stored) > 0) {
    std::vector<char*> pointers(count, nullptr);
    check(read(pointers.data()), where, "read");
    for (const char* pointer : pointers) values.emplace_back(pointer ? pointer : "");
    H5Dvlen_reclaim(stored, space, H5P_DEFAULT, pointers.data());
    return values;
  }
  std::string bytes(count * size, '\0');
  check(read(bytes.data()), where, "read");
  for (std::size_t i = 0; i < count; ++i)
    values.emplace_back(bytes.data() + i * size, ::strnlen(bytes.data() + i * size, size));
  return values;
}

std::vector<std::string> read_strings(hid_t object, const std::string& where, const std::string& name) {
  const auto turn = take_turn();
  const std::string what = fmt::format("{}: attribute \"{}\"", where, name);
  if (H5Aexists(object, name.c_str()) <= 0) throw Error("{} is missing", what);
  const Handle attribute = checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, what, "open");
  const Handle stored = checked(H5Aget_type(attribute.get()), H5Tclose, what, "read the type");
  const Handle space = checked(H5Aget_space(attribute.get()), H5Sclose, what, "read the shape");
  return take_strings(object, stored.get(), space.get(), what,
                      [&](void* out) { return H5Aread(attribute.get(), stored.get(), out); });
}

void write_number(hid_t object, const std::string& where, const std::string& name, hid_t stored, hid_t type,
                  const void* value) {
  const auto turn = take_turn();
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute =
      checked(H5Acreate2(object, name.c_str(), stored, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
              where, "create an attribute");
  check(H5Awrite(attribute.get(), type, value), where, "write an attribute");
}

/// HDF5 converts between kinds of numbers, but writes as many as the file says there are.
void read_number(hid_t object, const std::string& where, const std::string& name, hid_t type, void* value) {
  const auto turn = take_turn();
  const std::string what = fmt::format("{}: attribute \"{}\"", where, name);
  if (H5Aexists(object, name.c_str()) <= 0) throw Error("{} is missing", what);
  const Handle attribute = checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, what, "open");
  const Handle space = checked(H5Aget_space(attribute.get()), H5Sclose, what, "read the shape");
  if (H5Sget_simple_extent_npoints(space.get()) != 1) throw Error("{} is not one number", what);
  check(H5Aread(attribute.get(), type, value), what, "read");
}

std::size_t product(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>());
}

/// Some rows of an array that is not compressed, about as much as HDF5 keeps in memory: blocks are written
/// without reading what is there.
std::vector<std::size_t> rows_of(std::vector<std::size_t> dims) {
  constexpr std::size_t most = 131072;  // numbers
  const std::size_t row = product(dims) / dims[0];
  dims[0] = std::clamp<std::size_t>(most / row, 1, dims[0]);
  return dims;
}

/// "/test/resolved"
std::string name_of(hid_t object) {
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(H5Iget_name(object, nullptr, 0), 0)), '\0');
  H5Iget_name(object, name.data(), name.size() + 1);
  return name;
}

XXH64_hash_t hash_of(const double* data, const std::vector<std::size_t>& count) {
  return XXH3_64bits(data, product(count) * sizeof(double));
}

/// Throws Error, naming `name`, unless the file holds what was written.
void read_back(const Written& written, const std::string& name) {
  if (!written.failure.empty())
    throw Error("{}: cannot write this file to the end: {}", name, written.failure);
  try {
    const File file = File::open(written.path);
    std::map<std::string, Dataset> datasets;
    std::vector<double> values;
    for (const Written::Block& block : written.blocks) {
      const auto found = datasets.find(block.dataset);
      const Dataset& dataset =
          found != datasets.end()
              ? found->second
              : datasets.emplace(block.dataset, file.dataset(block.dataset)).first->second;
      values.resize(product(block.count));
      dataset.read(block.start, block.count, values.data());
      if (hash_of(values.data(), block.count) != block.hash) throw Error("{} differs", block.dataset);
    }
    for (const Written::Text& text : written.texts)
      if (file.read_text(text.dataset) != text.values) throw Error("{} differs", text.dataset);
  } catch (const Error& error) {
    throw Error("{}: does not hold what was written to it; is the disk full or failing? ({})", name,
                error.what());
  }
}

}  // namespace

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
  }
  return *this;
}

herr_t Handle::reset() {
  if (id_ < 0) return 0;
  const auto turn = take_turn();
  return close_(std::exchange(id_, -1));
}

Dataset::Dataset(Handle handle, std::string where, std::shared_ptr<Written> written)
    : handle_(std::move(handle)), where_(std::move(where)), written_(std::move(written)) {
  const auto turn = take_turn();
  const Handle space = checked(H5Dget_space(handle_.get()), H5Sclose, where_, "read the shape");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 1) throw Error("{}: is not an array", where_);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  dims_.assign(dims.begin(), dims.end());
  const Handle type = checked(H5Dget_type(handle_.get()), H5Tclose, where_, "read the type");
  if (H5Tget_class(type.get()) != H5T_FLOAT) throw Error("{}: does not hold floating-point numbers", where_);
}

Dataset::~Dataset() {
  const auto turn = take_turn();
  if (written_ && handle_.reset() < 0) written_->failure = reason();
}

Handle Dataset::select(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count) const {
  Handle space = checked(H5Dget_space(handle_.get()), H5Sclose, where_, "read the shape");
  const auto first = to_hsize(start), extent = to_hsize(count);
  check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, first.data(), nullptr, extent.data(), nullptr),
        where_, "select a block");
  return space;
}

void Dataset::write(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count,
                    const double* data) {
  const auto turn = take_turn();
  const Handle target = select(start, count);
  const auto extent = to_hsize(count);
  const Handle source(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose);
  check(H5Dwrite(handle_.get(), H5T_NATIVE_DOUBLE, source.get(), target.get(), H5P_DEFAULT, data), where_,
        "write");
  if (written_) written_->blocks.push_back({name_of(handle_.get()), start, count, hash_of(data, count)});
}

void Dataset::read(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count,
                   double* data) const {
  const auto turn = take_turn();
  const Handle source = select(start, count);
  const auto extent = to_hsize(count);
  const Handle target(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose);
  check(H5Dread(handle_.get(), H5T_NATIVE_DOUBLE, target.get(), source.get(), H5P_DEFAULT, data), where_,
        "read");
}

std::vector<double> Dataset::read_all() const {
  std::vector<double> values(product(dims_));
  if (!values.empty()) read(std::vector<std::size_t>(dims_.size(), 0), dims_, values.data());
  return values;
}

void Dataset::set_attribute(const std::string& name, const std::string& value) {
  write_strings(handle_.get(), where_, name, {value}, true);
}

void Dataset::set_attribute(const std::string& name, const std::vector<std::string>& values) {
  write_strings(handle_.get(), where_, name, values, false);
}

std::vector<std::string> Dataset::strings_attribute(const std::string& name) const {
  return read_strings(handle_.get(), where_, name);
}

File::File(Handle handle, std::string path, std::shared_ptr<Written> written)
    : handle_(std::move(handle)), path_(std::move(path)), written_(std::move(written)) {}

File File::create(const std::string& path) { return create(path, path); }
File File::create(const AtomicFile& target) { return create(target.temporary_path(), target.path()); }

File File::create(const std::string& path, const std::string& name) {
  const auto turn = take_turn();
  const Handle properties(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.get(), false);
  // The format of HDF5 1.10 has checksums of its metadata: damage is found, not followed.
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  // Closing the file closes its datasets: what is read again afterwards comes from the file, not from caches.
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  return {checked(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, properties.get(), access.get()), H5Fclose, name,
                  "create this HDF5 file"),
          name, std::make_shared<Written>(Written{path, {}, {}, {}})};
}

File File::open(const std::string& path) {
  const auto turn = take_turn();
  require_file(path);
  const bool has_digest = check_digest(path);
  if (H5Fis_hdf5(path.c_str()) <= 0) throw Error("{}: is not an HDF5 file", path);
  check_structure(path, has_digest);
  return {checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path, "open this HDF5 file"),
          path};
}

void File::close() {
  const auto turn = take_turn();
  check(H5Fflush(handle_.get(), H5F_SCOPE_LOCAL), path_, "write this file to the end");
  check(handle_.reset(), path_, "close this file");
  if (!written_) return;
  if (written_->failure.empty()) append_digest(written_->path, path_);
  read_back(*written_, path_);
}

bool File::has(const std::string& name) const {
  const auto turn = take_turn();
  // H5Lexists wants every group on the way to exist.
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1))
    if (H5Lexists(handle_.get(), name.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) return false;
  return H5Lexists(handle_.get(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> File::groups() const {
  const auto turn = take_turn();
  std::vector<std::string> names;
  const auto collect = [](hid_t group, const char* name, const H5L_info_t*, void* out) -> herr_t {
    H5O_info_t info;
    if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) >= 0 && info.type == H5O_TYPE_GROUP)
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  check(H5Literate(handle_.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names), path_,
        "list the groups");
  return names;
}

std::vector<std::string> File::datasets() const {
  const auto turn = take_turn();
  std::vector<std::string> names;
  const auto collect = [](hid_t group, const char* name, const H5O_info_t* info, void* out) -> herr_t {
    static_cast<void>(group);
    if (info->type == H5O_TYPE_DATASET)
      static_cast<std::vector<std::string>*>(out)->push_back(std::string("/") + name);
    return 0;
  };
  check(H5Ovisit(handle_.get(), H5_INDEX_NAME, H5_ITER_INC, collect, &names), path_, "list the datasets");
  return names;
}

void File::create_group(const std::string& name) {
  const auto turn = take_turn();
  const Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.get(), false);
  checked(H5Gcreate2(handle_.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), H5Gclose,
          fmt::format("{}: {}", path_, name), "create this group");
}

Handle File::create_object(const std::string& name, hid_t type, const std::vector<std::size_t>& dims,
                           const std::vector<std::size_t>& chunk) const {
  const std::string where = fmt::format("{}: {}", path_, name);
  const auto extent = to_hsize(dims);
  const Handle space = checked(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
                               H5Sclose, where, "describe this dataset");
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.get(), false);
  if (product(dims) > 0) {
    const auto block = to_hsize(chunk.empty() ? rows_of(dims) : chunk);
    H5Pset_chunk(properties.get(), static_cast<int>(block.size()), block.data());
    if (!chunk.empty()) {
      // By H5Pset_shuffle and H5Pset_deflate they could be left out, and are where memory fails: other bytes, in silence.
      H5Pset_filter(properties.get(), H5Z_FILTER_SHUFFLE, H5Z_FLAG_MANDATORY, 0, nullptr);
      H5Pset_filter(properties.get(), H5Z_FILTER_DEFLATE, H5Z_FLAG_MANDATORY, 1, &deflate_level);
    }
    H5Pset_fletcher32(properties.get());
  }
  return checked(
      H5Dcreate2(handle_.get(), name.c_str(), type, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
      H5Dclose, where, "create this dataset");
}

Dataset File::create_dataset(const std::string& name, const std::vector<std::size_t>& dims,
                             const std::vector<std::size_t>& chunk) {
  const auto turn = take_turn();
  return {create_object(name, H5T_IEEE_F64LE, dims, chunk), fmt::format("{}: {}", path_, name), written_};
}

Dataset File::dataset(const std::string& name) const {
  const auto turn = take_turn();
  const std::string where = fmt::format("{}: {}", path_, name);
  if (!has(name)) throw Error("{}: this dataset is missing", where);
  Handle handle =
      checked(H5Dopen2(handle_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, where, "open this dataset");
  const Handle space = checked(H5Dget_space(handle.get()), H5Sclose, where, "read the shape");
  element_count(handle.get(), space.get(), sizeof(double), where, most_deflated);
  return {std::move(handle), where};
}

void File::write_text(const std::string& name, const std::vector<std::string>& values) {
  const auto turn = take_turn();
  const FixedStrings strings(values);
  Handle dataset = create_object(name, strings.type.get(), {values.size()}, {});
  check(H5Dwrite(dataset.get(), strings.type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, strings.bytes.data()),
        fmt::format("{}: {}", path_, name), "write");
  check(dataset.reset(), fmt::format("{}: {}", path_, name), "write");
  if (written_) written_->texts.push_back({name, values});
}

std::vector<std::string> File::read_text(const std::string& name) const {
  const auto turn = take_turn();
  const std::string where = fmt::format("{}: {}", path_, name);
  if (!has(name)) throw Error("{}: this dataset is missing", where);
  const Handle dataset =
      checked(H5Dopen2(handle_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, where, "open this dataset");
  const Handle stored = checked(H5Dget_type(dataset.get()), H5Tclose, where, "read the type");
  const Handle space = checked(H5Dget_space(dataset.get()), H5Sclose, where, "read the shape");
  return take_strings(dataset.get(), stored.get(), space.get(), where, [&](void* out) {
    return H5Dread(dataset.get(), stored.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
  });
}

bool File::is_text(const std::string& name) const {
  const auto turn = take_turn();
  const std::string where = fmt::format("{}: {}", path_, name);
  const Handle dataset =
      checked(H5Dopen2(handle_.get(), name.c_str(), H5P_DEFAULT), H5Dclose, where, "open this dataset");
  const Handle stored = checked(H5Dget_type(dataset.get()), H5Tclose, where, "read the type");
  return H5Tget_class(stored.get()) == H5T_STRING;
}

Handle File::open_object(const std::string& name) const {
  const auto turn = take_turn();
  const std::string where = fmt::format("{}: {}", path_, name);
  if (name != "/" && !has(name)) throw Error("{}: is missing", where);
  return checked(H5Oopen(handle_.get(), name.c_str(), H5P_DEFAULT), H5Oclose, where, "open");
}

void File::set_attribute(const std::string& object, const std::string& name, const std::string& value) {
  write_strings(open_object(object).get(), path_, name, {value}, true);
}

void File::set_attribute(const std::string& object, const std::string& name,
                         const std::vector<std::string>& values) {
  write_strings(open_object(object).get(), path_, name, values, false);
}

void File::set_attribute(const std::string& object, const std::string& name, double value) {
  write_number(open_object(object).get(), path_, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void File::set_attribute(const std::string& object, const std::string& name, std::uint64_t value) {
  write_number(open_object(object).get(), path_, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value);
}

bool File::has_attribute(const std::string& object, const std::string& name) const {
  const auto turn = take_turn();
  return H5Aexists(open_object(object).get(), name.c_str()) > 0;
}

std::string File::string_attribute(const std::string& object, const std::string& name) const {
  const auto values = strings_attribute(object, name);
  if (values.size() != 1) throw Error("{}: attribute \"{}\" is not one string", path_, name);
  return values.front();
}

std::vector<std::string> File::strings_attribute(const std::string& object, const std::string& name) const {
  return read_strings(open_object(object).get(), path_, name);
}

double File::number_attribute(const std::string& object, const std::string& name) const {
  double value = 0;
  read_number(open_object(object).get(), path_, name, H5T_NATIVE_DOUBLE, &value);
  return value;
}

std::uint64_t File::integer_attribute(const std::string& object, const std::string& name) const {
  std::uint64_t value = 0;
  read_number(open_object(object).get(), path_, name, H5T_NATIVE_UINT64, &value);
  return value;
}

}  // namespace mac::h5
