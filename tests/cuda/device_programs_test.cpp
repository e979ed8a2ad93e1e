// Hosts on a GPU as other projects write them, in C99 and Fortran, over libmac_runtime_cuda.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/cuda.hpp>
#include <regex>

#include "runtime/closure_file.hpp"
#include "support/program.hpp"

namespace mac::test {
namespace {

const std::string library = MAC_BUILD_FOLDER "/libmac_runtime_cuda.so";

/// What a program says of a closure; where there is no device, its sentence.
void steps_as_the_cpu(const std::string& name) {
  const std::string program = MAC_BUILD_FOLDER "/tests/programs/" + name;
  if (!std::filesystem::exists(program)) GTEST_SKIP() << name << " is not built";
  const ScratchFolder folder;
  const ProgramResult result =
      run_command(program + " " + write_closure(folder, burgers_closure(LayerKind::mamba)) + " 37 2>&1");
  if (const std::string reason = cuda_unavailable(); !reason.empty()) {
    EXPECT_EQ(result.exit_code, 1) << result.output;
    EXPECT_NE(result.output.find(reason), std::string::npos) << result.output;
    GTEST_SKIP() << reason;
  }
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_LT(std::stod(result.output), 2e-6);  // closures of order 0.1, networks in float32
}

TEST(CudaProgram, InCStepsAsTheCpu) { steps_as_the_cpu("device_c"); }
TEST(CudaProgram, InFortranStepsAsTheCpu) { steps_as_the_cpu("device_fortran"); }

TEST(DeviceLibrary, ShowsTheCInterfaceAndNeedsNothingBeyondTheCxxLibrary) {
  const std::string symbols = run_command("nm -D --defined-only " + library).output;
  std::size_t functions = 0;
  std::istringstream lines(symbols);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(std::regex_search(line, std::regex("( T mac_[a-z_]+@@MAC_0\\.1| A MAC_0\\.1)$"))) << line;
    functions += line.find(" T mac_device") != std::string::npos;
  }
  EXPECT_GT(functions, 10u);
  std::istringstream needed(run_command("objdump -p " + library + " | grep NEEDED").output);
  for (std::string line; std::getline(needed, line);)
    EXPECT_TRUE(std::regex_search(line, std::regex("(libstdc\\+\\+|libm|libgcc_s|libc|ld-linux[^.]*)\\.so")))
        << line;
}

}  // namespace
}  // namespace mac::test
