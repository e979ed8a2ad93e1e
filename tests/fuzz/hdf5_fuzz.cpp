// Files of ours with anything in their places: the bytes say for every attribute, text and array of a data file or a
// rollout whether it is as it should be, missing, of another shape or of another content. HDF5 itself is sound and has
// its digest, so that what is read is what our readers make of it. Zeros, or no bytes: a sound file, which is read.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <span>

#include "io/hdf5.hpp"
#include "rollout/rollout_file.hpp"

namespace {

using Dims = std::vector<std::size_t>;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The input, byte by byte; zeros when it has come to its end.
class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }
  std::string text() {
    const std::size_t asked = std::size_t{byte()} * 4, size = std::min(asked, bytes_.size());
    std::string text(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return text;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

enum Change { missing = 1, shape, content };

const std::string experiment = R"([system]
name = "recorded"
resolved = ["x", "y"]
targets = ["y"]
equations = "zero"
[data]
dt = 0.5
parameters = ["nu"]
forcing = ["f"]
[data.train]
trajectories = 2
horizon = 1
[data.test]
trajectories = 1
horizon = 1
)";
const std::string description =
    R"({"name":"recorded","resolved":["x","y"],"closure":["C_y"],"targets":[1],"symmetries":[],"time_unit":"1",)"
    R"("fourier_modes":0,"constants":{},"lattices":[]})";

class Writer {
 public:
  Writer(mac::h5::File& file, Choices& choices) : file_(file), choices_(choices) {}

  void attribute(const std::string& object, const std::string& name, const std::string& value) {
    const std::uint8_t change = choices_.byte();
    if (change == missing) return;
    if (change == shape) return file_.set_attribute(object, name, std::vector{value, value});
    file_.set_attribute(object, name, change == content ? choices_.text() : value);
  }
  void number(const std::string& object, const std::string& name, std::uint64_t value) {
    const std::uint8_t change = choices_.byte();
    if (change == missing) return;
    if (change == shape) return file_.set_attribute(object, name, "seven");
    file_.set_attribute(object, name, change == content ? std::uint64_t{choices_.byte()} : value);
  }
  void text(const std::string& name, std::vector<std::string> values) {
    const std::uint8_t change = choices_.byte();
    if (change == missing) return;
    if (change == shape) values.resize(choices_.byte() % 5);
    if (change == content && !values.empty()) values.front() = choices_.text();
    file_.write_text(name, values);
  }
  void array(const std::string& name, Dims dims, std::vector<double> values = {}) {
    const std::uint8_t change = choices_.byte();
    if (change == missing) return;
    if (change == shape) {
      dims.resize(1 + choices_.byte() % 4);
      for (std::size_t& n : dims) n = choices_.byte() % 6;
    }
    mac::h5::Dataset dataset = file_.create_dataset(name, dims);
    std::size_t size = 1;
    for (const std::size_t n : dims) size *= n;
    values.resize(size, 0.25);
    static constexpr std::array odd{0.0, -1.0, 1e300, -1e300, HUGE_VAL, nan, 0.5, 4e9};
    if (change == content && size > 0) values[choices_.byte() % size] = odd[choices_.byte() % odd.size()];
    if (size > 0) dataset.write(Dims(dims.size(), 0), dims, values.data());
  }

 private:
  mac::h5::File& file_;
  Choices& choices_;
};

void write_split(mac::h5::File& file, Writer& write, const std::string& name, std::size_t n, bool rollout) {
  const std::string group = "/" + name;
  file.create_group(group);
  write.text(group + "/labels", std::vector<std::string>(n, "a"));
  write.array(group + "/time", {3}, {0, 0.5, 1});
  write.array(group + "/resolved", {n, 3, 2});
  write.array(group + "/closure", {n, 3, 1});
  write.array(group + "/parameters", {n, 1});
  if (!rollout) {
    write.array(group + "/closure_mean", {n, 2, 1});
    write.array(group + "/inputs", {n, 3, 1});
    return;
  }
  write.array(group + "/blow_up_time", {n}, std::vector(n, nan));
  write.array(group + "/memory", {n, 4});
  write.array(group + "/true_resolved", {n, 3, 2});
  write.array(group + "/true_closure", {n, 3, 1});
  file.create_group(group + "/members");
  write.number(group + "/members", "count", 2);
  write.array(group + "/members/resolved", {2 * n, 3, 2});
  write.array(group + "/members/closure", {2 * n, 3, 1});
  write.array(group + "/members/blow_up_time", {2 * n}, std::vector(2 * n, nan));
  write.array(group + "/members/memory", {2 * n, 4});
}

void write_file(const std::string& path, Choices choices) {
  mac::h5::File file = mac::h5::File::create(path);
  Writer write(file, choices);
  const bool rollout = choices.byte() % 2 == 1;
  file.set_attribute("/", "mac_kind", std::string(rollout ? "rollout" : "data"));
  write.attribute("/", "experiment", experiment);
  write.attribute("/", "system", "recorded");
  write.text("/system_description", {description});
  if (rollout) {
    write.attribute("/", "model", "mac");
    write.attribute("/", "hold", "zero");
    write.attribute("/", "target", "instant");
    write.attribute("/", "precision", "float32");
    write.number("/", "noise_seed", 1);
    write.array("/training_range", {2, 2});
    write.array("/parameter_range", {2, 1});
  } else {
    write_split(file, write, "train", 2, false);
  }
  write_split(file, write, "test", 1, rollout);
  file.close();
}

void read_data(const std::string& path) {
  const mac::DataFile data = mac::DataFile::open(path);
  for (const std::string& name : data.splits()) {
    const mac::DataSplit split = data.split(name);
    std::vector<double> values(split.times() * (split.resolved_size() + split.closure_size() + 2));
    for (std::size_t i = 0; i < split.trajectories(); ++i) {
      split.read_resolved(i, 0, split.times(), values.data());
      split.read_closure(i, 0, split.times(), values.data());
      split.read_closure_mean(i, 0, split.times() - 1, values.data());
      if (split.input_names().size() <= 2) split.read_inputs(i, 0, split.times(), values.data());
    }
  }
  data.training_range();
  data.parameter_range();
}

}  // namespace

namespace {

/// A file of this process; HDF5 takes none that has only a descriptor, as fuzz::MemoryFile.
class ScratchFile {
 public:
  ScratchFile() {
    const int descriptor = mkstemp(path_.data());
    if (descriptor < 0) std::abort();
    close(descriptor);
  }
  ~ScratchFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ =
      std::string(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + "/mac-hdf5-fuzz-XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ScratchFile file;
  const bool rollout = size > 0 && data[0] % 2 == 1,
             sound = std::all_of(data + std::min<std::size_t>(size, 1), data + size,
                                 [](std::uint8_t byte) { return byte == 0; });
  try {
    write_file(file.path(), Choices({data, size}));
  } catch (const mac::Error&) {  // two names alike, an attribute that is too long: no file of ours
    if (sound) std::abort();
    return 0;
  }
  const auto read = [&](bool expected, const auto& reader) {
    try {
      reader(file.path());
    } catch (const mac::Error& error) {
      if (expected) std::fprintf(stderr, "%s\n", error.what()), std::abort();
    }
  };
  read(sound && !rollout, read_data);
  read(sound && rollout, [](const std::string& path) { mac::RolloutFile::open(path); });
  return 0;
}
