// Drawing figures with gnuplot.
#pragma once

#include <string>
#include <vector>

#include "report/figure.hpp"

namespace mac::report {

struct DrawnFigure {
  std::vector<std::string> svg;  // one <svg> element a panel, for the inside of a page
  std::string pdf, whole_svg;    // all panels and a legend, the bytes of a file
};

/// Throws Error if gnuplot is missing (naming the package) or fails (with what it said).
DrawnFigure draw(const Figure& figure);

/// The sample of a model's line in the legend of a page: an <svg> element.
std::string legend_sample(const std::string& model);

/// A figure of a page with its legend, caption and tables, and a link to the file that has it alone: a PDF or SVG.
std::string html_figure(const Figure& figure, const DrawnFigure& drawn, const std::string& file);

}  // namespace mac::report
