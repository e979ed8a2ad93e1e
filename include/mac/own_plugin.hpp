// A system in C++ (mac/own_system.hpp) as a plug-in: at the end of its file
//
//   MAC_EXPORT_SYSTEM(MyEquations, "my_name")
//
// and `c++ -std=c++20 -O2 -shared -fPIC my_system.cpp -o libmine.so`. Then `mac --plugin ./libmine.so`, $MAC_PLUGINS or
// plugin = "libmine.so" in [system] make it known. The library uses the program that loads it, so both are made from
// the same version of these headers with the same C++ ABI: that is checked.
#pragma once

#include <mac/plugin.h>

#include <mac/own_system.hpp>

/// What has to agree; it grows with every change of the classes that a plug-in sees.
#define MAC_OWN_PLUGIN_VERSION 1

namespace mac {

/// "plug-ins 1, C++ ABI 1, libstdc++ strings 1": of whoever includes this.
inline std::string own_plugin_version() {
  std::string text = "plug-ins " + std::to_string(MAC_OWN_PLUGIN_VERSION);
#ifdef __GXX_ABI_VERSION
  text += ", C++ ABI " + std::to_string(__GXX_ABI_VERSION / 1000);
#endif
#ifdef _GLIBCXX_USE_CXX11_ABI
  text += ", libstdc++ strings " + std::to_string(_GLIBCXX_USE_CXX11_ABI);
#endif
#ifdef _LIBCPP_ABI_VERSION
  text += ", libc++ " + std::to_string(_LIBCPP_ABI_VERSION);
#endif
  return text;
}

}  // namespace mac

#define MAC_EXPORT_SYSTEM(Equations, name)                                \
  extern "C" MAC_PLUGIN_EXPORT const char* mac_own_plugin_version(void) { \
    static const std::string version = mac::own_plugin_version();         \
    return version.c_str();                                               \
  }                                                                       \
  extern "C" MAC_PLUGIN_EXPORT void mac_own_plugin_register(void) { mac::register_system<Equations>(name); }
