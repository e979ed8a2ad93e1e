// The headers of kernels as text, for the compiler at run time. cmake/embed_headers.cmake writes them into the program.
#pragma once

#include <span>

namespace mac::cuda {

struct EmbeddedHeader {
  const char *name, *text;  // as it is included
};
std::span<const EmbeddedHeader> embedded_headers();

}  // namespace mac::cuda
