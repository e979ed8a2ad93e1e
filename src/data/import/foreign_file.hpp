// Files that other programs wrote, all seen in one way: arrays of numbers with names, read by blocks. A block
// takes the memory of its numbers, however large the file is.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace mac {

using Extents = std::vector<std::size_t>;

struct ForeignArray {
  std::string name;
  Extents dims;
  std::vector<std::string> axes = {};  // names of the axes; empty where the file has none
  std::string units = {};
};

class ForeignFile {
 public:
  virtual ~ForeignFile() = default;
  const std::string& path() const { return path_; }
  const std::vector<ForeignArray>& arrays() const { return arrays_; }
  /// What a file holds beside numbers, for messages: "note (text)".
  const std::vector<std::string>& others() const { return others_; }

  /// The block of array `index` from `start` with `count` elements along each axis, the last axis fastest. What
  /// the file calls missing is NaN.
  virtual void read(std::size_t index, const Extents& start, const Extents& count, double* out) = 0;

 protected:
  explicit ForeignFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::vector<ForeignArray> arrays_;
  std::vector<std::string> others_;
};

/// By the file's first bytes: .npy, .npz, HDF5 and NetCDF-4, classic NetCDF; any other text is CSV. `group`
/// restricts an HDF5 file to what lies in that group.
std::unique_ptr<ForeignFile> open_foreign(const std::string& path, const std::string& group = "");

/// The groups at the root of an HDF5 file whose names match `pattern`, in which * stands for any characters; in
/// natural order: run2 before run10.
std::vector<std::string> foreign_groups(const std::string& path, const std::string& pattern);

// Each kind of file.
std::unique_ptr<ForeignFile> open_npy(const std::string& path);
std::unique_ptr<ForeignFile> open_npz(const std::string& path);
std::unique_ptr<ForeignFile> open_foreign_hdf5(const std::string& path, const std::string& group);
std::unique_ptr<ForeignFile> open_classic_netcdf(const std::string& path);
std::unique_ptr<ForeignFile> open_csv(const std::string& path);

}  // namespace mac
