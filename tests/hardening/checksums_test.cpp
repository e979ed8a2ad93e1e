// Bit rot is noticed: one flipped bit in any file of the program is refused.
#include <fmt/format.h>

#include <filesystem>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>
#include <random>
#include <set>

#include "cli/command_line.hpp"
#include "io/file_digest.hpp"
#include "io/hdf5.hpp"

namespace mac {
namespace {

namespace fs = std::filesystem;
using test::CommandLine;
using test::ProgramResult;
using test::read_bytes;
using test::write_bytes;

std::string flipped(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

std::string small_network() {
  SafetensorsWriter writer;
  const std::vector<float> values{1, 2, 3};
  writer.add("w", {3}, std::span<const float>(values));
  writer.set_metadata("system", "burgers");
  return writer.bytes();
}

TEST(Checksum, OfATensorFileCoversEveryBit) {
  const std::string whole = small_network();
  ASSERT_TRUE(Safetensors::parse(whole, "w").has_checksum());
  EXPECT_FALSE(Safetensors::parse(whole, "w").metadata().contains("file_checksum"));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit)
    EXPECT_THROW(Safetensors::parse(flipped(whole, bit), "w"), Error) << "bit " << bit;
}

TEST(Checksum, IsNotNeededForATensorFile) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += header + std::string(4, '\0');
  EXPECT_FALSE(Safetensors::parse(bytes, "w").has_checksum());
}

TEST(Checksum, OfAChangedTensorFileSaysHowToGoOn) {
  std::string changed = small_network();
  changed.back() = 1;
  try {
    Safetensors::parse(changed, "w.safetensors");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("w.safetensors: is damaged"), 0u) << message;
    EXPECT_NE(message.find("take \"file_checksum\" out of its metadata"), std::string::npos) << message;
  }
}

class Files : public CommandLine {
 protected:
  void expect_damaged(const std::string& name, const std::string& what) {
    const ProgramResult result = mac("verify @/" + name);
    EXPECT_EQ(result.exit_code, 1) << what << "\n" << result.output;
    EXPECT_NE(result.output.find("DAMAGED"), std::string::npos) << what << "\n" << result.output;
  }
};

TEST_F(Files, OfHdf5AreRefusedForEveryFlippedBit) {
  generate();
  const std::string whole = read_bytes(file("data.h5"));
  EXPECT_TRUE(check_digest(file("data.h5")));
  std::mt19937 random(3);
  const std::string damaged = file("damaged.h5");
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::size_t tail = 8 * 64;  // every bit of the digest itself
    const std::size_t bit = i < tail ? 8 * whole.size() - 1 - i : random() % (8 * whole.size());
    write_bytes(damaged, flipped(whole, bit));
    EXPECT_THROW(h5::File::open(damaged), Error) << "bit " << bit;
  }
  write_bytes(damaged, whole);
  EXPECT_NO_THROW(h5::File::open(damaged));
}

TEST_F(Files, OfHdf5WithoutADigestAreRead) {
  generate();
  const std::string whole = read_bytes(file("data.h5"));
  write_bytes(file("data.h5"), whole.substr(0, whole.size() - 64));
  const ProgramResult info = mac("info @/data.h5");
  EXPECT_EQ(info.exit_code, 0) << info.output;
  EXPECT_NE(info.output.find("checksum  none"), std::string::npos) << info.output;
  const ProgramResult verified = mac("verify @/data.h5");
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
  EXPECT_EQ(verified.output.find("readable"), 0u) << verified.output;
}

TEST_F(Files, OfARunAreAllVerified) {
  write_bytes(file("study.toml"),
              test::study +
                  "[data.train]\ntrajectories = 2\nhorizon = 0.1\n[[models]]\nname = \"mac\"\nkind = "
                  "\"gru\"\nd_model = 4\nblocks = 1\n[training]\nsteps = 2\nbatch = 2\nselect = "
                  "\"last\"\n");
  ASSERT_EQ(mac("run @/study.toml -o @/run --quiet").exit_code, 0);
  const ProgramResult whole = mac("verify @/run");
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  std::mt19937 random(5);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(file("run"))) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), folder_.path()).string();
    if (name.ends_with("timing.json") || name.ends_with(".times.json")) continue;  // wall times are free
    ++files;
    EXPECT_NE(whole.output.find(name), std::string::npos) << name << "\n" << whole.output;
    const std::string bytes = read_bytes(entry.path().string());
    write_bytes(entry.path().string(), flipped(bytes, random() % (8 * bytes.size())));
    expect_damaged("run", name);
    write_bytes(entry.path().string(), bytes);
  }
  EXPECT_GT(files, 12u);
  fs::remove(file("run/rollouts/mac-seed0.h5"));
  const ProgramResult result = mac("verify @/run");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("missing"), std::string::npos) << result.output;
}

TEST_F(Files, OfTwoRunsAreTheSameBytes) {
  write_bytes(file("study.toml"),
              test::study +
                  "[data.train]\ntrajectories = 2\nhorizon = 0.1\n[[models]]\nname = \"mac\"\nkind = "
                  "\"gru\"\nd_model = 4\nblocks = 1\n[training]\nsteps = 2\nbatch = 2\nselect = "
                  "\"last\"\n");
  for (const char* folder : {"one", "two"})
    ASSERT_EQ(mac(fmt::format("run @/study.toml -o @/{} --quiet", folder)).exit_code, 0);
  std::set<std::string> names;
  for (const char* folder : {"one", "two"})
    for (const auto& entry : fs::recursive_directory_iterator(file(folder)))
      if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), file(folder)).string());
  for (const char* name :
       {"run.json", "report.html", "report_files/training.pdf", "models/mac-seed0.history.csv"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const std::string& name : names) {
    if (name == "timing.json" || name.ends_with(".times.json")) continue;  // wall times, which stand apart
    EXPECT_EQ(read_bytes(file("one/" + name)) == read_bytes(file("two/" + name)), true) << name;
  }
}

TEST_F(Files, ThatCannotBeVerifiedAreNamed) {
  for (const test::Misuse& misuse : std::initializer_list<test::Misuse>{
           {"verify @/study.toml", 1, "study.toml: is a text file, expected a network"},
           {"verify @/nothing", 1, "nothing: does not exist"},
           {"verify", 2, "paths is required"}}) {
    const ProgramResult result = mac(misuse.arguments);
    EXPECT_EQ(result.exit_code, misuse.exit_code) << misuse.arguments;
    EXPECT_NE(result.output.find(misuse.message), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace mac
