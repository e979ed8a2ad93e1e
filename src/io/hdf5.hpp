// A thin, checked layer over the HDF5 C library: handles that close themselves, errors that name file and
// object, and nothing that depends on the clock, so that equal content gives equal bytes.
//
// HDF5 loses a failed write without a word: data wait in its caches, and closing a dataset on a full disk
// frees them. So a file that was written is read again before it counts as finished, block by block.
//
// A finished file ends with a digest of itself, which is checked before HDF5 sees the file again. Then a child process
// looks at it first (hdf5_probe.hpp).
//
// Threads that call into this file take turns, since not every HDF5 is thread-safe.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mac {
class AtomicFile;
}

namespace mac::h5 {

/// Any HDF5 identifier; closes itself.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;

  hid_t get() const { return id_; }
  herr_t reset();  // closes now; negative when that failed

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Whoever calls HDF5 takes the turn first: it is thread-safe only where it was built to be. Where it is,
/// every thread has its own error stack, which prints itself unless told not to; our errors go to the user in
/// our words. Its clean-up at exit crashes on a file whose last write failed (a full disk); handles close
/// themselves, so it has nothing to do there.
[[nodiscard]] std::unique_lock<std::recursive_mutex> take_turn();

/// What was written to a file: the blocks of its datasets, each with a hash of its bytes.
struct Written;

/// A dataset of doubles with any number of axes, read and written by blocks.
class Dataset {
 public:
  Dataset(Handle handle, std::string where, std::shared_ptr<Written> written = nullptr);
  ~Dataset();  // where closing fails, so does that of the file
  Dataset(Dataset&&) noexcept = default;
  Dataset& operator=(Dataset&&) noexcept = default;

  const std::vector<std::size_t>& dims() const { return dims_; }
  /// The block that starts at `start` and has `count` elements along each axis.
  void write(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count,
             const double* data);
  void read(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count, double* data) const;
  std::vector<double> read_all() const;

  void set_attribute(const std::string& name, const std::string& value);
  void set_attribute(const std::string& name, const std::vector<std::string>& values);
  std::vector<std::string> strings_attribute(const std::string& name) const;

 private:
  Handle select(const std::vector<std::size_t>& start, const std::vector<std::size_t>& count) const;
  Handle handle_;
  std::string where_;  // "file: /group/dataset", for messages
  std::vector<std::size_t> dims_;
  std::shared_ptr<Written> written_;  // of a file that is being written
};

class File {
 public:
  static File create(const std::string& path);   // an empty file, replacing what is there
  static File create(const AtomicFile& target);  // the same at its temporary path; errors name the final one
  static File open(const std::string& path);     // read only; Error if missing, damaged or not HDF5

  /// Of a file that was created: flushes, closes it with all its datasets, and reads it again; Error if not
  /// everything reached the file. The destructor closes without a check.
  void close();

  const std::string& path() const { return path_; }
  bool has(const std::string& name) const;    // a group or dataset "/test/resolved"
  std::vector<std::string> groups() const;    // directly below the root, by name
  std::vector<std::string> datasets() const;  // everywhere, "/test/resolved"

  void create_group(const std::string& name);
  /// In compressed chunks of the given shape, or as it is where there is none; every chunk has a checksum.
  Dataset create_dataset(const std::string& name, const std::vector<std::size_t>& dims,
                         const std::vector<std::size_t>& chunk = {});
  Dataset dataset(const std::string& name) const;
  /// A one-dimensional dataset of text, for lists too long for an attribute.
  void write_text(const std::string& name, const std::vector<std::string>& values);
  std::vector<std::string> read_text(const std::string& name) const;
  bool is_text(const std::string& name) const;  // of a dataset that is there

  void set_attribute(const std::string& object, const std::string& name, const std::string& value);
  void set_attribute(const std::string& object, const std::string& name,
                     const std::vector<std::string>& values);
  void set_attribute(const std::string& object, const std::string& name, double value);
  void set_attribute(const std::string& object, const std::string& name, std::uint64_t value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string string_attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> strings_attribute(const std::string& object, const std::string& name) const;
  double number_attribute(const std::string& object, const std::string& name) const;
  std::uint64_t integer_attribute(const std::string& object, const std::string& name) const;

 private:
  File(Handle handle, std::string path, std::shared_ptr<Written> written = nullptr);
  static File create(const std::string& path, const std::string& name);
  Handle open_object(const std::string& name) const;
  Handle create_object(const std::string& name, hid_t type, const std::vector<std::size_t>& dims,
                       const std::vector<std::size_t>& chunk) const;
  Handle handle_;
  std::string path_;                  // for messages
  std::shared_ptr<Written> written_;  // of a file that is being written
};

}  // namespace mac::h5
