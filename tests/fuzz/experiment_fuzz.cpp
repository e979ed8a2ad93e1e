// Any text is either an experiment or an Error.
#include <mac/error.hpp>
#include <mac/experiment.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    mac::Experiment::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const mac::Error&) {
  }
  return 0;
}
