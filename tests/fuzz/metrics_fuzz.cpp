// Any text is either stored metrics or an Error.
#include <mac/error.hpp>
#include <mac/evaluation.hpp>

#include "fuzz/memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const mac::fuzz::MemoryFile file(data, size);
  try {
    mac::read_metrics(file.path());
  } catch (const mac::Error&) {
  }
  return 0;
}
