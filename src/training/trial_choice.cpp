#include "training/trial_choice.hpp"

#include <algorithm>
#include <limits>

namespace mac {

namespace {

constexpr std::size_t most_in_heat = 3;
constexpr double close_second = 2;  // times the best trial's error, up to which another goes into the heat
constexpr double as_good = 1.15;    // times the least error: no difference that a short trial can tell
constexpr double infinity = std::numeric_limits<double>::infinity();

/// The settings with the least noise that did as well where noise was tried.
TrialSettings with_least_noise(std::span<const Trial> trials, const TrialSettings& noise_trials,
                               TrialSettings settings) {
  const auto is_about_noise = [&](const Trial& trial) {
    TrialSettings common = trial.settings;
    common.noise = noise_trials.noise;
    return common == noise_trials;
  };
  double error = 0, least = settings.noise;
  for (const Trial& trial : trials)
    if (is_about_noise(trial) && trial.settings.noise == settings.noise) error = trial.error;
  for (const Trial& trial : trials)
    if (is_about_noise(trial) && trial.error <= as_good * error)
      least = std::min(least, trial.settings.noise);
  settings.noise = least;
  return settings;
}

}  // namespace

std::size_t best_trial(std::span<const Trial> trials) {
  return static_cast<std::size_t>(std::ranges::min_element(trials, {}, &Trial::error) - trials.begin());
}

TrialSettings front_runner(std::span<const Trial> trials) {
  const Trial* best = nullptr;
  for (const Trial& trial : trials)
    if (trial.settings.rollouts != Rollouts::alone && (!best || trial.error < best->error)) best = &trial;
  return best->settings;
}

bool rollouts_alone_win(std::span<const Trial> trials, double margin) {
  double alone = infinity, others = infinity;
  for (const Trial& trial : trials) {
    double& least = trial.settings.rollouts == Rollouts::alone ? alone : others;
    least = std::min(least, trial.error);
  }
  return margin * alone < others;
}

Rollouts useful_rollouts(std::span<const Trial> trials) {
  Rollouts useful = Rollouts::none;
  double least = infinity;
  for (const Trial& with : trials)
    for (const Trial& without : trials) {
      TrialSettings same = without.settings;
      same.rollouts = with.settings.rollouts;
      if (with.settings.rollouts != Rollouts::none && without.settings.rollouts == Rollouts::none &&
          same == with.settings && with.steps == without.steps && with.error <= without.error &&
          with.error < least) {
        useful = with.settings.rollouts;
        least = with.error;
      }
    }
  return useful;
}

TrialSettings choose_finalist(std::span<const Trial> trials, const TrialSettings& best_of_heat) {
  if (rollouts_alone_win(trials, 1)) return trials[best_trial(trials)].settings;
  TrialSettings settings = best_of_heat;
  settings.rollouts = useful_rollouts(trials);
  return settings;
}

std::optional<TrialSettings> best_besides(std::span<const Trial> trials, const TrialSettings& settings) {
  const auto with_rollouts = [&](TrialSettings other) {
    other.rollouts = settings.rollouts;
    return other;
  };
  const Trial* found = nullptr;
  for (const Trial& trial : trials)
    if (with_rollouts(trial.settings) != settings && trial.error < (found ? found->error : infinity))
      found = &trial;
  if (!found) return std::nullopt;
  return with_rollouts(found->settings);
}

std::vector<TrialSettings> heat_entrants(std::span<const Trial> trials, const TrialSettings& noise_trials,
                                         double planned_lr) {
  std::vector<Trial> ranked(trials.begin(), trials.end());
  std::erase_if(ranked, [](const Trial& trial) { return trial.settings.rollouts == Rollouts::alone; });
  std::ranges::stable_sort(ranked, {}, &Trial::error);
  std::vector<TrialSettings> entrants;
  const auto add = [&](TrialSettings entrant) {
    entrant.rollouts = Rollouts::none;
    if (entrants.size() < most_in_heat && std::ranges::find(entrants, entrant) == entrants.end())
      entrants.push_back(entrant);
  };
  TrialSettings first = ranked.at(0).settings;
  add(first);
  add(with_least_noise(trials, noise_trials, first));
  if (first.max_lr > planned_lr) {
    first.max_lr = planned_lr;
    add(with_least_noise(trials, noise_trials, first));
  }
  for (const Trial& trial : ranked)
    if (trial.error <= close_second * ranked[0].error) add(trial.settings);
  return entrants;
}

}  // namespace mac
