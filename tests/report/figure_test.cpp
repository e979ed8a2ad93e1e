#include "report/figure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "report/gnuplot.hpp"
#include "report/style.hpp"
#include "support/files.hpp"

namespace mac::report {
namespace {

Curve ramp(std::size_t n) {
  Curve curve{"mac", {}, {}};
  for (std::size_t i = 0; i < n; ++i)
    curve.x.push_back(static_cast<double>(i)), curve.y.push_back(static_cast<double>(i * i));
  return curve;
}

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> result;
  for (const Tick& tick : ticks) result.push_back(tick.label);
  return result;
}

TEST(Thinned, KeepsBothEndsAndAtMostTheWantedPoints) {
  const Curve curve = thinned(ramp(100'001), 1000);
  EXPECT_EQ(curve.x.size(), 1000u);
  EXPECT_EQ(curve.x.front(), 0);
  EXPECT_EQ(curve.x.back(), 100'000);
  EXPECT_EQ(thinned(ramp(10), 1000).x.size(), 10u);
}

TEST(Smoothed, TakesMediansSoThatOneOutlierIsGone) {
  Curve curve = ramp(1000);
  for (double& y : curve.y) y = 1;
  curve.y[500] = 1e9;
  for (const double y : smoothed(curve, 100).y) EXPECT_EQ(y, 1);
}

TEST(Ticks, AreRoundNumbers) {
  EXPECT_EQ(labels(linear_ticks({-0.13, 0.26}, 5)), (std::vector<std::string>{"−0.1", "0", "0.1", "0.2"}));
  EXPECT_EQ(labels(linear_ticks({0, 2e-3}, 5, 1e-3)),
            (std::vector<std::string>{"0", "0.5", "1", "1.5", "2"}));
  EXPECT_EQ(labels(log_ticks({2e-7, 0.5}, 3)), (std::vector<std::string>{"10^{−6}", "10^{−4}", "10^{−2}"}));
  EXPECT_EQ(labels(log_ticks({0.15, 0.6}, 5)), (std::vector<std::string>{"0.2", "0.5"}));
}

TEST(Ticks, AreFewWhereNumbersAreTooLargeToCountByOne) {
  EXPECT_LT(linear_ticks({1e17, 1e17 + 16}, 5).size(), 8u);
}

TEST(FigureNames, AreThoseOfFilesWhateverTheyWereMadeOf) {
  std::vector<Figure> figures(4);
  figures[0].name = "parameter_x\"><img src=x onerror=alert(1)>";
  figures[1].name = "parameter_../../etc";
  figures[2].name = "l2_error_1+x";
  figures[3].name = "l2_error_1-x";
  figures.push_back(figures[2]);
  make_names_safe(figures);
  EXPECT_EQ(figures[0].name, "parameter_x___img_src_x_onerror_alert_1__");
  EXPECT_EQ(figures[1].name, "parameter_______etc");
  EXPECT_EQ(figures[2].name, "l2_error_1_x");
  EXPECT_EQ(figures[3].name, "l2_error_1-x");
  EXPECT_EQ(figures[4].name, "l2_error_1_x_2");
}

TEST(ShownRange, OnALogAxisLeavesOutTheZerosOfAnError) {
  Curve curve{"mac", {}, {}};
  for (int i = 1; i <= 100; ++i) curve.x.push_back(i), curve.y.push_back(i == 50 ? 1e-14 : i == 1 ? 0 : 1e-3);
  const AxisRange range = shown_range({"|error|", true, {curve}});
  EXPECT_GT(range.low, 1e-4);
  EXPECT_GT(range.high, 1e-3);
}

TEST(Style, NoTwoModelsOfThePaperLookAlike) {
  std::set<std::string> colours;
  std::set<std::vector<double>> dashes;
  for (const char* model :
       {"truth", "mac", "gru", "markov", "wilks", "linear_memory", "cubic_memory", "polynomial", "exact"}) {
    colours.insert(style_of(model).colour);
    dashes.insert(style_of(model).dash);
  }
  EXPECT_EQ(colours.size(), 9u);
  EXPECT_EQ(dashes.size(), 9u);  // what is left of them in greyscale
}

TEST(Symbol, WritesVariablesAsByHand) {
  EXPECT_EQ(symbol("phi1"), "φ₁");
  EXPECT_EQ(symbol("m3_psi"), "m₃ (ψ)");
  EXPECT_EQ(symbol("X12"), "X₁₂");
  EXPECT_EQ(symbol("C_omega2"), "C (ω₂)");
}

TEST(Draw, TakesAnyTextAndGapsAndEmptyCurves) {
  Figure figure;
  figure.name = "odd";
  figure.title = "a \"quoted\" <title> & `command` $HOME";
  figure.x_label = "x_1 {y} ^2 \"; quit";
  const std::string script = "</text><script>alert(1)</script>";
  Curve gaps = ramp(5);
  gaps.y[2] = NAN;
  gaps.y[3] = INFINITY;
  gaps.model = "a_b\"`'\\";
  figure.panels.push_back({script, {{"y" + script, false, {gaps}}, {"z", true, {Curve{"mac", {}, {}}}}}});
  const DrawnFigure drawn = draw(figure);
  ASSERT_EQ(drawn.svg.size(), 1u);
  EXPECT_NE(drawn.svg[0].find("x_1 {y} ^2 \"; quit"), std::string::npos);
  EXPECT_EQ(drawn.svg[0].find("<script>"), std::string::npos);
  EXPECT_EQ(drawn.whole_svg.find("<script>"), std::string::npos);
  EXPECT_EQ(drawn.svg[0].find("'black'"), std::string::npos);
  EXPECT_TRUE(drawn.pdf.starts_with("%PDF-"));
}

TEST(Draw, RunsNoCommandsHiddenInNames) {
  const test::ScratchFolder folder;
  Figure figure;
  figure.name = "commands";
  figure.x_label = "`touch " + folder.file("a") + "`";
  Curve curve = ramp(5);
  curve.model = "`touch " + folder.file("b") + "`";
  figure.panels.push_back({figure.x_label, {{figure.x_label, false, {curve}}}});
  const DrawnFigure drawn = draw(figure);
  EXPECT_EQ(folder.count(), 0u);
  EXPECT_NE(drawn.svg[0].find("`touch"), std::string::npos);
}

}  // namespace
}  // namespace mac::report
