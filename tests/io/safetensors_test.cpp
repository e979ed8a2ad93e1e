// Well-formed files read back; malformed ones are refused, each with its own message.
#include <gtest/gtest.h>

#include <filesystem>
#include <mac/error.hpp>
#include <mac/safetensors.hpp>

#include "io/safetensors_builder.hpp"
#include "support/files.hpp"

namespace mac::test {
namespace {

struct Malformed {
  const char* name;
  std::string bytes;
  const char* message;
};

void PrintTo(const Malformed& file, std::ostream* out) { *out << file.name; }

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                std::size_t bytes) {
  return raw_file("{" + entry("a", dtype, shape, offsets) + "}", std::string(bytes, '\0'));
}

std::string two(const std::string& first, const std::string& second, std::size_t bytes) {
  return raw_file("{" + entry("a", "F32", "[1]", first) + "," + entry("b", "F32", "[1]", second) + "}",
                  std::string(bytes, '\0'));
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::vector<Malformed> malformed_files() {
  const std::string good = entry("a", "F32", "[1]", "[0,4]");
  return {
      {"Empty", "", "is 0 bytes long, too short for a safetensors file"},
      {"ShorterThanItsLengthField", std::string(7, '\0'), "is 7 bytes long, too short"},
      {"NoHeader", std::string(8, '\0'), "header does not start with '{'"},
      {"HeaderLongerThanTheFile", with_length(64, "{}"), "claims a header of 64 bytes but has only 2 left"},
      {"HeaderOverTheCap", with_length(100'000'001, "{}"), "claims a header of 100000001 bytes, more than"},
      {"HeaderLengthOfAllOnes", with_length(UINT64_MAX, "{}"),
       "claims a header of 18446744073709551615 bytes"},
      {"HeaderIsAnArray", raw_file("[]", ""), "header does not start with '{'"},
      {"HeaderAfterASpace", raw_file(" {}", ""), "header does not start with '{'"},
      {"HeaderTruncated", raw_file(R"({"a":)", ""), "header is not valid JSON at byte"},
      {"HeaderWithTextAfterIt", raw_file("{}x", ""), "header is not valid JSON at byte 3"},
      {"HeaderNotUtf8", raw_file("{\"\xff\":{}}", ""), "header is not valid JSON at byte 3"},
      {"HeaderNestedDeeply", raw_file(R"({"a":[[[[]]]]})", ""), "header is nested too deeply"},
      {"DuplicateTensor", raw_file("{" + good + "," + good + "}", "1234"), "header has 'a' twice"},
      {"DuplicateMetadata", raw_file(R"({"__metadata__":{"k":"1","k":"2"}})", ""), "header has 'k' twice"},
      {"DuplicateKeyInAnEntry", raw_file(R"({"a":{"dtype":"F32","dtype":"F64"}})", ""),
       "header has 'dtype' twice"},
      {"MetadataNotAnObject", raw_file(R"({"__metadata__":"text"})", ""),
       "__metadata__ is not a JSON object"},
      {"MetadataValueNotAString", raw_file(R"({"__metadata__":{"k":1}})", ""),
       "metadata 'k' is not a string"},
      {"TensorWithoutAName", raw_file("{" + entry("", "F32", "[1]", "[0,4]") + "}", "1234"),
       "a tensor has an empty name"},
      {"EntryNotAnObject", raw_file(R"({"a":3})", ""), "tensor 'a' is not described by a JSON object"},
      {"EntryWithAnUnknownKey",
       raw_file(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"order":"C"}})", "1234"),
       "tensor 'a' has an unknown key 'order'"},
      {"NoDtype", raw_file(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234"), "tensor 'a' has no dtype"},
      {"NoShape", raw_file(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has no shape"},
      {"NoOffsets", raw_file(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"),
       "tensor 'a' has no data_offsets"},
      {"DtypeNotAString", raw_file(R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has a dtype that is not a string"},
      {"UnknownDtype", one("BF16", "[2]", "[0,4]", 4),
       "tensor 'a' has dtype 'BF16': expected F32, F64 or I64"},
      {"ShapeNotAnArray", one("F32", "1", "[0,4]", 4), "tensor 'a' has a shape that is not an array"},
      {"NegativeSize", one("F32", "[-1]", "[0,4]", 4),
       "tensor 'a' has a shape entry that is not a non-negative integer"},
      {"FractionalSize", one("F32", "[1.0]", "[0,4]", 4), "a shape entry that is not a non-negative integer"},
      {"SizeBeyond64Bits", one("F32", "[99999999999999999999]", "[0,4]", 4), "a shape entry that is not"},
      {"TooManyDimensions", one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]", 4), "tensor 'a' has 9 dimensions"},
      {"ShapeOverflows", one("F32", "[4294967296,4294967296]", "[0,4]", 4),
       "has a shape whose size overflows"},
      {"BytesOverflow", one("F64", "[2305843009213693952]", "[0,0]", 0), "has a shape whose size overflows"},
      {"OneOffset", one("F32", "[1]", "[0]", 4), "tensor 'a' has data_offsets that are not a pair"},
      {"OffsetsAsText", one("F32", "[1]", R"(["0","4"])", 4),
       "a data_offsets entry that is not a non-negative"},
      {"EndBeforeBegin", one("F32", "[1]", "[4,0]", 4), "tensor 'a' begins at byte 4 after its end 0"},
      {"EndBehindTheFile", one("F32", "[2]", "[0,8]", 4), "tensor 'a' ends at byte 8 of 4 in the file"},
      {"DataShorterThanTheShape", one("F32", "[2]", "[0,4]", 4),
       "tensor 'a' has 4 bytes of data, its shape needs 8"},
      {"DataLongerThanTheShape", one("F64", "[1]", "[0,16]", 16),
       "tensor 'a' has 16 bytes of data, its shape needs 8"},
      {"OverlappingTensors", two("[0,4]", "[2,6]", 6), "tensor 'b' overlaps the one before it at byte 2"},
      {"TensorsSharingTheirData", two("[0,4]", "[0,4]", 4),
       "tensor 'b' overlaps the one before it at byte 0"},
      {"GapBetweenTensors", two("[0,4]", "[8,12]", 12), "4 bytes before tensor 'b' belong to no tensor"},
      {"GapBeforeTheFirstTensor", one("F32", "[1]", "[4,8]", 8),
       "4 bytes before tensor 'a' belong to no tensor"},
      {"TrailingBytes", one("F32", "[1]", "[0,4]", 7), "3 bytes at the end belong to no tensor"},
  };
}

/// The message that `read` throws; a failure when it does not.
template <class Read>
std::string message_of(Read read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "was not refused";
  return {};
}

class MalformedFile : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedFile, IsRefusedWithItsOwnMessage) {
  const std::string in_memory = message_of([] { Safetensors::parse(GetParam().bytes, "bad.safetensors"); });
  EXPECT_TRUE(in_memory.starts_with("bad.safetensors: ")) << in_memory;
  EXPECT_NE(in_memory.find(GetParam().message), std::string::npos) << in_memory;

  const ScratchFolder folder;
  const auto path = folder.path() / "bad.safetensors";
  write_bytes(path.string(), GetParam().bytes);
  const std::string on_disk = message_of([&] { Safetensors::read(path); });
  EXPECT_NE(on_disk.find(GetParam().message), std::string::npos) << on_disk;
}

INSTANTIATE_TEST_SUITE_P(Safetensors, MalformedFile, testing::ValuesIn(malformed_files()),
                         [](const auto& info) { return info.param.name; });

TEST(Safetensors, RefuseAFileThatIsNotThere) {
  const ScratchFolder folder;
  EXPECT_THROW(Safetensors::read(folder.path() / "absent"), Error);
  EXPECT_THROW(Safetensors::read(folder.path()), Error);
}

TEST(Safetensors, ReadBackWhatWasWritten) {
  const std::vector<float> floats{1.5f, -2, 3e-30f, 4};
  const std::vector<double> doubles{0.1, -1e300, 3};
  const std::vector<std::int64_t> integers{INT64_MIN, -1, INT64_MAX};
  SafetensorsWriter writer;
  writer.set_metadata("text", "two\nlines, \"quoted\", and ü");
  writer.add("floats", {2, 2}, floats);
  writer.add("doubles", {3}, doubles);
  writer.add("integers", {3, 1}, integers);
  writer.add("scalar", {}, std::span(doubles).first(1));
  writer.add("nothing", {0, 5}, std::span<const float>{});
  const ScratchFolder folder;
  writer.write(folder.path() / "file");
  const auto file = Safetensors::read(folder.path() / "file");
  EXPECT_EQ(file.metadata().at("text"), "two\nlines, \"quoted\", and ü");
  EXPECT_EQ(file.at("floats").shape, (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(file.numbers("floats"), std::vector<double>(floats.begin(), floats.end()));
  EXPECT_EQ(file.numbers("doubles"), doubles);
  EXPECT_EQ(file.integers("integers"), integers);
  EXPECT_EQ(file.numbers("scalar"), std::vector<double>{0.1});
  EXPECT_TRUE(file.numbers("nothing").empty());
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_THROW(file.integers("floats"), Error);
  EXPECT_THROW(file.numbers("integers"), Error);
  EXPECT_THROW(file.at("absent"), Error);
}

TEST(Safetensors, AreTheSameBytesForTheSameContents) {
  const auto make = [] {
    SafetensorsWriter writer;
    writer.set_metadata("b", "2");
    writer.set_metadata("a", "1");
    writer.add("small", {1}, std::vector<float>{1});
    writer.add("wide", {1}, std::vector<double>{2});
    return writer.bytes();
  };
  EXPECT_EQ(make(), make());
  // Data are aligned for readers that map the file: the header ends on eight bytes, wide tensors come first.
  const auto file = Safetensors::parse(make(), "file");
  EXPECT_EQ(file.at("wide").begin, 0u);
  EXPECT_EQ((make().size() - 12) % 8, 0u);
}

TEST(SafetensorsWriter, RefusesWhatCouldNotBeRead) {
  SafetensorsWriter writer;
  writer.add("a", {1}, std::vector<float>{1});
  EXPECT_THROW(writer.add("a", {1}, std::vector<float>{1}), Error);
  EXPECT_THROW(writer.add("b", {2}, std::vector<float>{1}), Error);
  EXPECT_THROW(writer.add("__metadata__", {1}, std::vector<float>{1}), Error);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItFails) {
  const ScratchFolder folder;
  SafetensorsWriter writer;
  writer.add("a", {1}, std::vector<float>{1});
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_THROW(writer.write(folder.path() / "taken"), Error);
  EXPECT_THROW(writer.write(folder.path() / "absent" / "file"), Error);
  EXPECT_EQ(folder.count(), 1u);
  writer.write(folder.path() / "file");
  EXPECT_EQ(folder.count(), 2u);
}

}  // namespace
}  // namespace mac::test
