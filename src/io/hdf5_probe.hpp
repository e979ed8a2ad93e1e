// Whether an HDF5 file may be opened at all.
//
// Structures that lead out of the file are refused: external links, external storage, virtual data sets (a time
// axis may not be /etc/passwd). And HDF5 follows damage in files of older formats, which have no checksums of
// their structure, out of bounds or round in circles. So a file is first read by a child process with limits on memory
// and time: what would have taken the program down takes the child, and becomes an error. Anybody can give a file a
// digest that fits, so those with one are looked at, too: their structure, attributes and texts, but not all their
// numbers, which would take 20 s for a gigabyte.
#pragma once

#include <string>

namespace mac::h5 {

/// Throws Error, naming the file. A file that did not change since this process looked is not looked at again.
void check_structure(const std::string& path, bool has_digest);

/// Another process has just looked: from now on check_structure() takes its word, until the file changes.
void trust_structure(const std::string& path);

}  // namespace mac::h5
