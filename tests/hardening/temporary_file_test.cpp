// The files without a name that `mac import` unpacks and turns arrays into: what does not reach them is an error.
#include <gtest/gtest.h>

#include <mac/error.hpp>

#include "data/import/byte_window.hpp"

namespace mac {
namespace {

/// A disk on which nothing fits; a write of few bytes waits in the buffer and succeeds.
OpenFile full_disk() { return {std::fopen("/dev/full", "w+b"), std::fclose}; }

TEST(TemporaryFile, GivesBackWhatWasWrittenAtEachPlace) {
  OpenFile file = temporary_file("numbers");
  write_temporary(file.get(), 4, "second", 6, "numbers");
  write_temporary(file.get(), 0, "1st ", 4, "numbers");
  write_temporary(file.get(), 4, "S", 1, "numbers");
  const auto window = read_temporary(std::move(file), "numbers");
  char text[10];
  window->read(0, sizeof text, text);
  EXPECT_EQ(std::string(text, sizeof text), "1st Second");
  EXPECT_THROW(window->read(5, 6, text), Error);
}

TEST(TemporaryFile, OnAFullDiskIsAnErrorAtTheNextPlaceAndAtTheEnd) {
  if (!full_disk()) GTEST_SKIP() << "there is no /dev/full here";
  OpenFile elsewhere = full_disk();
  write_temporary(elsewhere.get(), 0, "x", 1, "numbers");
  EXPECT_THROW(write_temporary(elsewhere.get(), 1000, "x", 1, "numbers"), Error);
  OpenFile last = full_disk();
  write_temporary(last.get(), 0, "x", 1, "numbers");
  EXPECT_THROW(read_temporary(std::move(last), "numbers"), Error);
}

}  // namespace
}  // namespace mac
