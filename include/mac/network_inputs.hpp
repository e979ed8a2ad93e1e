// What a network reads, as an experiment and a model file say it. src/coupling/input_map.hpp is what that means for a
// system.
//
// A feature is a resolved variable, or two of them with -, + or * between: "X1", "u2 - u1", "v1*v1". The input vector of
// a network is its features in order, then what is given from outside: parameters, forcing.
//
// A local network is one for every site of a lattice, with the same weights and a memory of its own at each. Its
// features are of the site and its neighbours: "X[-1]", "X[0]", "X[1] - X[-1]"; its outputs are the closures of the
// site.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mac {

/// Offsets from a site along one direction of a lattice, both ends included.
struct StencilRange {
  int from = 0, to = 0;
  bool operator==(const StencilRange&) const = default;
};

/// How a network sees Fourier modes (src/coupling/fourier_frame.hpp): as they are, or turned back by the phase of the
/// first state that its memory saw. The latter is exactly equivariant under translations.
enum class Frame { none, initial };
std::string_view to_string(Frame frame);
/// Throws UsageError for other names than none and initial.
Frame frame_from(std::string_view name);

struct NetworkInputs {
  std::vector<std::string> state;     // features; empty: all resolved variables, or all of the stencil
  std::vector<std::string> given;     // from outside, by name
  std::vector<std::string> of;        // lattices of a local network; empty: one network for the whole state
  std::vector<StencilRange> stencil;  // of a local network, for each direction
  Frame frame = Frame::none;

  bool is_local() const { return !of.empty(); }
  /// All resolved variables as they are and nothing else, for the whole state.
  bool is_plain() const { return state.empty() && given.empty() && of.empty() && frame == Frame::none; }
  bool operator==(const NetworkInputs&) const = default;
};

/// In one spelling, for whatever must not change under a training: empty where it is plain.
std::string to_text(const NetworkInputs& inputs);

}  // namespace mac
