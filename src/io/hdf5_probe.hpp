// Whether an HDF5 file may be opened at all.
//
// Structures that lead out of the file are refused: external links, external storage, virtual data sets (a time
// axis may not be /etc/passwd). And HDF5 follows damage in files of older formats, which have no checksums of
// their structure, out of bounds or round in circles. So a file without a digest of ours is first read from
// end to end by a child process with limits on memory and time: what would have taken the program down takes
// the child, and becomes an error.
#pragma once

#include <string>

namespace mac::h5 {

/// Throws Error, naming the file. `trusted`: its bytes are known to be those that were written, no child is
/// needed. A file that did not change since this process looked is not looked at again.
void check_structure(const std::string& path, bool trusted);

}  // namespace mac::h5
