// A digest of a whole file as its last 64 bytes: two marks of 16 bytes and between them 128 bits of XXH3, in
// hexadecimal, of everything before. HDF5 does not look behind the end that its first block names, so its files
// can carry one, and damage is found before HDF5 follows it out of bounds or round in circles.
//
// Either mark makes the digest count: one flipped bit cannot take it away. A program that opens the file for
// writing cuts it off; the file then is one without.
#pragma once

#include <filesystem>
#include <string>

namespace mac {

/// Throws Error, with `name` for the file, unless the digest of what is there was added to it.
void append_digest(const std::filesystem::path& path, const std::string& name);

/// Whether the file has a digest. Throws Error, naming the file, where it does not fit. A file that did not
/// change since this process looked is not read again.
bool check_digest(const std::filesystem::path& path);

/// Another process has just opened the file: from now on check_digest() takes its word, until the file changes.
void trust_file(const std::filesystem::path& path);

}  // namespace mac
