// The gnuplot script of a figure.
#pragma once

#include <string>

#include "report/figure.hpp"

namespace mac::report {

/// Pixels of a panel's SVG.
struct PanelSize {
  double width = 0, height = 0;
};
PanelSize svg_size(const Figure& figure);

/// Draws every panel to panelN.svg and all of them to figure.pdf and figure.svg, in gnuplot's current folder.
std::string gnuplot_script(const Figure& figure);

}  // namespace mac::report
