// Signals, two writers of one output, and what processes that were killed leave.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mac/safetensors.hpp>
#include <thread>

#include "cli/command_line.hpp"
#include "support/process.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::Process;
using test::ProgramResult;
using test::read_bytes;
using test::write_bytes;

class Processes : public CommandLine {
 protected:
  Processes() {
    std::string longer = test::study;
    longer.replace(longer.find("trajectories = 3"), 16, "trajectories = 1000000");
    write_bytes(file("longer.toml"), longer);
    for (const int signal : {SIGHUP, SIGINT}) ::signal(signal, SIG_DFL);  // as they are not under nohup
  }
  std::size_t temporaries() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      count += name.find(".partial-") != std::string::npos || name.ends_with(".lock");
    }
    return count;
  }
  /// A generation that has begun to write.
  Process begun() {
    Process process({"generate", file("longer.toml"), "-o", file("data.h5"), "--quiet"});
    while (temporaries() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return process;
  }
};

TEST_F(Processes, EndWithTheNumberOfTheirSignal) {
  for (const auto& [signal, code] :
       {std::pair{SIGTERM, 143}, std::pair{SIGHUP, 129}, std::pair{SIGINT, 130}}) {
    const Process process = begun();
    process.send(signal);
    EXPECT_EQ(process.wait(), code);
    EXPECT_EQ(temporaries(), 0u) << signal;
  }
}

// It waits for gnuplot most of the time: here one that never ends.
TEST_F(Processes, EndWithTheNumberOfTheirSignalInAReport) {
  generate();
  ASSERT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5 --quiet").exit_code, 0);
  fs::create_directory(file("bin"));
  fs::create_directory(file("tmp"));
  write_bytes(file("bin/gnuplot"), "#!/bin/sh\n: > " + file("begun") + "\nexec sleep 1000\n");
  fs::permissions(file("bin/gnuplot"), fs::perms::all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (file("bin") + ":" + path).c_str(), 1);
  ::setenv("TMPDIR", file("tmp").c_str(), 1);
  for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, std::pair{SIGHUP, 129}}) {
    fs::remove(file("begun"));
    const Process process({"report", "--rollouts", file("markov.h5"), "-o", file("page.html"), "--quiet"});
    while (!fs::exists(file("begun"))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.send(signal);
    EXPECT_EQ(process.wait(), code);
    EXPECT_FALSE(fs::exists(file("page.html"))) << signal;
    EXPECT_TRUE(fs::is_empty(file("tmp"))) << signal;
  }
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("TMPDIR");
}

TEST_F(Processes, LeaveSignalsIgnoredThatWereIgnored) {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  const Process process = begun();
  ::signal(SIGHUP, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  process.send(SIGHUP);
  process.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(temporaries(), 2u) << "it goes on";
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 143);
}

TEST_F(Processes, ThatWriteTheSameFileAreToldOfEachOther) {
  const Process process = begun();
  const ProgramResult second = mac("generate @/study.toml -o @/data.h5");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_NE(second.output.find("data.h5: is being written by process "), std::string::npos) << second.output;
  process.send(SIGKILL);
  process.wait();
  EXPECT_EQ(temporaries(), 2u) << "a killed process leaves its unfinished file and its lock";
  EXPECT_EQ(mac("generate @/study.toml -o @/data.h5").exit_code, 0) << "but holds nothing";
  EXPECT_EQ(temporaries(), 0u) << "and the next one tidies up";
}

TEST_F(Processes, ThatWriteTheSameFileThroughLinksAreToldOfEachOther) {
  fs::create_directory(file("elsewhere"));
  fs::create_symlink("../data.h5", file("elsewhere/data-link.h5"));
  fs::create_symlink(folder_.path(), file("elsewhere/folder"));
  const Process process = begun();
  for (const char* name : {"elsewhere/data-link.h5", "elsewhere/folder/data.h5"}) {
    const ProgramResult second = mac(std::string("generate @/study.toml -o @/") + name);
    EXPECT_EQ(second.exit_code, 1);
    EXPECT_NE(second.output.find(std::string(name) + ": is being written by process "), std::string::npos)
        << second.output;
  }
  process.send(SIGKILL);
  process.wait();
  EXPECT_EQ(mac("generate @/study.toml -o @/elsewhere/data-link.h5").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(file("elsewhere/data-link.h5")));
  EXPECT_EQ(temporaries(), 0u) << "what was left beside the file is removed, not beside the link";
}

