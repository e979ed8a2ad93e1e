// Error against a parameter: one curve a model over the splits test and ood, and the ends of the training range.
#include <gtest/gtest.h>

#include <cmath>

#include "report/figures.hpp"
#include "report/gnuplot.hpp"

namespace mac::report {
namespace {

ModelMetrics model(const std::string& name, double inside, double outside) {
  ModelMetrics metrics{name, {}, {}};
  const Interval training{0.05, 0.2};
  metrics.splits["test"].by_parameter.push_back(
      {"viscosity", training, {{0.06, false, 2, 0, {inside, 0}}, {0.19, false, 2, 0, {inside / 2, 0}}}});
  metrics.splits["ood"].by_parameter.push_back({"viscosity", training, {{0.03, true, 2, 0, {outside, 0}}}});
  return metrics;
}

Evaluation evaluation() {
  return {
      Experiment::parse("[system]\nname = 'burgers'\ngrid = 32\n[data]\ndt = 1e-3\n[data.test]\ntrajectories "
                        "= 1\nhorizon = 1e-3\n",
                        "study.toml"),
      {model("mac", 0.01, 0.2), model("markov", 0.3, std::nan(""))}};
}

TEST(ParameterFigure, HasACurveOfEachModelInTheOrderOfTheValues) {
  const std::vector<Figure> figures = parameter_figures(evaluation());
  ASSERT_EQ(figures.size(), 1u);
  EXPECT_EQ(figures[0].name, "parameter_viscosity");
  EXPECT_NE(figures[0].caption.find("[0.05,0.2]"), std::string::npos);
  const std::vector<Curve>& curves = figures[0].panels.at(0).axes.at(0).curves;
  ASSERT_EQ(curves.size(), 4u);  // two models, two ends
  EXPECT_EQ(curves[0].model, "mac");
  EXPECT_EQ(curves[0].x, (std::vector<double>{0.03, 0.06, 0.19}));
  EXPECT_EQ(curves[0].y, (std::vector<double>{0.2, 0.01, 0.005}));
  EXPECT_TRUE(std::isnan(curves[1].y[0]));  // all blew up: a gap
  EXPECT_EQ(curves[2].x, (std::vector<double>{0.05, 0.05}));
  EXPECT_EQ(curves[3].x, (std::vector<double>{0.2, 0.2}));
}

TEST(ParameterFigure, CanBeDrawn) {
  EXPECT_NE(draw(parameter_figures(evaluation())[0]).whole_svg.find("<svg"), std::string::npos);
}

TEST(ParameterFigure, IsNotThereWhereNoParameterVaries) {
  Evaluation plain = evaluation();
  for (ModelMetrics& model : plain.models)
    for (auto& [name, split] : model.splits) split.by_parameter.clear();
  EXPECT_TRUE(parameter_figures(plain).empty());
}

}  // namespace
}  // namespace mac::report
