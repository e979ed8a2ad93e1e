// Convolution and scan of a Mamba layer as operations of a derivative program.
#pragma once

#include "network/derivative/program.hpp"
#include "network/kinds/mamba/graph.hpp"

namespace mac::mamba {

/// window (d_conv, d_inner), oldest first -> (d_inner)
derivative::Value convolution(derivative::Program& program, const Sizes& sizes,
                              const derivative::Value& window, const std::string& name);

Scanned<derivative::Value> scan(derivative::Program& program, const Sizes& sizes,
                                const derivative::Value& before, const derivative::Value& delta,
                                const derivative::Value& v, const derivative::Value& B,
                                const derivative::Value& C, const std::string& name);

}  // namespace mac::mamba
