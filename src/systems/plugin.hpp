// Systems in shared libraries (mac/plugin.h).
#pragma once

#include <string>

namespace mac {

/// Loads the library, tries its functions out in a process of their own, and makes its system known by name.
/// Throws UsageError naming the library if it cannot be loaded, crashes, gives numbers that are not finite,
/// writes beyond its arrays, or has a gradient that is not the derivative. Loading it again does nothing.
void load_plugin(const std::string& path);

/// Those of a list as in $MAC_PLUGINS, with : between them.
void load_plugins(const std::string& list);

}  // namespace mac
