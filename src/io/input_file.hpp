// What can be said of an input file before its reader takes over.
#pragma once

#include <filesystem>
#include <string_view>

namespace mac {

/// Throws Error, naming the file, unless it is there and may be read.
void require_file(const std::filesystem::path& path);

enum class FileKind { safetensors, hdf5, onnx, json, text, unknown };

/// Of a file that is there, by its first bytes.
FileKind file_kind(const std::filesystem::path& path);

/// "an HDF5 file", for messages.
std::string_view description(FileKind kind);

}  // namespace mac
