#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace mac {
namespace {

struct Outcome {
  int status;
  std::string output;  // standard output and error
};

Outcome run(const std::string& arguments) {
  FILE* pipe = popen((std::string(MAC_PROGRAM) + " diagnose " + arguments + " 2>&1").c_str(), "r");
  std::string output;
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) output.push_back(static_cast<char>(c));
  return {WEXITSTATUS(pclose(pipe)), output};
}

class DiagnoseCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("mac_diagnose_" + std::to_string(getpid()) + ".toml");
    std::ofstream(path_) << "[system]\nname = 'burgers'\ngrid = 64\n[data]\ndt = 1e-3\nstride = 10\n"
                            "[data.test]\ntrajectories = 2\nhorizon = 0.5\n";
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_;
};

TEST_F(DiagnoseCommand, WritesEverythingAsJson) {
  const Outcome result = run(path_.string() + " --json - --quiet");
  ASSERT_EQ(result.status, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["system"], "burgers");
  EXPECT_LT(json["lyapunov"]["exponent"], 1);
  EXPECT_EQ(json["conservation"]["mass"]["largest_change"], 0);
  EXPECT_EQ(json["spectrum"]["magnitude"][0].size(), 33);
  EXPECT_NEAR(json["convergence"]["order"], 4, 0.2);
  EXPECT_TRUE(json["closure"].contains("m3_psi"));
}

TEST_F(DiagnoseCommand, DoesOnlyWhatIsAsked) {
  const Outcome result = run(path_.string() + " --only spectrum,closure");
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("Spectrum"), std::string::npos);
  EXPECT_NE(result.output.find("m3_psi"), std::string::npos);
  EXPECT_EQ(result.output.find("Lyapunov"), std::string::npos);
}

TEST_F(DiagnoseCommand, ExplainsWrongRequests) {
  const Outcome unknown = run(path_.string() + " --only entropy");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.output.find("entropy"), std::string::npos);
  const Outcome split = run(path_.string() + " --split ood");
  EXPECT_EQ(split.status, 2);
  EXPECT_NE(split.output.find("has no split ood"), std::string::npos);
  EXPECT_NE(run("/nowhere/experiment.toml").status, 0);
}

}  // namespace
}  // namespace mac
