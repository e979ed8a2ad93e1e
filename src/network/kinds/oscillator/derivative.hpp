// The scan of an oscillator layer as an operation of a derivative program.
#pragma once

#include "network/kinds/oscillator/graph.hpp"
#include "network/selective/derivative.hpp"

namespace mac::oscillator {

selective::Scanned<derivative::Value> scan(derivative::Program& program, const Sizes& sizes,
                                           const derivative::Value& before, const derivative::Value& delta,
                                           const derivative::Value& v, const derivative::Value& B,
                                           const derivative::Value& C, const std::string& name);

}  // namespace mac::oscillator