TEST_F(Processes, TidyUpOnlyBehindProcessesThatAreGone) {
  const std::string of_other_host = file("data.h5.partial-1@elsewhere"),
                    of_living = file(fmt::format("data.h5.partial-{}", getpid())),
                    of_gone = file("data.h5.partial-999999999");
  for (const std::string& path : {of_other_host, of_living, of_gone}) write_bytes(path, "half");
  generate();
  EXPECT_TRUE(fs::exists(of_other_host));
  EXPECT_TRUE(fs::exists(of_living));
  EXPECT_FALSE(fs::exists(of_gone));
}

TEST_F(Processes, TidyUpWhateverTheyWrite) {
  generate();
  EXPECT_EQ(mac("rollout markov --data @/data.h5 -o @/markov.h5 --quiet").exit_code, 0);
  const std::string of_metrics = file("metrics.json.partial-999999999"),
                    of_another = file("metrics.json.bak.partial-999999999"),
                    of_folder = file("mine.partial-999999999");
  write_bytes(of_metrics, "half");
  write_bytes(of_another, "half");
  fs::create_directory(of_folder);
  write_bytes(of_folder + "/mine.c", "half");
  EXPECT_EQ(mac("evaluate @/markov.h5 --json @/metrics.json").exit_code, 0);
  EXPECT_FALSE(fs::exists(of_metrics));
  EXPECT_TRUE(fs::exists(of_another)) << "which is a file of its own";
  EXPECT_EQ(mac("new-system mine --c -o @/mine").exit_code, 0);
  EXPECT_FALSE(fs::exists(of_folder));
}

TEST_F(Processes, RefuseALinkThatLeadsRoundInCircles) {
  fs::create_symlink("loop.h5", file("loop.h5"));
  const ProgramResult result = mac("generate @/study.toml -o @/loop.h5");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("loop.h5: is a link that leads round in circles"), std::string::npos)
      << result.output;
}

TEST_F(Processes, SayHowMuchMemoryWasMissing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers take all addresses";
#endif
  std::string large = test::study;
  large.replace(large.find("horizon = 0.2"), 13, "horizon = 100000");
  write_bytes(file("large.toml"), large);
  const ProgramResult result = mac("generate @/large.toml -o @/data.h5 --threads 1", "ulimit -v 400000;");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("mac: there is not enough memory: "), std::string::npos) << result.output;
  EXPECT_EQ(temporaries(), 0u);
}

TEST_F(Processes, PrintNoControlCharacters) {
  const ProgramResult named = mac(R"x(info "$(printf '@/a\033[31mred\302\233\377.h5')")x");
  EXPECT_EQ(named.exit_code, 1);
  EXPECT_NE(named.output.find(R"(a\x1b[31mred\xc2\x9b\xff.h5: does not exist)"), std::string::npos)
      << named.output;
}

TEST_F(Processes, PrintValuesOfFilesInTheirLines) {
  SafetensorsWriter writer;
  const std::vector<float> one{1};
  writer.add("weight\nchecksum  forged 1", {1}, one);
  writer.set_metadata("author\nchecksum  forged 2", "nobody");
  writer.set_metadata("notes", "several lines\nchecksum  forged 3");  // are indented, below the rows
  writer.write(file("forged.safetensors"));
  const ProgramResult info = mac("info @/forged.safetensors");
  EXPECT_EQ(info.exit_code, 0) << info.output;
  EXPECT_NE(info.output.find("author\\nchecksum  forged 2"), std::string::npos) << info.output;
  EXPECT_NE(info.output.find("  weight\\nchecksum  forged 1"), std::string::npos) << info.output;
  EXPECT_EQ(info.output.find("\nchecksum  forged"), std::string::npos) << info.output;
}

}  // namespace
}  // namespace mac
