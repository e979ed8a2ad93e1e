// HDF5 of any layout, and NetCDF-4, which is HDF5 with conventions: a dimension is a dataset to which others refer
// in their attribute DIMENSION_LIST, missing numbers are _FillValue or missing_value, packed ones are
// value * scale_factor + add_offset.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mac/error.hpp>
#include <optional>
#include <span>

#include "data/import/foreign_file.hpp"
#include "io/hdf5.hpp"
#include "io/input_file.hpp"

namespace mac {

namespace {

using h5::Handle;

constexpr std::size_t cache_bytes = 32 << 20;  // of decompressed chunks of a dataset

struct Packing {
  std::optional<double> fill, missing;
  double scale = 1, offset = 0;
};

Handle open_file(const std::string& path) {
  require_file(path);
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (file.get() < 0) throw Error("{}: is a damaged HDF5 file: it cannot be opened", path);
  return file;
}

std::optional<double> number_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return std::nullopt;
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  double value = 0;
  if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || H5Sget_simple_extent_npoints(space.get()) != 1 ||
      H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0)
    return std::nullopt;
  return value;
}

std::string text_attribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return {};
  const Handle attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return {};
  if (H5Tis_variable_str(type.get()) > 0) {
    char* text = nullptr;
    const Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
    if (H5Aread(attribute.get(), memory.get(), &text) < 0 || !text) return {};
    std::string value = text;
    H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), value.data()) < 0) return {};
  return value.substr(0, value.find('\0'));
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

/// The names of the dimension scales that a dataset's axes refer to.
std::vector<std::string> axis_names(hid_t dataset, std::size_t rank) {
  if (H5Aexists(dataset, "DIMENSION_LIST") <= 0) {
    // A dimension's own variable: its axis is itself.
    return {};
  }
  const Handle attribute(H5Aopen(dataset, "DIMENSION_LIST", H5P_DEFAULT), H5Aclose);
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(rank)) return {};
  const Handle type(H5Tvlen_create(H5T_STD_REF_OBJ), H5Tclose);
  std::vector<hvl_t> lists(rank);
  if (H5Aread(attribute.get(), type.get(), lists.data()) < 0) return {};
  std::vector<std::string> names(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (lists[axis].len == 0) continue;
    const Handle scale(H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, lists[axis].p), H5Oclose);
    char name[512] = "";
    if (scale.get() >= 0) H5Iget_name(scale.get(), name, sizeof name);
    names[axis] = last_part(name);
  }
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, lists.data());
  return names;
}

class Hdf5Foreign final : public ForeignFile {
 public:
  Hdf5Foreign(const std::string& path, const std::string& group) : ForeignFile(path) {
    const auto turn = h5::take_turn();
    file_ = open_file(path);
    if (!group.empty() && H5Lexists(file_.get(), group.c_str(), H5P_DEFAULT) <= 0)
      throw UsageError("{}: has no group {}", path, group);
    list(group.empty() ? "/" : "/" + group + "/", "", 0);
  }

