// Whether files are as they were written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mac {

enum class Soundness { whole, without_checksum, damaged, missing };

struct VerifiedFile {
  std::string path;
  Soundness soundness = Soundness::whole;
  std::string note;  // what it was checked by, or what is wrong with it
};

/// A network, a checkpoint, an HDF5 file of the program, a saved state; or a folder: every such file in it and
/// below, and of a folder of `mac run` everything that its run.json has. Throws Error if there is nothing there.
std::vector<VerifiedFile> verify(const std::filesystem::path& path);

}  // namespace mac
