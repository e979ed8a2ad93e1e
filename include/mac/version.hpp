// What this build is.
#pragma once

#include <string>

namespace mac {

const char* version();       // "0.1.0"
const char* commit();        // the git commit the build was made from, "unknown" outside a repository
std::string version_text();  // version, commit, compiler and compiled-in features, for `mac --version`

}  // namespace mac
