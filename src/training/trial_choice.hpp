// Which of the trials of recipe = "auto" are followed up: by their errors alone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "training/trial.hpp"

namespace mac {

/// The number of the trial with the least error.
std::size_t best_trial(std::span<const Trial> trials);

/// Of the best of those that are not of rollouts alone: what further trials vary.
TrialSettings front_runner(std::span<const Trial> trials);

/// Whether nothing but rollouts is better than everything else by the factor `margin`.
bool rollouts_alone_win(std::span<const Trial> trials, double margin);

/// The rollouts whose trial is the best, and no worse than the same without any for as many steps. They are the last stage, and the best
/// weights of all stages become the model: a trial in which they were in vain has the same error, and a whole training,
/// whose own errors are smaller, may still gain by them.
Rollouts useful_rollouts(std::span<const Trial> trials);

/// What is trained in full: the best of the heat, with the rollouts that helped where they were tried; or nothing but
/// rollouts, where their trial, of about the work of a heat, is better than all of these.
TrialSettings choose_finalist(std::span<const Trial> trials, const TrialSettings& best_of_heat);

/// The settings of the best trial that differ from these by more than rollouts, with their rollouts.
std::optional<TrialSettings> best_besides(std::span<const Trial> trials, const TrialSettings& settings);

/// What a longer training is worth to be tried with: the best, the same with the least noise that did as well and with no
/// more than the planned learning rate (what noise and haste cost is seen only in longer trainings: a short one's own
/// errors are larger), and the next best if it is close; without their rollouts. `noise_trials` is what the trials of
/// noise have in common.
std::vector<TrialSettings> heat_entrants(std::span<const Trial> trials, const TrialSettings& noise_trials,
                                         double planned_lr);

}  // namespace mac
