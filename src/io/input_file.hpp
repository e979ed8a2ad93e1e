// What can be said of an input file before its reader takes over, and that no output takes its place.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mac {

/// Throws Error, naming the file, unless it is there, may be read, and is no folder, device or pipe.
void require_file(const std::filesystem::path& path);

/// All bytes of a file; Error, naming it, where it cannot be read to its end.
std::string read_file(const std::filesystem::path& path);
/// The first bytes, at most so many.
std::string read_file(const std::filesystem::path& path, std::size_t most);

/// Also when a link leads from one to the other, or when neither is there yet.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Throws UsageError if the output is one of the files it is made from; empty names are no files.
void check_output(const std::filesystem::path& output, std::initializer_list<std::filesystem::path> inputs);

enum class FileKind { safetensors, hdf5, onnx, json, text, unknown };

/// Of a file that is there, by its first bytes.
FileKind file_kind(const std::filesystem::path& path);

/// "an HDF5 file", for messages.
std::string_view description(FileKind kind);

}  // namespace mac
