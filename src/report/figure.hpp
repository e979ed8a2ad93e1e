// What a figure shows, before anything is drawn.
#pragma once

#include <mac/evaluation.hpp>
#include <optional>
#include <string>
#include <vector>

namespace mac::report {

/// A curve; NaN leaves a gap. `model` names its style and its entry in the legend.
struct Curve {
  std::string model;
  std::vector<double> x, y;
  bool faint = false;  // thin, without an entry of its own: one of several of the same model
};

struct AxisRange {
  double low = 0, high = 1;
};

/// Numbers on a grid as colours from blue over white to red; NaN leaves a gap.
struct HeatMap {
  std::vector<double> x, y, values;  // (n), (m), (m, n)
  AxisRange colours;                 // what is blue and what is red
};

/// A pair of axes with its curves.
struct Axes {
  std::string y_label;
  bool log_y = false;
  std::vector<Curve> curves;
  std::optional<AxisRange> y_range = std::nullopt;  // default: all of the curves
  std::optional<HeatMap> map = std::nullopt;        // below the curves
};

/// One or two axes above each other with the same x.
struct Panel {
  std::string title;
  std::vector<Axes> axes;
};

struct Figure {
  std::string name;     // of its files: "resolved_test"
  std::string title;    // a heading
  std::string caption;  // what is shown
  std::string x_label = {};
  bool log_x = false;
  std::optional<double> mark = {};  // a vertical line, such as the end of the training data
  std::vector<Panel> panels = {};
  std::vector<Table> tables = {};  // below the figure
  bool multiples = false;          // many small panels, folded away on the page

  /// The models of all curves in the order in which they first appear.
  std::vector<std::string> models() const;
};

/// Gives every figure a name that can be one of files and of a place in a page, and that no other has: what is in a
/// name may come from anybody's data.
void make_names_safe(std::vector<Figure>& figures);

/// At most `most` of the points, evenly taken, the last one among them.
Curve thinned(const Curve& curve, std::size_t most);
/// At most `most` points, each the median of a run of consecutive ones: a noisy series made readable.
Curve smoothed(const Curve& curve, std::size_t most);

/// The y range that shows the curves with a little room. On a logarithmic axis: all of the largest values,
/// but not the zeros of an error that changes sign.
AxisRange shown_range(const Axes& axes);

struct Tick {
  double at = 0;
  std::string label;  // as gnuplot's enhanced text
};
/// 10^exponent, as gnuplot's enhanced text.
std::string power_of_ten(double exponent);
/// At most `most` round numbers inside the range, as multiples of `unit`.
std::vector<Tick> linear_ticks(AxisRange range, std::size_t most, double unit = 1);
/// Powers of ten, every so many that there are at most `most`; below two decades 2 and 5 times them as well.
std::vector<Tick> log_ticks(AxisRange range, std::size_t most);

/// The power of ten in whose multiples a linear axis is best labelled: 1e-3 where all values are small.
double axis_unit(AxisRange range);

}  // namespace mac::report
