// Any bytes as a file of another program: NumPy arrays and archives, classic NetCDF, CSV. They are arrays that can be
// read, or an Error. HDF5 is not among them: its files are parsed by a process of their own (scripts/attack hdf5).
#include <algorithm>
#include <mac/error.hpp>

#include "data/import/foreign_file.hpp"
#include "fuzz/memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 4096;  // elements to read of an array
  if (size >= 4 && data[0] == 0x89 && data[1] == 'H') return 0;
  const mac::fuzz::MemoryFile file(data, size);
  try {
    const auto foreign = mac::open_foreign(file.path());
    for (std::size_t i = 0; i < foreign->arrays().size() && i < 16; ++i) {
      mac::Extents count = foreign->arrays()[i].dims;
      std::size_t elements = 1;
      for (std::size_t& extent : count) {
        extent = std::min(extent, most / std::max<std::size_t>(elements, 1));
        elements *= extent;
      }
      std::vector<double> out(elements);
      foreign->read(i, mac::Extents(count.size(), 0), count, out.data());
    }
  } catch (const mac::Error&) {
  }
  return 0;
}
