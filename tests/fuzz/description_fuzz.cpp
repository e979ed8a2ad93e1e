// Any text as what a file says of its system, and the lines behind it as what a network reads of that system: a map
// that stays within the state, or an Error.
#include <algorithm>
#include <cstdlib>
#include <mac/error.hpp>
#include <sstream>

#include "coupling/input_map.hpp"
#include "systems/described.hpp"

namespace {

/// "of X -2 2" a stencil, "given F" a number from outside, everything else a feature of the state.
mac::NetworkInputs inputs_in(std::istream& lines) {
  mac::NetworkInputs inputs;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, name;
    words >> first >> name;
    if (first == "of") {
      inputs.of.push_back(name);
      for (mac::StencilRange range; words >> range.from >> range.to;) inputs.stencil.push_back(range);
    } else if (first == "given") {
      inputs.given.push_back(name);
    } else {
      inputs.state.push_back(line);
    }
  }
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;  // a map of many sites and features takes the memory it needs
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  std::string description;
  std::getline(lines, description);
  try {
    const auto system = mac::make_described(mac::description_from(description, "fuzz"));
    mac::check_symmetries(*system);
    const mac::InputMap map(inputs_in(lines), *system, {"F", "nu"});
    const std::vector<double> y(system->resolved_size(), 1.0), e(2, 1.0);
    double sum = 0;
    map.read(y.data(), e.data(), [&](std::size_t, std::size_t, double value) { sum += value; });
    if (sum != sum) std::abort();
    map.targets_among_features();
  } catch (const mac::Error&) {
  }
  return 0;
}
