// mac new-system: each skeleton is written, compiled against this tree, and its study runs to a report.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac {
namespace {

class NewSystem : public ::testing::TestWithParam<std::string> {
 protected:
  std::string file(const std::string& name) const { return folder_.file("mine/" + name); }
  test::ScratchFolder folder_;
};

TEST_P(NewSystem, CompilesAndItsStudyRunsToAReport) {
  const std::string kind = GetParam();
  if (kind == "fortran" && std::system("gfortran --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no gfortran";
  const auto made = test::run_program("new-system mine --" + kind + " -o " + folder_.file("mine"));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  // As it is but for the length of the training, which shows nothing here.
  std::string study = test::read_bytes(file("mine.toml"));
  ASSERT_NE(study.find("steps = 300"), std::string::npos);
  test::write_bytes(file("mine.toml"), study.replace(study.find("steps = 300"), 11, "steps = 5"));
  const std::string test =
      kind == "equations" ? "sh " + file("test.sh") : "make -s -C " + folder_.file("mine") + " test";
  const std::string log = folder_.file("log");
  const int failed = std::system(("MAC=" MAC_PROGRAM " " + test + " > " + log + " 2>&1").c_str());
  const std::string said = test::read_bytes(log);
  EXPECT_EQ(failed, 0) << said;
  EXPECT_NE(said.find("mine: passed"), std::string::npos) << said;
  EXPECT_NE(said.find("verdict: mac:"), std::string::npos) << said;
  EXPECT_TRUE(std::filesystem::exists(file("README.md")));
  EXPECT_EQ(test::read_bytes(file("README.md")).find('@'), std::string::npos) << "a placeholder is left";
}

INSTANTIATE_TEST_SUITE_P(Skeletons, NewSystem, ::testing::Values("equations", "cpp", "c", "fortran"),
                         [](const auto& info) { return info.param; });

TEST(NewSystemCommand, RefusesNamesAndFoldersThatAreTaken) {
  const test::ScratchFolder folder;
  const auto message = [&](const std::string& arguments) {
    const auto result = test::run_program("new-system " + arguments + " -o " + folder.file("new"));
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
    return result.output;
  };
  EXPECT_NE(message("kdv").find("there is a system \"kdv\" already"), std::string::npos);
  for (const char* name : {"My-System", "../mine", "a/b", "a.b", "'a b'", "'a\"b'", "9lives", "''"})
    EXPECT_NE(message(name).find("is no name of a system"), std::string::npos) << name;
  EXPECT_NE(message("mine --c --cpp").find("excludes"), std::string::npos);
  const auto taken = test::run_program("new-system mine -o " + folder.path().string());
  EXPECT_EQ(taken.exit_code, 2);
  EXPECT_NE(taken.output.find("exists already"), std::string::npos) << taken.output;
}

TEST(NewSystemCommand, PluginsOfAnotherVersionAreRefused) {
  const test::ScratchFolder folder;
  test::write_bytes(folder.file("old.c"),
                    "const char* mac_own_plugin_version(void) { return \"plug-ins 0\"; }\n"
                    "void mac_own_plugin_register(void) {}\n");
  ASSERT_EQ(
      std::system(("cc -shared -fPIC " + folder.file("old.c") + " -o " + folder.file("libold.so")).c_str()),
      0);
  const auto result = test::run_program("--plugin " + folder.file("libold.so") + " info x.h5");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("libold.so: was made for plug-ins 0, this program has plug-ins 1"),
            std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace mac
