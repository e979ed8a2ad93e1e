#include <fmt/format.h>

#include <filesystem>
#include <mac/baselines.hpp>
#include <mac/config.hpp>
#include <mac/judge.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <mac/progress.hpp>
#include <nlohmann/json.hpp>

#include "base/factor_text.hpp"
#include "evaluation/history_need.hpp"
#include "rollout/rollout_file.hpp"

namespace mac {

namespace {

constexpr std::size_t training_trajectories = 32, rollout_trajectories = 256;

/// What stands in the place of a verdict. The file that is judged is there and whole: its command succeeds.
std::vector<Verdict> none(const std::string& file, const std::string& reason) {
  return {{std::filesystem::path(file).stem().string(), {}, fmt::format("{}: {}", file, reason), {}}};
}

/// The true past that a network was trained to read first; 0: none.
double history_of(const std::string& model) {
  if (is_baseline(model)) return 0;
  const Model network = load_model(model);
  const auto training = network.provenance.find("training");
  if (training == network.provenance.end()) return 0;
  return ConfigTable::parse(training->second, model).number_or("history", 0);
}

/// What recipe = "auto" wrote into a network; empty: nothing.
std::string search_of(const std::string& model) {
  if (is_baseline(model)) return {};
  const Model network = load_model(model);
  const auto search = network.provenance.find("search");
  return search == network.provenance.end() ? std::string() : search->second;
}

/// Of a network that reads no past before it runs.
std::optional<std::string> need_of_history(const std::string& model, const DataFile& data) {
  if (!std::filesystem::exists(model) || is_baseline(model) || history_of(model) > 0) return std::nullopt;
  for (const char* split : {"validation", "test", "train"})
    if (data.has(split))
      return history_warning(
          std::filesystem::path(model).stem().string(),
          closure_errors(*open_model({model, {}, {}, {}}, data), data.split(split), training_trajectories),
          data.experiment().data.closure_step());
  return std::nullopt;
}

std::vector<Verdict> compare_trained(const std::string& model, const DataFile& data, int threads) {
  RolloutOptions options;
  options.threads = threads;
  options.quiet = true;
  options.most = training_trajectories;
  options.history = history_of(model);
  for (const char* split : {"validation", "test", "train"})
    if (options.splits.empty() && data.has(split)) options.splits = {split};
  if (options.splits.empty()) return {};
  const std::unique_ptr<ClosureModel> own = open_model({model, {}, {}, {}}, data);
  std::vector<RolloutFile> rollouts;
  rollouts.push_back(rollout_in_memory(*own, data, options));
  rollouts.push_back(rollout_in_memory(*make_markov(), data, options));
  const HeldClosure held = own->held();
  if (held.hold != Hold::stage && !data.split(options.splits.front()).masked())
    rollouts.push_back(rollout_in_memory(*make_exact(held), data, options));
  const std::vector<double>& time = rollouts.front().splits.front().time;
  const double length = time.back() - time.front() - options.history;
  std::vector<Verdict> judged = verdicts(evaluate(std::move(rollouts)));
  for (Verdict& verdict : judged) {
    if (verdict.comparisons.empty()) continue;
    verdict.sentence += memory_in_trials(search_of(model));
    if (verdict.comparisons.at(0).better)
      verdict.sentence +=
          fmt::format("; judged over free rollouts of length {:g}: beyond that nothing was tested", length);
  }
  return judged;
}

std::vector<Verdict> compare_rollout(const std::string& rollout, const DataFile& data,
                                     const RolloutOptions& options) {
  const RolloutReader reader(rollout);
  if (reader.model() == "markov" || is_floor(reader.model()) || !options.from.empty()) return {};
  RolloutOptions some = options;
  some.quiet = true;
  some.members = 1;
  some.most = rollout_trajectories;
  some.splits = reader.splits();
  RolloutData truths(data.path());
  RolloutFile file = reader.header();
  for (const std::string& split : some.splits)
    file.splits.push_back(reader.read(split, truths, 0, some.most));
  std::vector<RolloutFile> rollouts{std::move(file)};
  rollouts.push_back(rollout_in_memory(*make_markov(), data, some));
  return verdicts(evaluate(std::move(rollouts)));
}

}  // namespace

std::string memory_in_trials(const std::string& search) {
  const auto said = nlohmann::json::parse(search, nullptr, false);
  if (!said.is_object() || !said.contains("memoryless") || !said["memoryless"].is_object()) return {};
  const auto without = said["memoryless"].value("error", nlohmann::json()),
             with = said["memoryless"].value("with_memory", nlohmann::json());
  if (without.is_null()) return "; without memory the network could not be trained";
  if (!without.is_number() || !with.is_number()) return {};
  const double factor = without.get<double>() / with.get<double>();
  return fmt::format("; {} times {} in a short trial than without memory",
                     factor_text(factor < 1 ? 1 / factor : factor), factor < 1 ? "worse" : "better");
}

std::vector<Verdict> judge_training(const std::string& model, const DataFile& data, int threads) {
  try {
    std::vector<Verdict> verdicts = data.experiment().system->has_equations()
                                        ? compare_trained(model, data, threads)
                                        : none(model,
                                               "there are no equations, so there is no comparison with no "
                                               "closure; what the loss along true "
                                               "trajectories says of a free run shows only in your solver");
    if (!verdicts.empty())
      if (auto warning = need_of_history(model, data))
        verdicts.front().warnings.push_back(std::move(*warning));
    return verdicts;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    return none(model, fmt::format("there is no verdict: {}", error.what()));
  }
}

std::vector<Verdict> judge_rollout(const std::string& rollout, const DataFile& data,
                                   const RolloutOptions& options) {
  try {
    return compare_rollout(rollout, data, options);
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    return none(rollout, fmt::format("there is no verdict: {}", error.what()));
  }
}

}  // namespace mac
