#include <fmt/ranges.h>

#include <mac/network_inputs.hpp>

namespace mac {

std::string to_text(const NetworkInputs& inputs) {
  if (inputs.is_plain()) return "";
  std::vector<std::string> ranges;
  for (const StencilRange& range : inputs.stencil)
    ranges.push_back(fmt::format("{}..{}", range.from, range.to));
  return fmt::format("state {} given {} of {} stencil {}", inputs.state, inputs.given, inputs.of, ranges);
}

}  // namespace mac
