#include "cli/commands.hpp"
#include "experiment/baseline_kinds.hpp"
#include "experiment/data_settings.hpp"
#include "experiment/training_settings.hpp"

namespace mac::cli {

namespace {

std::string section(const std::string& title, const std::string& sentence, const std::string& table) {
  return "### " + title + "\n\n" + sentence + "\n\n" + table + "\n";
}

std::string baselines() {
  std::string text;
  for (const BaselineKind& kind : baseline_kinds())
    text += section("[[models]], kind = \"" + kind.name + "\"", kind.description,
                    kind.settings.empty() ? "It has no settings.\n" : kind.settings);
  return text;
}

}  // namespace

std::string settings_reference() {
  const Draft fast = recipe("fast"), paper = recipe("paper"), searched = recipe("auto");
  return section("[data]", "Its splits, `[data.train]` and so on, are above.",
                 markdown(data_settings(), {{"Default", DataPlan{}}})) +
         section("[rollout]", "How the reduced equations are integrated, in rollouts and in training.",
                 markdown(rollout_settings(), {{"Default", RolloutPlan{}}})) +
         section(
             "[[models]]",
             "Sizes of a network; `d_state` only of kinds that have states. With `recipe = \"auto\"` what "
             "is left out is searched for.",
             markdown(size_settings(LayerKind::mamba), {{"Default", NetworkShape{}}})) +
         section("[[models]], stochastic",
                 "A network that reads noise is a stochastic closure; it is trained by a score "
                 "(`loss = \"crps\"`). [Stochastic closures](stochastic.md).",
                 markdown(noise_settings(), {{"Default", NoiseInputs{}}})) +
         baselines() +
         section(
             "[training]", "Of the whole training; defaults are those of the recipe.",
             markdown<TrainingPlan>(training_settings(),
                                    {{"fast", fast.plan}, {"paper", paper.plan}, {"auto", searched.plan}})) +
         section(
             "[training], [[training.stages]]",
             "Of a stage: in `[training]` for all of them, in `[[training.stages]]` for one.",
             markdown<StagePlan>(stage_settings(),
                                 {{"fast", fast.stage}, {"paper", paper.stage}, {"auto", searched.stage}}));
}

}  // namespace mac::cli
