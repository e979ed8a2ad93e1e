// How the program and the runtime's library are linked: what a mistake that slips through can still do.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace mac {
namespace {

/// What the dynamic linker reads of a file.
class Binary {
 public:
  explicit Binary(const std::string& path) : bytes_(test::read_bytes(path)) {
    header_ = read<Elf64_Ehdr>(0);
    for (std::size_t i = 0; i < header_.e_phnum; ++i)
      segments_.push_back(read<Elf64_Phdr>(header_.e_phoff + i * header_.e_phentsize));
    const Elf64_Phdr dynamic = *segment(PT_DYNAMIC);
    for (std::size_t at = dynamic.p_offset; at < dynamic.p_offset + dynamic.p_filesz; at += sizeof(Elf64_Dyn))
      entries_.push_back(read<Elf64_Dyn>(at));
    names_ = bytes_.substr(in_file(*entry(DT_STRTAB)), *entry(DT_STRSZ));
  }

  std::optional<Elf64_Phdr> segment(Elf64_Word type) const {
    const auto found = std::ranges::find(segments_, type, &Elf64_Phdr::p_type);
    return found == segments_.end() ? std::nullopt : std::optional(*found);
  }
  std::optional<Elf64_Xword> entry(Elf64_Sxword tag) const {
    const auto found = std::ranges::find(entries_, tag, &Elf64_Dyn::d_tag);
    return found == entries_.end() ? std::nullopt : std::optional(found->d_un.d_val);
  }
  std::string text(Elf64_Xword at) const { return names_.c_str() + at; }
  /// Names of symbols, libraries and versions, each between zeros.
  const std::string& names() const { return names_; }

 private:
  template <class T>
  T read(std::size_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  std::size_t in_file(Elf64_Addr address) const {
    for (const Elf64_Phdr& s : segments_)
      if (s.p_type == PT_LOAD && address >= s.p_vaddr && address < s.p_vaddr + s.p_filesz)
        return address - s.p_vaddr + s.p_offset;
    return 0;
  }

  std::string bytes_, names_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> entries_;
};

class Binaries : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "builds with sanitizers are linked in another way";
#endif
  }
};

TEST_P(Binaries, SearchNoLibraryInTheCurrentFolder) {
  const Binary binary(GetParam());
  for (const Elf64_Sxword tag : {DT_RUNPATH, DT_RPATH}) {
    const auto at = binary.entry(tag);
    if (!at) continue;
    const std::string path = ":" + binary.text(*at) + ":";
    EXPECT_EQ(path.find("::"), std::string::npos) << path << ": an empty entry is the current folder";
    EXPECT_EQ(path.find(":."), std::string::npos) << path;
  }
}

TEST_P(Binaries, HaveAddressesNobodyCanWrite) {
  const Binary binary(GetParam());
  EXPECT_TRUE(binary.segment(PT_GNU_RELRO));
  EXPECT_TRUE(binary.entry(DT_FLAGS).value_or(0) & DF_BIND_NOW);
  ASSERT_TRUE(binary.segment(PT_GNU_STACK));
  EXPECT_EQ(binary.segment(PT_GNU_STACK)->p_flags & PF_X, 0u);
}

TEST_P(Binaries, HaveGuardedStacksAndCheckedCopies) {
  const Binary binary(GetParam());
  EXPECT_NE(binary.names().find(std::string("\0__stack_chk_fail\0", 18)), std::string::npos);
#if defined(__OPTIMIZE__)
  EXPECT_NE(binary.names().find(std::string("\0__memcpy_chk\0", 14)), std::string::npos);
#endif
}

INSTANTIATE_TEST_SUITE_P(Of, Binaries, ::testing::Values(MAC_PROGRAM, MAC_RUNTIME_LIBRARY),
                         [](const auto& info) { return info.index == 0 ? "Program" : "Runtime"; });

}  // namespace
}  // namespace mac
