// HDF5 files of others cannot take the program down, nor lead it out of the file.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <mac/error.hpp>

#include "cli/command_line.hpp"
#include "data/split_group.hpp"
#include "io/file_digest.hpp"
#include "io/hdf5.hpp"

namespace mac {
namespace {

using test::CommandLine;
using test::ProgramResult;

class ForeignHdf5 : public CommandLine {
 protected:
  /// A file in the oldest format, filled by `fill(file)`.
  template <class Fill>
  std::string make(const std::string& name, Fill&& fill) {
    const h5::Handle made(H5Fcreate(file(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
    fill(made.get());
    return file(name);
  }
  void expect_refused(const std::string& path, const std::string& message) {
    try {
      h5::File::open(path);
      ADD_FAILURE() << path << ": no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path + ": " + message), std::string::npos) << error.what();
    }
  }
};

TEST_F(ForeignHdf5, WithLinksToOtherFilesIsRefused) {
  const std::string path = make("linked.h5", [](hid_t made) {
    H5Lcreate_external("/etc/other.h5", "/x", made, "x", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused(path, "has an external link, /x");
}

TEST_F(ForeignHdf5, WithDataInOtherFilesIsRefused) {
  const hsize_t size = 4;
  const h5::Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
  const std::string path = make("outside.h5", [&](hid_t made) {
    const h5::Handle group(H5Gcreate2(made, "test", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    const h5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_external(properties.get(), "/etc/passwd", 0, 32);
    const h5::Handle time(H5Dcreate2(group.get(), "time", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT,
                                     properties.get(), H5P_DEFAULT),
                          H5Dclose);
  });
  expect_refused(path, "has /test/time stored in another file");
  const std::string virtual_path = make("virtual.h5", [&](hid_t made) {
    const h5::Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_virtual(properties.get(), space.get(), "/etc/other.h5", "/x", space.get());
    const h5::Handle time(
        H5Dcreate2(made, "time", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
        H5Dclose);
  });
  expect_refused(virtual_path, "has /time stored in another file");
}

TEST_F(ForeignHdf5, ThatIsSoundIsRead) {
  const hsize_t size = 3;
  const h5::Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
  const double values[] = {1, 2, 3};
  const std::string path = make("sound.h5", [&](hid_t made) {
    const h5::Handle dataset(
        H5Dcreate2(made, "x", H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    const h5::Handle text(H5Tcopy(H5T_C_S1), H5Tclose);  // of variable length, in a heap
    H5Tset_size(text.get(), H5T_VARIABLE);
    const h5::Handle labels(
        H5Dcreate2(made, "labels", text.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    const char* const words[] = {"one", "two", "three"};
    H5Dwrite(labels.get(), text.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, words);
  });
  const h5::File found = h5::File::open(path);
  EXPECT_EQ(found.dataset("/x").read_all(), std::vector<double>({1, 2, 3}));
  EXPECT_EQ(found.read_text("/labels"), std::vector<std::string>({"one", "two", "three"}));
}

// Made by scripts/attack hdf5: HDF5 1.10 reads one out of bounds and the other for ever.
TEST_F(ForeignHdf5, ThatCrashesOrHangsHdf5IsAnError) {
  for (const char* name : {"hdf5_crash.h5", "hdf5_hang.h5"}) {
    const ProgramResult result = mac(std::string("info " MAC_TEST_DATA "/") + name, "timeout 60");
    EXPECT_EQ(result.exit_code, 1) << name << "\n" << result.output;
    EXPECT_EQ(result.output.find("mac: "), 0u) << result.output;
  }
}

// A digest is no signature: whoever made the file can have given it one.
TEST_F(ForeignHdf5, ThatCrashesOrHangsHdf5IsAnErrorWithADigestAsWell) {
  for (const char* name : {"hdf5_crash.h5", "hdf5_hang.h5"}) {
    test::write_bytes(file(name), test::read_bytes(std::string(MAC_TEST_DATA "/") + name));
    append_digest(file(name), name);
    const ProgramResult result = mac(std::string("info @/") + name, "timeout 60");
    EXPECT_EQ(result.exit_code, 1) << name << "\n" << result.output;
    EXPECT_NE(result.output.find("is damaged: reading it "), std::string::npos) << result.output;
  }
}

TEST(Times, AreFiniteIncreasingAndSpacedAsTheExperimentSays) {
  const auto message = [](const std::vector<double>& time) -> std::string {
    try {
      check_times("data.h5", "test", time, 0.1);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message({0, 0.1, 0.2, 0.30000000000000004}), "");
  EXPECT_EQ(message({1e6, 1e6 + 0.1, 1e6 + 0.2}), "");
  EXPECT_EQ(message({0, 0.1, std::nan("")}), "data.h5: /test/time holds nan at 2");
  EXPECT_EQ(message({0, 0.1, 0.1}), "data.h5: /test/time does not increase: 0.1 follows 0.1");
  EXPECT_NE(
      message({0, 0.1, 0.3}).find("goes from 0.1 to 0.3, the experiment's closure step (dt * stride) is 0.1"),
      std::string::npos);
}

}  // namespace
}  // namespace mac
