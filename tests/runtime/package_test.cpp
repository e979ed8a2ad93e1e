// The runtime as a package: what the shared library needs and shows, and projects outside the tree that use
// the installed files.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "runtime/closure_file.hpp"
#include "support/program.hpp"

namespace mac::test {
namespace {

const std::string library = MAC_BUILD_FOLDER "/libmac_runtime.so";

std::vector<std::string> lines(const std::string& command) {
  const ProgramResult result = run_command(command + " 2>&1");
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output;
  std::vector<std::string> out;
  std::istringstream text(result.output);
  for (std::string line; std::getline(text, line);) out.push_back(line);
  return out;
}

TEST(RuntimeLibrary, ShowsOnlyItsCInterface) {
  std::size_t functions = 0;
  for (const std::string& line : lines("nm -D --defined-only " + library)) {
    EXPECT_TRUE(std::regex_search(line, std::regex("( T mac_[a-z_]+@@MAC_0\\.1| A MAC_0\\.1)$"))) << line;
    functions += line.find(" T ") != std::string::npos;
  }
  EXPECT_GT(functions, 30u);
}

TEST(RuntimeLibrary, NeedsNothingBeyondTheCxxLibrary) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers are libraries too";
#endif
  const std::regex allowed("NEEDED.*(libstdc\\+\\+|libm|libgcc_s|libc|ld-linux[^.]*)\\.so");
  for (const std::string& line : lines("objdump -p " + library))
    if (line.find("NEEDED") != std::string::npos) {
      EXPECT_TRUE(std::regex_search(line, allowed)) << line;
    }
}

TEST(RuntimeLibrary, IsUnderOneMegabyteAndHasAVersionedName) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "instrumented code is larger";
#endif
  const ScratchFolder folder;
  lines("strip -o " + folder.file("stripped.so") + " " + library);
  EXPECT_LT(std::filesystem::file_size(folder.file("stripped.so")), 1000000u);
  EXPECT_EQ(lines("objdump -p " + library + " | grep -c 'SONAME.*libmac_runtime.so.0'").front(), "1");
}

/// Installs into a scratch folder once for all tests.
class Installed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ScratchFolder>();
    lines("cmake --install " MAC_BUILD_FOLDER " --prefix " + folder_->file("prefix"));
    model_ = write_closure(*folder_, burgers_closure(LayerKind::mamba));
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static std::unique_ptr<ScratchFolder> folder_;
  static std::string model_;
  const std::string consumer_ = MAC_SOURCE_FOLDER "/tests/runtime/consumer";
};
std::unique_ptr<ScratchFolder> Installed::folder_;
std::string Installed::model_;

TEST_F(Installed, ServesAnotherProjectByCMake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the other project would need the sanitizers as well";
#endif
  const std::string build = folder_->file("consumer");
  lines("cmake -G Ninja -S " + consumer_ + " -B " + build +
        " -DCMAKE_PREFIX_PATH=" + folder_->file("prefix"));
  lines("cmake --build " + build);
  const std::string closure = lines(build + "/full " + model_).front();
  EXPECT_EQ(lines(build + "/solver_c " + model_).front(), closure);
  EXPECT_EQ(lines(build + "/solver_static " + model_).front(), closure);
  if (std::filesystem::exists(build + "/solver_cuda")) {
    EXPECT_EQ(lines(build + "/solver_cuda " + model_).front(), closure);
  }
  if (std::filesystem::exists(build + "/solver_fortran")) {
    EXPECT_EQ(std::stod(lines(build + "/solver_fortran " + model_).front()), std::stod(closure));
  }
}

TEST_F(Installed, ServesAProjectInCAloneStatically) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the other project would need the sanitizers as well";
#endif
  const std::string build = folder_->file("c_only");
  lines("cmake -G Ninja -S " + consumer_ + "/c_only -B " + build +
        " -DCMAKE_PREFIX_PATH=" + folder_->file("prefix"));
  lines("cmake --build " + build);
  EXPECT_FALSE(lines(build + "/solver_c_static " + model_).empty());
}

TEST_F(Installed, BringsLicenceAndExperimentsThatFindTheirModels) {
  const std::string share = folder_->file("prefix/share/");
  EXPECT_TRUE(std::filesystem::exists(share + "doc/mac/LICENSE"));
  EXPECT_TRUE(std::filesystem::exists(share + "mac/experiments/burgers.toml"));
  const std::string study = read_bytes(share + "mac/experiments/zoo/paper/kdv.toml");
  std::smatch model;
  ASSERT_TRUE(std::regex_search(study, model, std::regex("file = \"(.*)\"")));
  EXPECT_TRUE(std::filesystem::exists(share + "mac/experiments/zoo/paper/" + model[1].str()));
}

TEST_F(Installed, ServesAnotherProjectByPkgConfig) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the other project would need the sanitizers as well";
#endif
  const std::string prefix = folder_->file("prefix");
  const std::string pc = run_command("find " + prefix + " -name mac-runtime.pc -printf %h").output;
  const std::string ask = "$(PKG_CONFIG_PATH=" + pc + " pkg-config ", config = ask + "--cflags --libs ";
  const std::string out = folder_->file("solver");
  const std::string rpath = " -Wl,-rpath," + ask + "--variable=libdir mac-runtime)";
  lines("cc -o " + out + "_c " + consumer_ + "/solver.c " + config + "mac-runtime)" + rpath);
  lines("c++ -std=c++20 -o " + out + "_cpp " + consumer_ + "/solver.cpp " + config + "mac-runtime)" + rpath);
  lines("c++ -std=c++20 -o " + out + "_full " + consumer_ + "/full.cpp " + config + "mac)");
  const std::string closure = lines(out + "_full " + model_).front();
  EXPECT_EQ(lines(out + "_c " + model_).front(), closure);
  EXPECT_EQ(lines(out + "_cpp " + model_).front(), closure);
  if (std::filesystem::exists(pc + "/mac-runtime-cuda.pc")) {
    lines("cc -o " + out + "_cuda " + consumer_ + "/solver.c " + config + "mac-runtime-cuda)" + rpath);
    EXPECT_EQ(lines(out + "_cuda " + model_).front(), closure);
  }
  if (std::filesystem::exists(pc + "/mac-fortran.pc")) {
    lines("gfortran -o " + out + "_fortran " + consumer_ + "/solver.f90 " + config + "mac-fortran)" + rpath);
    EXPECT_EQ(std::stod(lines(out + "_fortran " + model_).front()), std::stod(closure));
  }
}

}  // namespace
}  // namespace mac::test
