// Any bytes are either a checkpoint or an Error. The corpus has no checksum of the file: what lies behind that is to be
// looked at.
#include <mac/error.hpp>

#include "fuzz/memory_file.hpp"
#include "training/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const mac::fuzz::MemoryFile file(data, size);
  mac::TrainingFiles files("fuzz");
  files.checkpoint = file.path();
  files.previous_checkpoint.clear();
  try {
    mac::load_checkpoint<float>(files, {});
  } catch (const mac::Error&) {
  }
  return 0;
}
