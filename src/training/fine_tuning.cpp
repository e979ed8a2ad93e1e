#include "training/fine_tuning.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <mac/error.hpp>

#include "network/renormalise.hpp"

namespace mac {

FineTuningStart start_from(const std::string& file, const NetworkPlan& plan, const InputMap& inputs,
                           const Experiment& experiment, const Normalisation& normalisation) {
  const Model model = load_model(file);
  if (!model.input_names.empty() &&
      (model.input_names != inputs.feature_names() || model.output_names != inputs.output_names()))
    throw UsageError("{}: is a closure {} of {}, training needs {} of {}", file,
                     fmt::join(model.output_names, " "), fmt::join(model.input_names, " "),
                     fmt::join(inputs.output_names(), " "), fmt::join(inputs.feature_names(), " "));
  if (model.inputs.frame != plan.inputs.frame)
    throw UsageError("{}: sees its states in the frame \"{}\", [[models]] says \"{}\"", file,
                     to_string(model.inputs.frame), to_string(plan.inputs.frame));
  if (model.shape != plan.shape || model.noise != plan.noise)
    throw UsageError("{}: is a network of another kind or other sizes than [[models]] says", file);
  if (model.shape.deviations && model.normalisation != normalisation)
    throw UsageError(
        "{}: predicts deviations in other scales than those of the data, and cannot go on in these", file);
  FineTuningStart start{parameters_for(model, normalisation), ""};
  if (model.normalisation != normalisation)
    start.remark =
        "the data have other scales than those it was trained on; input_proj and output_proj take up "
        "the difference";
  const double step = experiment.data.closure_step();
  if (model.closure_step && std::abs(*model.closure_step / step - 1) > 1e-9)
    start.remark += fmt::format("{}its closure step is {:g}, that of the data {:g}",
                                start.remark.empty() ? "" : "; ", *model.closure_step, step);
  return start;
}

}  // namespace mac
