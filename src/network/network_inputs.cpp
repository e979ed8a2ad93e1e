#include <fmt/ranges.h>

#include <mac/error.hpp>
#include <mac/network_inputs.hpp>

namespace mac {

std::string_view to_string(Frame frame) { return frame == Frame::initial ? "initial" : "none"; }

Frame frame_from(std::string_view name) {
  for (const Frame frame : {Frame::none, Frame::initial})
    if (name == to_string(frame)) return frame;
  throw UsageError("the frame is \"{}\", expected none or initial", name);
}

std::string to_text(const NetworkInputs& inputs) {
  if (inputs.is_plain()) return "";
  std::vector<std::string> ranges;
  for (const StencilRange& range : inputs.stencil)
    ranges.push_back(fmt::format("{}..{}", range.from, range.to));
  std::string text =
      fmt::format("state {} given {} of {} stencil {}", inputs.state, inputs.given, inputs.of, ranges);
  if (inputs.frame != Frame::none) text += fmt::format(" frame {}", to_string(inputs.frame));
  return text;
}

}  // namespace mac
