// What kind of file a path is, by its first bytes.
#pragma once

#include <string>

namespace mac::cli {

enum class FileKind { hdf5, safetensors };

/// Throws Error when the file cannot be read. What is not HDF5 is left to the safetensors reader to judge.
FileKind file_kind(const std::string& path);

}  // namespace mac::cli
