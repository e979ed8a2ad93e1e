// What this build is.
#pragma once

namespace mac {

const char* version();  // "0.1.0"
const char* commit();   // the git commit the build was made from, "unknown" outside a repository

}  // namespace mac
