#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/training_plan.hpp>
#include <set>

namespace mac {

namespace {

constexpr std::int64_t many = 1'000'000'000;

// The names of the choices, in the order of their enums.
const std::vector<std::string> losses{"closure", "step", "rollout"};
const std::vector<std::string> rollout_forms{"sequence", "autoregressive"};
const std::vector<std::string> scalings{"max_abs", "mean_std", "per_mode"};
const std::vector<std::string> weightings{"none", "effect", "relative"};
const std::vector<std::string> optimisers{"adamw", "soap"};
const std::vector<std::string> selections{"loss", "rollout", "last"};
const std::vector<std::string> precisions{"float32", "float64"};
const std::vector<std::string> holds{"zero", "linear"};
const std::vector<std::string> targets{"instant", "mean"};

template <class Enum>
const std::string& name_of(const std::vector<std::string>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

template <class Enum>
void read(const ConfigTable& table, std::string_view key, const std::vector<std::string>& names,
          Enum& value) {
  const std::string name = table.choice_or(key, name_of(names, value), names);
  value = static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

void read(const ConfigTable& table, std::string_view key, Range range, double& value) {
  value = table.number_or(key, value, range);
}

void read(const ConfigTable& table, std::string_view key, std::int64_t low, std::size_t& value) {
  value = static_cast<std::size_t>(table.integer_or(key, static_cast<std::int64_t>(value), low, many));
}

void read(const ConfigTable& table, std::string_view key, bool& value) {
  value = table.boolean_or(key, value);
}

/// A plan before its stages are known: `stage` is what they start from.
struct Draft {
  TrainingPlan plan;
  StagePlan stage;
};

/// The paper's settings for Burgers' equation; its other experiments say where they differ.
Draft paper_recipe() { return {}; }

/// Symmetry, errors counted as the tables count them, many small batches at a higher learning rate and no
/// noise: a better closure in a hundredth of the time.
Draft fast_recipe() {
  Draft draft;
  draft.plan.recipe = "fast";
  draft.plan.held.hold = Hold::linear;
  draft.plan.normalisation = Scaling::per_mode;
  draft.plan.select = Selection::rollout;
  draft.stage.loss_weights = LossWeights::relative;
  draft.stage.optimiser = OptimiserKind::soap;
  draft.stage.steps = 16000;
  draft.stage.batch = 32;
  draft.stage.max_lr = 4e-3;
  draft.stage.noise = 0;
  draft.stage.augmentation = true;
  draft.stage.clip = 1;
  return draft;
}

void read_stage(const ConfigTable& table, StagePlan& stage) {
  read(table, "loss", losses, stage.loss);
  read(table, "rollout_steps", 1, stage.rollout_steps);
  read(table, "rollout_form", rollout_forms, stage.rollout_form);
  read(table, "loss_weights", weightings, stage.loss_weights);
  read(table, "optimiser", optimisers, stage.optimiser);
  read(table, "steps", 1, stage.steps);
  read(table, "batch", 1, stage.batch);
  read(table, "max_lr", positive, stage.max_lr);
  read(table, "warmup_fraction", fraction, stage.warmup_fraction);
  read(table, "div_factor", positive, stage.div_factor);
  read(table, "final_div_factor", positive, stage.final_div_factor);
  read(table, "cycle_momentum", stage.cycle_momentum);
  read(table, "weight_decay", non_negative, stage.weight_decay);
  read(table, "clip", non_negative, stage.clip);
  read(table, "noise", non_negative, stage.noise);
  read(table, "noise_from", fraction, stage.noise_from);
  read(table, "noise_to", fraction, stage.noise_to);
  read(table, "augmentation", stage.augmentation);
  read(table, "window", 0, stage.window);
  read(table, "horizon", non_negative, stage.horizon);
  // Noise and augmentation draw from one stream a sample, numbered in 32 bits.
  if (static_cast<double>(stage.steps) * static_cast<double>(stage.batch) > 4e9)
    table.fail("steps", fmt::format("{} steps of {} samples are more than 4 billion samples", stage.steps,
                                    stage.batch));
}

void read_training(const ConfigTable& table, Draft& draft) {
  if (table.has("recipe"))
    draft = table.choice("recipe", {"paper", "fast"}) == "paper" ? paper_recipe() : fast_recipe();
  TrainingPlan& plan = draft.plan;
  read(table, "hold", holds, plan.held.hold);
  read(table, "target", targets, plan.held.target);
  read(table, "normalisation", scalings, plan.normalisation);
  read(table, "precision", precisions, plan.precision);
  read(table, "averaging", Range{0, 0.999999}, plan.averaging);
  read(table, "select", selections, plan.select);
  read(table, "validate_every", 1, plan.validate_every);
  read(table, "validation_trajectories", 1, plan.validation_trajectories);
  read(table, "validation_horizon", non_negative, plan.validation_horizon);
  read(table, "checkpoint_every", 1, plan.checkpoint_every);
  plan.seed =
      static_cast<std::uint64_t>(table.integer_or("seed", static_cast<std::int64_t>(plan.seed), 0, many));
  read(table, "memory", non_negative, plan.memory);
  read_stage(table, draft.stage);
}

/// Refuses a stage that the training data cannot serve.
void check(const StagePlan& stage, const HeldClosure& held, const DataPlan& data, const ConfigTable& table) {
  const auto train = std::find_if(data.splits.begin(), data.splits.end(),
                                  [](const SplitPlan& split) { return split.name == "train"; });
  if (train == data.splits.end()) table.fail("", "training needs a [data.train]");
  if (stage.horizon > train->horizon * (1 + 1e-9))
    table.fail("horizon", fmt::format("is {}, but [data.train] ends at {}", stage.horizon, train->horizon));
  const std::size_t intervals =
      stage.horizon > 0 ? static_cast<std::size_t>(std::lround(stage.horizon / data.closure_step()))
                        : train->intervals;
  const bool means = stage.loss == LossKind::closure && held.target == Target::mean;
  const std::size_t longest = means ? intervals : intervals + 1;
  const std::size_t length = stage.window > 0 ? stage.window : longest;
  if (length > longest)
    table.fail("window",
               fmt::format("is {}, but a training trajectory has {} usable times", length, longest));
  const std::size_t ahead = stage.loss == LossKind::rollout ? stage.rollout_steps : 1;
  if (length <= ahead)
    table.fail(stage.loss == LossKind::rollout ? "rollout_steps" : "window",
               fmt::format("a sequence of {} times has no room for {} step(s) ahead", length, ahead));
}

TrainingPlan read_plan(const ConfigTable& experiment, const ConfigTable& model, const DataPlan& data) {
  Draft draft = fast_recipe();
  const auto shared = experiment.table_if("training"), own = model.table_if("training");
  if (shared) read_training(*shared, draft);
  if (own) read_training(*own, draft);

  std::vector<ConfigTable> stages;
  for (const auto& source : {shared, own})
    if (source && source->has("stages")) stages = source->tables("stages");
  if (draft.plan.validation_horizon > 0 &&
      std::lround(draft.plan.validation_horizon / data.closure_step()) < 1)
    (own && own->has("validation_horizon") ? *own : *shared)
        .fail("validation_horizon", fmt::format("is {}, less than a step of the closure, {}",
                                                draft.plan.validation_horizon, data.closure_step()));
  for (const ConfigTable& table : stages) {
    StagePlan stage = draft.stage;
    read_stage(table, stage);
    check(stage, draft.plan.held, data, table);
    draft.plan.stages.push_back(stage);
  }
  if (stages.empty()) {
    check(draft.stage, draft.plan.held, data, own ? *own : shared ? *shared : model);
    draft.plan.stages.push_back(draft.stage);
  }
  return draft.plan;
}

/// Without equations there is nothing to couple the network to.
void check_needs_no_equations(const TrainingPlan& plan, const System& system, const ConfigTable& table) {
  if (plan.select == Selection::rollout)
    table.fail("",
               fmt::format("{} data cannot be rolled out; say select = \"loss\" or \"last\" in [training]",
                           system.name()));
  for (const StagePlan& stage : plan.stages)
    if (stage.loss != LossKind::closure)
      table.fail("",
                 fmt::format("{} data have no equations for the loss \"{}\"; the loss \"closure\" needs none",
                             system.name(), name_of(losses, stage.loss)));
}

NetworkPlan read_network(const ConfigTable& experiment, const ConfigTable& table, const System& system,
                         const DataPlan& data) {
  NetworkPlan plan;
  NetworkShape& shape = plan.shape;
  shape.kind = layer_kind_from(table.string("kind"));
  shape.d_in = system.resolved_size();
  shape.d_out = system.closure_size();
  shape.d_model = static_cast<std::size_t>(table.integer("d_model", 1, 4096));
  shape.n_blocks = static_cast<std::size_t>(table.integer("blocks", 1, 64));
  if (has_states(shape.kind))
    shape.d_state = static_cast<std::size_t>(table.integer("d_state", 1, 1024));
  else if (table.has("d_state"))
    table.fail("d_state", fmt::format("is a size that a {} does not have", to_string(shape.kind)));
  validate(shape);
  plan.training = read_plan(experiment, table, data);
  if (!system.has_equations()) check_needs_no_equations(plan.training, system, table);
  return plan;
}

BaselinePlan read_baseline(const ConfigTable& table, const std::string& kind, const System& system,
                           const DataPlan& data) {
  BaselinePlan plan;
  if (kind == "wilks" || kind == "polynomial") {
    const auto symmetries = system.symmetries();
    if (std::ranges::none_of(symmetries, [](const Symmetry& symmetry) {
          return symmetry.kind == Symmetry::Kind::cyclic_shift;
        }))
      table.fail("kind",
                 fmt::format("{} is for a ring of variables (lorenz96), not for {}", kind, system.name()));
    if (std::ranges::none_of(data.splits, [](const SplitPlan& split) { return split.name == "train"; }))
      table.fail("", fmt::format("{} is fitted to a [data.train]", kind));
    if (kind == "wilks") plan.seed = static_cast<std::uint64_t>(table.integer_or("seed", 0, 0, many));
    return plan;
  }
  if (system.fourier_modes() == 0)
    table.fail("kind",
               fmt::format("{} is for Fourier modes (burgers, kdv), not for {}", kind, system.name()));
  read(table, "quadrature", 2, plan.quadrature);
  const double nodes =
      std::pow(static_cast<double>(plan.quadrature), static_cast<double>(system.resolved_size()));
  if (nodes > 1e6)
    table.fail(
        "quadrature",
        fmt::format("{} points in each of {} variables are {:.3g} trajectories, expected at most a million",
                    plan.quadrature, system.resolved_size(), nodes));
  for (const SplitPlan& split : data.splits)
    if (split.name == "test" || split.name == "ood") plan.horizon = std::max(plan.horizon, split.horizon);
  if (plan.horizon == 0) plan.horizon = data.splits.front().horizon;
  read(table, "horizon", positive, plan.horizon);
  return plan;
}

/// Names that tables, figures and files of a study give to the models every study has.
bool is_reserved(const std::string& name) {
  return name == "markov" || name == "exact" || name.starts_with("exact_");
}

/// Whether a model's file would be that of a network with some seed: mac-seed0 beside mac.
bool is_seed_of(const std::string& network, const std::string& name) {
  const std::string begin = network + "-seed";
  return name.size() > begin.size() && name.starts_with(begin) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_file_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

/// A model that is trained already; a relative path begins in the folder of the experiment.
std::string read_file(const ConfigTable& table) {
  for (const char* key : {"kind", "training"})
    if (table.has(key)) table.fail(key, "a model with a file is trained already: its file says the rest");
  const std::filesystem::path file = table.string("file");
  if (file.extension() != ".safetensors" && file.extension() != ".h5")
    table.fail("file",
               fmt::format("is \"{}\", expected a model: NAME.safetensors, or the NAME.h5 of a baseline",
                           file.string()));
  return (std::filesystem::path(table.file()).parent_path() / file).lexically_normal().string();
}

/// The one place that knows the kinds of models: networks of every kind of layer, and the baselines.
ModelPlan read_model(const ConfigTable& experiment, const ConfigTable& table, const System& system,
                     const DataPlan& data) {
  ModelPlan model;
  const std::vector<std::string> networks = layer_kind_names();
  std::vector<std::string> kinds = networks;
  kinds.insert(kinds.end(), {"wilks", "polynomial", "linear_memory", "cubic_memory"});
  if (table.has("file")) model.file = read_file(table);
  model.kind = model.file ? "file" : table.choice("kind", kinds);
  model.name =
      table.string_or("name", model.file ? std::filesystem::path(*model.file).stem().string() : model.kind);
  if (!is_file_name(model.name))
    table.fail("name",
               fmt::format("is \"{}\", expected letters, digits, - and _: it names files", model.name));
  if (is_reserved(model.name))
    table.fail("name", fmt::format("\"{}\" is what every study calls a model of its own (markov, exact, "
                                   "exact_...); say another name",
                                   model.name));
  if (model.file) return model;
  if (std::ranges::find(networks, model.kind) != networks.end())
    model.network = read_network(experiment, table, system, data);
  else
    model.baseline = read_baseline(table, model.kind, system, data);
  return model;
}

}  // namespace

std::size_t TrainingPlan::steps() const {
  std::size_t sum = 0;
  for (const StagePlan& stage : stages) sum += stage.steps;
  return sum;
}

std::vector<ModelPlan> read_models(const ConfigTable& experiment, const System& system,
                                   const DataPlan& data) {
  std::vector<ModelPlan> models;
  std::set<std::string> names;
  const std::vector<ConfigTable> tables = experiment.tables("models");
  for (const ConfigTable& table : tables) {
    models.push_back(read_model(experiment, table, system, data));
    if (!names.insert(models.back().name).second)
      table.fail("name", fmt::format("\"{}\" is the name of an earlier model", models.back().name));
  }
  for (const ModelPlan& network : models)
    for (std::size_t i = 0; network.network && i < models.size(); ++i)
      if (!models[i].network && is_seed_of(network.name, models[i].name))
        tables[i].fail("name",
                       fmt::format("\"{}\" is what the network \"{}\" calls its files; say another name",
                                   models[i].name, network.name));
  if (experiment.has("training") &&
      std::ranges::none_of(models, [](const ModelPlan& model) { return model.network.has_value(); }))
    experiment.table("training").fail("", "there is no network in [[models]] to train");
  return models;
}

std::string model_file_name(const ModelPlan& plan) {
  if (plan.file) return plan.name + std::filesystem::path(*plan.file).extension().string();
  return plan.network ? fmt::format("{}-seed{}.safetensors", plan.name, plan.network->training.seed)
                      : plan.name + ".h5";
}

std::string to_text(const TrainingPlan& plan) {
  std::string text;
  const auto line = [&](std::string_view key, const auto& value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  const auto choice = [&](std::string_view key, std::string_view value) {
    text += fmt::format("{} = \"{}\"\n", key, value);
  };
  choice("recipe", plan.recipe);
  choice("hold", to_string(plan.held.hold));
  choice("target", to_string(plan.held.target));
  choice("normalisation", name_of(scalings, plan.normalisation));
  choice("precision", name_of(precisions, plan.precision));
  line("averaging", plan.averaging);
  choice("select", name_of(selections, plan.select));
  line("validate_every", plan.validate_every);
  line("validation_trajectories", plan.validation_trajectories);
  line("validation_horizon", plan.validation_horizon);
  line("seed", plan.seed);
  for (const StagePlan& stage : plan.stages) {
    text += "[[stages]]\n";
    choice("loss", name_of(losses, stage.loss));
    line("rollout_steps", stage.rollout_steps);
    choice("rollout_form", name_of(rollout_forms, stage.rollout_form));
    choice("loss_weights", name_of(weightings, stage.loss_weights));
    choice("optimiser", name_of(optimisers, stage.optimiser));
    line("steps", stage.steps);
    line("batch", stage.batch);
    line("max_lr", stage.max_lr);
    line("warmup_fraction", stage.warmup_fraction);
    line("div_factor", stage.div_factor);
    line("final_div_factor", stage.final_div_factor);
    line("cycle_momentum", stage.cycle_momentum);
    line("weight_decay", stage.weight_decay);
    line("clip", stage.clip);
    line("noise", stage.noise);
    line("noise_from", stage.noise_from);
    line("noise_to", stage.noise_to);
    line("augmentation", stage.augmentation);
    line("window", stage.window);
    line("horizon", stage.horizon);
  }
  return text;
}

}  // namespace mac
