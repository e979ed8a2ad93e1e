#include "report/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "report/style.hpp"

namespace mac::report {

namespace {

// All lengths are in pixels at 96 to the inch; gnuplot's screen coordinates are fractions of the canvas.
struct Rectangle {
  double left, bottom, width, height;
};
struct Layout {
  double panel_width;
  double upper, lower;  // heights of the first axes and of those below
  double title, left, right, bottom, gap;
};

// On the right there is room for half of a tick's label at the very end of the axis.
constexpr Layout page_panels{360, 180, 105, 26, 66, 24, 48, 14};  // SVG, several a row on a wide page
constexpr Layout page_single{640, 300, 130, 26, 66, 24, 48, 14};
constexpr Layout page_multiples{220, 96, 60, 26, 58, 20, 46, 14};  // SVG, six a row
constexpr Layout print_panels{240, 115, 75, 22, 58, 18, 38, 10};   // PDF, three across the width of a page
constexpr Layout print_single{480, 220, 100, 22, 58, 18, 38, 10};
constexpr double room_above = 8;  // where there is no title
constexpr double legend_row = 18, legend_sample_width = 32, letter_width = 5.5;
constexpr double label_centre = 11;                   // of the y axis, from the left edge
constexpr std::size_t most_ticks = 5, few_ticks = 3;  // the latter in small panels

double title_height(const Layout& layout, const Figure& figure) {
  const bool titled =
      std::ranges::any_of(figure.panels, [](const Panel& panel) { return !panel.title.empty(); });
  return titled ? layout.title : room_above;
}

double panel_height(const Layout& layout, const Figure& figure) {
  const auto below = static_cast<double>(figure.panels.front().axes.size() - 1);
  return title_height(layout, figure) + layout.upper + below * (layout.gap + layout.lower) + layout.bottom;
}

/// gnuplot's double-quoted string. A backquote would run a command, even there: it is written by its code.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '`')
      result += "\\140";
    else if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) >= ' ')
      result += c;
  }
  return result + "\"";
}

std::string look(const std::string& model, bool faint) {
  const LineStyle style = style_of(model);
  const std::string colour = style.colour == text_colour ? "black" : style.colour;
  const std::string dash = style.dash.empty() ? "solid" : fmt::format("({})", fmt::join(style.dash, ","));
  return fmt::format("with lines linewidth {:g} dashtype {} linecolor rgb {}",
                     faint ? 0.6 * style.width : style.width, dash, quoted(colour));
}

std::string ticks_text(const std::vector<Tick>& ticks, bool labelled) {
  std::vector<std::string> entries;
  for (const Tick& tick : ticks)
    entries.push_back(fmt::format("{} {:.9g}", quoted(labelled ? tick.label : ""), tick.at));
  return fmt::format("({})", fmt::join(entries, ", "));
}

std::string data_block(const std::string& name, const std::vector<double>& x, const std::vector<double>& y) {
  std::string text = fmt::format("{} << END\n", name);
  for (std::size_t i = 0; i < x.size(); ++i) text += fmt::format("{:.7g} {:.6g}\n", x[i], y[i]);
  return text + "END\n";
}

std::string block_name(std::size_t panel, std::size_t axes, std::size_t curve) {
  return fmt::format("$p{}a{}c{}", panel, axes, curve);
}

std::string map_name(std::size_t panel, std::size_t axes) { return fmt::format("$p{}a{}map", panel, axes); }

std::string map_block(const std::string& name, const HeatMap& map) {
  std::string text = fmt::format("{} << END\n", name);
  for (std::size_t k = 0; k < map.values.size(); ++k)
    text += fmt::format("{:.7g} {:.7g} {:.5g}\n", map.x[k % map.x.size()], map.y[k / map.x.size()],
                        map.values[k]);
  return text + "END\n";
}

bool has_map(const Figure& figure) {
  return std::ranges::any_of(figure.panels, [](const Panel& panel) {
    return std::ranges::any_of(panel.axes, [](const Axes& axes) { return axes.map.has_value(); });
  });
}

/// Every curve as a named block of data, and with it the vertical mark of each pair of axes.
std::string data_blocks(const Figure& figure) {
  std::string text;
  for (std::size_t p = 0; p < figure.panels.size(); ++p)
    for (std::size_t a = 0; a < figure.panels[p].axes.size(); ++a) {
      const Axes& axes = figure.panels[p].axes[a];
      for (std::size_t c = 0; c < axes.curves.size(); ++c)
        text += data_block(block_name(p, a, c), axes.curves[c].x, axes.curves[c].y);
      if (axes.map) text += map_block(map_name(p, a), *axes.map);
      const AxisRange range = shown_range(axes);
      if (figure.mark)
        text += data_block(fmt::format("$p{}a{}mark", p, a), {*figure.mark, *figure.mark},
                           {range.low, range.high});
    }
  return text;
}