  void read(std::size_t index, const Extents& start, const Extents& count, double* out) override {
    const auto turn = h5::take_turn();
    const hid_t dataset = datasets_.at(index).get();
    const std::vector<hsize_t> from(start.begin(), start.end()), size(count.begin(), count.end());
    const Handle space(H5Dget_space(dataset), H5Sclose);
    const Handle memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose);
    if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, from.data(), nullptr, size.data(), nullptr) < 0 ||
        H5Dread(dataset, H5T_NATIVE_DOUBLE, memory.get(), space.get(), H5P_DEFAULT, out) < 0)
      throw Error("{}: {} cannot be read; the file is damaged", path_, arrays_[index].name);
    const Packing& packing = packings_[index];
    std::size_t total = 1;
    for (const std::size_t n : count) total *= n;
    for (double& value : std::span(out, total)) {
      if (value == packing.fill || value == packing.missing)
        value = std::numeric_limits<double>::quiet_NaN();
      else
        value = value * packing.scale + packing.offset;
    }
  }

 private:
  void list(const std::string& group, const std::string& prefix, int depth) {
    constexpr int deepest = 8;  // hard links may go round in circles
    const Handle handle(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
    std::vector<std::string> names;
    const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
      static_cast<std::vector<std::string>*>(to)->push_back(name);
      return 0;
    };
    if (handle.get() < 0 ||
        H5Literate(handle.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names) < 0)
      throw Error("{}: is a damaged HDF5 file: {} cannot be listed", path_, group);
    for (const std::string& name : names) {
      const Handle object(H5Oopen(handle.get(), name.c_str(), H5P_DEFAULT), H5Oclose);
      const H5I_type_t kind = object.get() < 0 ? H5I_BADID : H5Iget_type(object.get());
      if (kind == H5I_GROUP && depth < deepest)
        list(group + name + "/", prefix + name + "/", depth + 1);
      else if (kind == H5I_DATASET)
        add(group + name, prefix + name);
    }
  }

  void add(const std::string& where, const std::string& name) {
    const Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    H5Pset_chunk_cache(access.get(), 12421, cache_bytes, 0.75);
    Handle dataset(H5Dopen2(file_.get(), where.c_str(), access.get()), H5Dclose);
    const Handle type(H5Dget_type(dataset.get()), H5Tclose), space(H5Dget_space(dataset.get()), H5Sclose);
    const H5T_class_t kind = H5Tget_class(type.get());
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (text_attribute(dataset.get(), "NAME")
            .starts_with("This is a netCDF dimension but not a netCDF variable"))
      return;
    if ((kind != H5T_FLOAT && kind != H5T_INTEGER) || rank < 1) {
      others_.push_back(fmt::format("{} ({})", name,
                                    rank < 1             ? "one value"
                                    : kind == H5T_STRING ? "text"
                                                         : "no plain numbers"));
      return;
    }
    std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    ForeignArray array{name, Extents(dims.begin(), dims.end()), axis_names(dataset.get(), dims.size()),
                       text_attribute(dataset.get(), "units")};
    if (array.axes.empty() && text_attribute(dataset.get(), "CLASS") == "DIMENSION_SCALE" && rank == 1)
      array.axes = {last_part(name)};
    packings_.push_back({number_attribute(dataset.get(), "_FillValue"),
                         number_attribute(dataset.get(), "missing_value"),
                         number_attribute(dataset.get(), "scale_factor").value_or(1),
                         number_attribute(dataset.get(), "add_offset").value_or(0)});
    arrays_.push_back(std::move(array));
    datasets_.push_back(std::move(dataset));
  }

  Handle file_;
  std::vector<Handle> datasets_;
  std::vector<Packing> packings_;
};

bool matches(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*')
    return matches(name, pattern.substr(1)) || (!name.empty() && matches(name.substr(1), pattern));
  return !name.empty() && name.front() == pattern.front() && matches(name.substr(1), pattern.substr(1));
}

/// Numbers within names count as numbers: run2 before run10.
bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto run = [&](const std::string& text, std::size_t& at) {
        while (at + 1 < text.size() && text[at] == '0' && digit(text[at + 1])) ++at;
        const std::size_t begin = at;
        while (at < text.size() && digit(text[at])) ++at;
        return text.substr(begin, at - begin);
      };
      const std::string left = run(a, i), right = run(b, j);
      if (left != right) return left.size() != right.size() ? left.size() < right.size() : left < right;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace

std::unique_ptr<ForeignFile> open_foreign_hdf5(const std::string& path, const std::string& group) {
  return std::make_unique<Hdf5Foreign>(path, group);
}

std::vector<std::string> foreign_groups(const std::string& path, const std::string& pattern) {
  if (file_kind(path) != FileKind::hdf5)
    throw UsageError("{}: has no groups: it is {}, no HDF5 file", path, description(file_kind(path)));
  const auto turn = h5::take_turn();
  const Handle file = open_file(path);
  std::vector<std::string> names;
  const auto collect = [](hid_t group, const char* name, const H5L_info_t*, void* to) -> herr_t {
    const Handle object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
    if (object.get() >= 0 && H5Iget_type(object.get()) == H5I_GROUP)
      static_cast<std::vector<std::string>*>(to)->push_back(name);
    return 0;
  };
  if (H5Literate(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect, &names) < 0)
    throw Error("{}: is a damaged HDF5 file: its groups cannot be listed", path);
  const std::vector<std::string> all = names;
  std::erase_if(names, [&](const std::string& name) { return !matches(name, pattern); });
  if (names.empty())
    throw UsageError("{}: no group matches {}; it has {}", path, pattern,
                     all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", ")));
  std::ranges::sort(names, natural_less);
  return names;
}

}  // namespace mac
