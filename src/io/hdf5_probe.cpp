#include "io/hdf5_probe.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mac/error.hpp>
#include <optional>
#include <vector>

#include "io/file_version.hpp"

namespace mac::h5 {

namespace {

// What the child may take: much more than it needs, unless the file is nothing but compressed zeros.
constexpr rlim_t seconds_at_least = 2, bytes_a_second = 2'000'000;
constexpr rlim_t memory_at_least = 1 << 30, memory_a_byte = 4;
constexpr std::size_t read_at_once = 1 << 22;  // bytes

/// What is wrong with a file; empty: nothing.
using Complaint = std::string;

/// An identifier that closes itself. Not h5::Handle, which takes turns: in a forked child the lock would be held
/// by a thread that is not there.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// Bytes of an array in memory; nothing where they are more than the file can hold, even compressed.
std::optional<std::size_t> bytes_in_memory(hid_t space, std::size_t element, std::uintmax_t file_bytes) {
  constexpr std::size_t most_deflated = 1032;
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  if (count < 0 || element == 0) return std::nullopt;
  if (static_cast<std::uintmax_t>(count) > file_bytes * most_deflated / element) return std::nullopt;
  return static_cast<std::size_t>(count) * element;
}

/// Reads an attribute as a reader would, and forgets it.
herr_t read_attribute(hid_t object, const char* name, const H5A_info_t*, void* file_bytes) {
  const Id attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose);
  const Id type(H5Aget_type(attribute.get()), H5Tclose);
  const Id space(H5Aget_space(attribute.get()), H5Sclose);
  const std::size_t element = H5Tget_size(type.get());
  const auto bytes = bytes_in_memory(space.get(), element, *static_cast<std::uintmax_t*>(file_bytes));
  if (!bytes || *bytes == 0) return 0;
  std::vector<char> values(*bytes);
  if (H5Aread(attribute.get(), type.get(), values.data()) >= 0 && H5Tdetect_class(type.get(), H5T_VLEN) > 0)
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values.data());
  return 0;
}

/// Reads a data set from end to end, some rows at a time; of numbers the first rows alone, unless `all`.
void read_dataset(hid_t dataset, std::uintmax_t file_bytes, bool all) {
  const Id type(H5Dget_type(dataset), H5Tclose);
  const Id space(H5Dget_space(dataset), H5Sclose);
  const std::size_t element = H5Tget_size(type.get());
  const auto bytes = bytes_in_memory(space.get(), element, file_bytes);
  if (!bytes || *bytes == 0) return;
  std::vector<hsize_t> extent(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.get())));
  H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  const bool pointers = H5Tdetect_class(type.get(), H5T_VLEN) > 0 || H5Tis_variable_str(type.get()) > 0;
  const hsize_t rows = extent.empty() ? 1 : extent[0], row = *bytes / rows;
  const std::size_t at_once = all || pointers ? read_at_once : 1;
  const hsize_t most = std::clamp<hsize_t>(at_once / std::max<hsize_t>(row, 1), 1, rows);
  std::vector<char> values(row * most);
  std::vector<hsize_t> start(extent.size()), count = extent;
  for (hsize_t first = 0; first < rows; first += most) {
    if (!extent.empty()) {
      start[0] = first;
      count[0] = std::min(most, rows - first);
      H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    }
    const Id block(extent.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr),
                   H5Sclose);
    if (H5Dread(dataset, type.get(), block.get(), space.get(), H5P_DEFAULT, values.data()) < 0) return;
    if (pointers) H5Dvlen_reclaim(type.get(), block.get(), H5P_DEFAULT, values.data());
    if (!all && !pointers) return;
  }
}

struct Walk {
  std::uintmax_t file_bytes = 0;
  bool all = false;  // of the numbers
  Complaint complaint = {};
};

herr_t visit(hid_t group, const char* name, const H5L_info_t* link, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  if (link->type == H5L_TYPE_SOFT) return 0;  // leads to another name of this file
  if (link->type != H5L_TYPE_HARD) {
    walk.complaint = fmt::format("has an external link, /{}: other files are not opened", name);
    return 1;
  }
  const Id object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
  if (object.get() < 0) return 0;  // whoever needs it will say so
  H5Aiterate2(object.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, read_attribute, &walk.file_bytes);
  if (H5Iget_type(object.get()) != H5I_DATASET) return 0;
  const Id properties(H5Dget_create_plist(object.get()), H5Pclose);
  if (H5Pget_external_count(properties.get()) > 0 || H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    walk.complaint = fmt::format("has /{} stored in another file, which is not opened", name);
    return 1;
  }
  read_dataset(object.get(), walk.file_bytes, walk.all);
  return 0;
}

Complaint walk(const std::string& path, bool all) {
  const Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (file.get() < 0) return {};  // as above
  std::error_code unknown;
  Walk walk{std::filesystem::file_size(path, unknown), all};
  H5Aiterate2(file.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, read_attribute, &walk.file_bytes);
  H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &walk);
  return walk.complaint;
}

void limit(int resource, rlim_t most) {
  rlimit now = {};
  getrlimit(resource, &now);
  now.rlim_cur = std::min(most, now.rlim_max);
  setrlimit(resource, &now);
}

/// Pages of this process, in bytes.
rlim_t memory_now() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void look_in_child(const std::string& path, bool all, rlim_t file_bytes, int answer) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGALRM, SIGTERM, SIGINT})
    std::signal(signal, SIG_DFL);
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  limit(RLIMIT_CORE, 0);
  const rlim_t seconds = seconds_at_least + file_bytes / bytes_a_second;
  limit(RLIMIT_CPU, seconds);
  ::alarm(static_cast<unsigned>(10 * seconds));  // waits without computing
  limit(RLIMIT_AS, memory_now() + memory_at_least + memory_a_byte * file_bytes);
  Complaint complaint;
  try {
    complaint = walk(path, all);
  } catch (const std::exception&) {  // no memory for what a damaged file asks for: readers check before
  }
  const ssize_t said = ::write(answer, complaint.data(), complaint.size());
  _exit(said == static_cast<ssize_t>(complaint.size()) ? 0 : 1);
}

Complaint ask_child(const std::string& path, bool all) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error("{}: cannot be looked at: {}", path, std::strerror(errno));
  const rlim_t file_bytes = std::filesystem::file_size(path);
  const pid_t child = ::fork();
  if (child == 0) look_in_child(path, all, file_bytes, ends[1]);
  const int failure = errno;
  ::close(ends[1]);
  Complaint complaint;
  char buffer[512];
  for (ssize_t count; child > 0 && (count = ::read(ends[0], buffer, sizeof buffer)) != 0;) {
    if (count > 0) complaint.append(buffer, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  if (child < 0) throw Error("{}: cannot be looked at: {}", path, std::strerror(failure));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return complaint;  // somebody else waits for all children
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (signal == SIGXCPU || signal == SIGALRM || signal == SIGKILL)
    return "is damaged: reading it does not come to an end";
  if (signal != 0) return "is damaged: reading it crashes HDF5";
  return complaint;
}

SeenFiles& harmless() {
  static SeenFiles the;
  return the;
}

}  // namespace

void check_structure(const std::string& path, bool has_digest) {
  const FileVersion version = version_of(path);
  if (harmless().contains(version)) return;
  const Complaint complaint = ask_child(path, !has_digest);
  if (!complaint.empty()) throw Error("{}: {}", path, complaint);
  harmless().insert(version);
}

void trust_structure(const std::string& path) { harmless().insert(version_of(path)); }

}  // namespace mac::h5