AxisRange x_range(const Figure& figure) {
  AxisRange range{INFINITY, -INFINITY};
  for (const Panel& panel : figure.panels)
    for (const Axes& axes : panel.axes) {
      if (axes.map)
        for (const double x : axes.map->x) range = {std::min(range.low, x), std::max(range.high, x)};
      for (const Curve& curve : axes.curves)
        for (const double x : curve.x) range = {std::min(range.low, x), std::max(range.high, x)};
    }
  if (range.low < range.high) return range;
  return std::isfinite(range.low) ? AxisRange{range.low / 2, 2 * range.low + 1} : AxisRange{};
}

/// In gnuplot's enhanced text these characters do something.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("_^{}@&~\\").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

/// The y axis; its label stands `label_x`, `label_y` on the screen, so that those of a column are in line.
std::string y_axis(const Axes& axes, std::size_t most, double label_x, double label_y) {
  const AxisRange range = shown_range(axes);
  const double unit = axes.log_y ? 1 : axis_unit(range);
  const auto ticks = axes.log_y ? log_ticks(range, most) : linear_ticks(range, most, unit);
  const std::string label =
      plain(axes.y_label) + (unit == 1 ? "" : " / " + power_of_ten(std::round(std::log10(unit))));
  return fmt::format(
      "{}set logscale y\nset yrange [{:.9g}:{:.9g}]\nset ytics {}\n"
      "set label 1 {} at screen {:.5f},{:.5f} center rotate by 90\n",
      axes.log_y ? "" : "un", range.low, range.high, ticks_text(ticks, true), quoted(label), label_x,
      label_y);
}

/// Plots one panel inside a rectangle of the canvas.
std::string plot_panel(const Figure& figure, std::size_t p, const Layout& layout, const Rectangle& canvas,
                       const Rectangle& area) {
  const Panel& panel = figure.panels[p];
  const AxisRange x = x_range(figure);
  const std::size_t most = figure.multiples ? few_ticks : most_ticks;
  const auto x_ticks = figure.log_x ? log_ticks(x, most) : linear_ticks(x, most);
  std::string text;
  double top = area.bottom + area.height - title_height(layout, figure);
  for (std::size_t a = 0; a < panel.axes.size(); ++a) {
    const bool last = a + 1 == panel.axes.size();
    const double bottom = last ? area.bottom + layout.bottom : top - layout.upper;
    text += fmt::format(
        "set lmargin at screen {:.5f}\nset rmargin at screen {:.5f}\n"
        "set tmargin at screen {:.5f}\nset bmargin at screen {:.5f}\n",
        (area.left + layout.left) / canvas.width, (area.left + area.width - layout.right) / canvas.width,
        top / canvas.height, bottom / canvas.height);
    text += fmt::format("set title {} offset 0,-0.6\n", quoted(a == 0 ? plain(panel.title) : ""));
    text += fmt::format("set xlabel {} offset 0,0.4\nset xtics {}\n",
                        quoted(last ? plain(figure.x_label) : ""), ticks_text(x_ticks, last));
    text += y_axis(panel.axes[a], most, (area.left + label_centre) / canvas.width,
                   (top + bottom) / 2 / canvas.height);
    std::vector<std::string> plots;
    if (const auto& map = panel.axes[a].map) {
      text += fmt::format(
          "set palette defined (-1 \"#2166ac\", -0.5 \"#92c5de\", 0 \"#f7f7f7\", 0.5 \"#f4a582\", 1 "
          "\"#b2182b\")\n"
          "set cbrange [{:.6g}:{:.6g}]\nunset colorbox\n",
          map->colours.low, map->colours.high);
      plots.push_back(fmt::format("{} with image notitle", map_name(p, a)));
    }
    if (figure.mark)
      plots.push_back(fmt::format(
          "$p{}a{}mark with lines linewidth 0.8 dashtype (4,4) linecolor rgb \"#808080\" notitle", p, a));
    for (std::size_t c = 0; c < panel.axes[a].curves.size(); ++c) {
      const Curve& curve = panel.axes[a].curves[c];
      plots.push_back(fmt::format("{} {} notitle", block_name(p, a, c), look(curve.model, curve.faint)));
    }
    text += fmt::format("plot {}\n", plots.empty() ? "NaN" : fmt::format("{}", fmt::join(plots, ", ")));
    top = bottom - layout.gap;
  }
  return text;
}

double entry_width(const std::string& model) {
  return legend_sample_width + letter_width * static_cast<double>(model.size() + 4);
}

/// The entries of a legend in as few rows as the width allows.
std::vector<std::vector<std::string>> legend_rows(const std::vector<std::string>& models, double width) {
  std::vector<std::vector<std::string>> rows;
  double used = width;
  for (const std::string& model : models) {
    if (used + entry_width(model) > width) rows.emplace_back(), used = 0;
    rows.back().push_back(model);
    used += entry_width(model);
  }
  return rows;
}

