// The commit that the program gives as its own, and writes into every file.
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/program.hpp"

namespace mac::test {
namespace {

TEST(Version, SaysThatTheTreeHasChangesOnTopOfTheCommit) {
  const ScratchFolder folder;
  const std::string tree = folder.path().string(),
                    git = "git -C " + tree + " -c user.name=a -c user.email=a@b ";
  const auto commit = [&] {
    const ProgramResult result = run_command(
        "cmake -DSOURCE_DIR=" + tree + " -DVERSION=1 -DOUTPUT=" + folder.file("version.cpp") +
        " -P " MAC_SOURCE_FOLDER "/cmake/write_version.cmake && grep -o 'commit() { return [^;]*' " +
        folder.file("version.cpp") + " | cut -d'\"' -f2 | tr -d '\\n'");
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  EXPECT_EQ(commit(), "unknown");
  write_bytes(folder.file("file"), "as committed");
  ASSERT_EQ(
      run_command(git + "init -q && " + git + "add file && " + git + "commit -qm first && " + git + "tag v1")
          .exit_code,
      0);
  const std::string hash = run_command(git + "rev-parse --short=12 HEAD | tr -d '\\n'").output;
  EXPECT_EQ(commit(), hash);
  write_bytes(folder.file("file"), "changed");
  EXPECT_EQ(commit(), hash + "-dirty");
}

TEST(Version, IsNotThatOfARepositoryAround) {
  const ScratchFolder folder;
  const std::string around = folder.path().string(), tree = folder.file("tree");
  ASSERT_EQ(run_command("mkdir " + tree + " && git init -q " + around + " && git -C " + around +
                        " -c user.name=a -c user.email=a@b commit -q --allow-empty -m first")
                .exit_code,
            0);
  run_command("cmake -DSOURCE_DIR=" + tree + " -DVERSION=1 -DOUTPUT=" + folder.file("version.cpp") +
              " -P " MAC_SOURCE_FOLDER "/cmake/write_version.cmake");
  EXPECT_NE(read_bytes(folder.file("version.cpp")).find("\"unknown\""), std::string::npos);
}

}  // namespace
}  // namespace mac::test