/// A line and a name for each model, centred at the top of the canvas: a plot without axes.
std::string plot_legend(const std::vector<std::vector<std::string>>& rows, const Rectangle& canvas) {
  std::string text = fmt::format(
      "set lmargin at screen 0\nset rmargin at screen 1\nset bmargin at screen 0\nset tmargin at screen 1\n"
      "unset border\nunset xtics\nunset ytics\nset xlabel \"\"\nset title \"\"\nunset label\n"
      "unset logscale\nset xrange [0:{:g}]\nset yrange [0:{:g}]\n",
      canvas.width, canvas.height);
  std::vector<std::string> plots;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double y = canvas.height - legend_row * (static_cast<double>(r) + 0.6);
    double left = canvas.width / 2;
    for (const std::string& model : rows[r]) left -= entry_width(model) / 2;
    for (const std::string& model : rows[r]) {
      const std::string block = fmt::format("$legend{}", plots.size());
      text += data_block(block, {left, left + legend_sample_width}, {y, y});
      text += fmt::format("set label {} at first {:g},{:g} left\n", quoted(plain(model)),
                          left + legend_sample_width + letter_width, y);
      plots.push_back(fmt::format("{} {} notitle", block, look(model, false)));
      left += entry_width(model);
    }
  }
  return text + fmt::format("plot {}\n", plots.empty() ? "NaN" : fmt::format("{}", fmt::join(plots, ", ")));
}

const Layout& svg_layout(const Figure& figure) {
  return figure.multiples ? page_multiples : figure.panels.size() == 1 ? page_single : page_panels;
}

std::string svg_commands(const Figure& figure) {
  const auto [width, height] = svg_size(figure);
  const Rectangle canvas{0, 0, width, height};
  const char* images = has_map(figure) ? "standalone " : "";  // inside of the file
  std::string text;
  for (std::size_t p = 0; p < figure.panels.size(); ++p)
    text += fmt::format(
        "set terminal svg size {:g},{:g} dynamic {}font \"sans-serif,12\" enhanced dashlength {:g}\n"
        "set output \"panel{}.svg\"\nset multiplot\n{}unset multiplot\nunset output\n",
        width, height, images, dash_length, p, plot_panel(figure, p, svg_layout(figure), canvas, canvas));
  return text;
}

/// What every plot starts from; the legend of an earlier one leaves its own.
std::string settings(const Figure& figure) {
  const AxisRange x = x_range(figure);
  return fmt::format(
      "set encoding utf8\nset border 3 linewidth 0.8\nset tics nomirror scale 0.6\nunset key\nunset label\n"
      "set datafile missing \"nan\"\nset xrange [{:.9g}:{:.9g}]\n{}set logscale x\n",
      x.low, x.high, figure.log_x ? "" : "un");
}

/// All panels with a legend, for a file of its own: as PDF and as SVG.
std::string print_commands(const Figure& figure) {
  const std::size_t n = figure.panels.size();
  const Layout& layout = n == 1 ? print_single : print_panels;
  const double width = layout.panel_width, height = panel_height(layout, figure);
  const std::size_t columns = n == 4 ? 2 : std::min<std::size_t>(n, 3);
  const std::size_t rows = (n + columns - 1) / columns;
  const double page_width = width * static_cast<double>(columns);
  const auto legend = legend_rows(figure.models(), page_width);
  const Rectangle page{0, 0, page_width,
                       height * static_cast<double>(rows) + legend_row * static_cast<double>(legend.size())};
  std::string plots = settings(figure) + "set multiplot\n";
  for (std::size_t p = 0; p < n; ++p)
    plots += plot_panel(figure, p, layout, page,
                        {static_cast<double>(p % columns) * width,
                         static_cast<double>(rows - 1 - p / columns) * height, width, height});
  plots += plot_legend(legend, page) + "unset multiplot\nunset output\n";
  constexpr double points = 8, pixels_a_point = 96.0 / 72;
  return fmt::format(
             "set terminal pdfcairo size {:.4f}in,{:.4f}in font \"sans,{:g}\" enhanced dashlength {:g}\n"
             "set output \"figure.pdf\"\n{}",
             page.width / 96, page.height / 96, points, dash_length, plots) +
         fmt::format(
             "set terminal svg size {:g},{:g} {}font \"sans-serif,{:.1f}\" enhanced dashlength {:g} "
             "background \"white\"\nset output \"figure.svg\"\n{}",
             page.width, page.height, has_map(figure) ? "standalone " : "", points * pixels_a_point,
             dash_length, plots);
}

}  // namespace

PanelSize svg_size(const Figure& figure) {
  return {svg_layout(figure).panel_width, panel_height(svg_layout(figure), figure)};
}

std::string gnuplot_script(const Figure& figure) {
  return data_blocks(figure) + settings(figure) + svg_commands(figure) + print_commands(figure);
}

}  // namespace mac::report
