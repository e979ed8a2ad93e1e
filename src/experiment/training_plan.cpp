#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mac/error.hpp>
#include <mac/experiment.hpp>
#include <mac/training_plan.hpp>
#include <set>

#include "experiment/baseline_kinds.hpp"
#include "experiment/model_inputs.hpp"
#include "experiment/training_settings.hpp"

namespace mac {

namespace {

void read_stage(const ConfigTable& table, StagePlan& stage) {
  stage_settings().read(table, stage);
  // Noise and augmentation draw from one stream a sample, numbered in 32 bits.
  if (static_cast<double>(stage.steps) * static_cast<double>(stage.batch) > 4e9)
    table.fail("steps", fmt::format("{} steps of {} samples are more than 4 billion samples", stage.steps,
                                    stage.batch));
}

void read_training(const ConfigTable& table, Draft& draft) {
  if (table.has("recipe")) draft = recipe(table.choice("recipe", recipe_names()));
  training_settings().read(table, draft.plan);
  read_stage(table, draft.stage);
  for (const char* key :
       {"noise", "max_lr", "loss", "window", "steps", "batch", "target", "validation_trajectories"})
    if (table.has(key)) draft.plan.given.insert(key);
}

/// Our own systems were tuned by hand. Elsewhere the settings are searched for, unless the experiment says
/// what a search has to leave open.
std::string default_recipe(const System& system, const std::optional<ConfigTable>& shared,
                           const std::optional<ConfigTable>& own) {
  for (const char* tuned : {"burgers", "kdv", "lorenz96", "power_grid"})
    if (system.name() == tuned) return "fast";
  for (const auto& table : {shared, own})
    if (table && (table->has("stages") || table->has("select"))) return "fast";
  return "auto";
}

/// A search judges by rollouts and makes its own stages.
void check_open_to_search(const ConfigTable& table) {
  for (const char* key : {"stages", "select"})
    if (table.has(key))
      table.fail(key, "recipe = \"auto\" decides this itself; leave it out, or say recipe = \"fast\"");
}

/// Refuses a stage that the training data cannot serve.
void check(const StagePlan& stage, const TrainingPlan& plan, const DataPlan& data, const ConfigTable& table) {
  const auto train = std::find_if(data.splits.begin(), data.splits.end(),
                                  [](const SplitPlan& split) { return split.name == "train"; });
  if (train == data.splits.end()) table.fail("", "training needs a [data.train]");
  if (stage.horizon > train->horizon * (1 + 1e-9))
    table.fail("horizon", fmt::format("is {}, but [data.train] ends at {}", stage.horizon, train->horizon));
  const std::size_t intervals =
      stage.horizon > 0 ? static_cast<std::size_t>(std::lround(stage.horizon / data.closure_step()))
                        : train->intervals;
  const bool means = compares_closures(stage.loss) && plan.held.target == Target::mean;
  const std::size_t longest = means ? intervals : intervals + 1;
  const std::size_t length = stage.window > 0 ? stage.window : longest;
  if (length > longest)
    table.fail("window",
               fmt::format("is {}, but a training trajectory has {} usable times", length, longest));
  const bool rolls = stage.loss == LossKind::rollout || is_score(stage.loss);
  const std::size_t ahead = rolls ? stage.rollout_steps : 1;
  if (length <= ahead)
    table.fail(rolls ? "rollout_steps" : "window",
               fmt::format("a sequence of {} times has no room for {} step(s) ahead", length, ahead));
  if (std::lround(plan.history / data.closure_step()) + static_cast<long>(ahead) >= static_cast<long>(length))
    table.fail("history", fmt::format("is {}, which leaves nothing of a sequence of {} times to train on",
                                      plan.history, length));
}

/// The file of a model; a relative path begins in the folder of the experiment.
std::string model_path(const ConfigTable& table, std::string_view key,
                       const std::vector<std::string>& extensions) {
  const std::filesystem::path file = table.string(key);
  if (std::ranges::find(extensions, file.extension().string()) == extensions.end())
    table.fail(key, fmt::format("is \"{}\", expected a model: NAME.safetensors{}", file.string(),
                                extensions.size() > 1 ? ", or the NAME.h5 of a baseline" : ""));
  return (std::filesystem::path(table.file()).parent_path() / file).lexically_normal().string();
}

TrainingPlan read_plan(const ConfigTable& experiment, const ConfigTable& model, const System& system,
                       const DataPlan& data) {
  const auto shared = experiment.table_if("training"), own = model.table_if("training");
  Draft draft = recipe(default_recipe(system, shared, own));
  if (shared) read_training(*shared, draft);
  if (own) read_training(*own, draft);

  for (const auto& table : {shared, own})
    if (table && draft.plan.recipe == "auto") check_open_to_search(*table);
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
    check(stage, draft.plan, data, table);
    draft.plan.stages.push_back(stage);
  }
  if (draft.plan.patience > 0 && draft.plan.select == Selection::last)
    (own && own->has("patience") ? *own : *shared)
        .fail("patience", "counts validations, and there are none with select = \"last\"");
  if (!draft.plan.init.empty())
    draft.plan.init_file = model_path(own && own->has("init") ? *own : *shared, "init", {".safetensors"});
  if (stages.empty()) {
    check(draft.stage, draft.plan, data, own ? *own : shared ? *shared : model);
    draft.plan.stages.push_back(draft.stage);
  }
  return draft.plan;
}

/// Without equations there is nothing to couple the network to.
void check_needs_no_equations(const TrainingPlan& plan, const System& system, const ConfigTable& table) {
  if (plan.select == Selection::rollout && plan.recipe != "auto")
    table.fail("",
               fmt::format("{} data cannot be rolled out; say select = \"loss\" or \"last\" in [training]",
                           system.name()));
  for (const StagePlan& stage : plan.stages)
    if (!compares_closures(stage.loss))
      table.fail("",
                 fmt::format("{} data have no equations for the loss \"{}\"; the loss \"closure\" needs none",
                             system.name(), to_string(stage.loss)));
}

/// Sizes that the experiment does not say are where a search starts.
void read_open_size(const ConfigTable& table, NetworkPlan& plan) {
  NetworkShape& shape = plan.shape;
  shape.d_model = 16;
  shape.n_blocks = 2;
  shape.d_state = has_states(shape.kind) ? 8 : 0;
  for (const auto& setting : size_settings(shape.kind).settings()) {
    if (!table.has(setting.key)) continue;
    setting.read(table, shape);
    plan.training.given.insert("size");
  }
}

/// Noise is learnt from scores, deviations from the likelihood as well, and neither from anything else.
void check_scores(const NetworkPlan& plan, const ConfigTable& table) {
  if (plan.noise.channels == 0 && plan.noise.time > 0)
    table.fail("noise_time", "is that of noise, and the network reads none: say noise_channels");
  if (plan.noise.channels > 0 && plan.training.recipe == "auto")
    table.fail("noise_channels", "recipe = \"auto\" is for deterministic networks; say recipe = \"fast\"");
  if (plan.noise.channels > 0 && !plan.inputs.is_plain())
    table.fail(
        "noise_channels",
        "a network that reads noise reads all resolved variables beside it, and nothing else; leave out "
        "local, frame and [models.inputs]");
  for (const StagePlan& stage : plan.training.stages)
    if (is_score(stage.loss) && plan.noise.channels == 0)
      table.fail("", fmt::format("the loss \"{}\" scores a stochastic network: give it noise_channels",
                                 to_string(stage.loss)));
    else if (stage.loss == LossKind::likelihood && !plan.shape.deviations)
      table.fail("",
                 "the loss \"likelihood\" is of a network that predicts deviations: say deviations = true");
    else if (!is_score(stage.loss) && stage.loss != LossKind::likelihood && plan.noise.channels > 0)
      table.fail("noise_channels",
                 fmt::format("a network that reads noise is trained by the loss \"crps\" or "
                             "\"energy\", with deviations also by \"likelihood\", not by \"{}\"",
                             to_string(stage.loss)));
}

NetworkPlan read_network(const ConfigTable& experiment, const ConfigTable& table, const System& system,
                         const DataPlan& data) {
  NetworkPlan plan;
  NetworkShape& shape = plan.shape;
  const bool kind_is_open = table.string("kind") == "auto";
  shape.kind = kind_is_open ? LayerKind::mamba : layer_kind_from(table.string("kind"));
  plan.inputs = read_model_inputs(table, default_given(data));
  const InputMap inputs = bind_inputs(plan.inputs, system, data, table);
  noise_settings().read(table, plan.noise);
  shape.d_in = inputs.features() + plan.noise.channels;
  shape.d_out = inputs.outputs();
  plan.training = read_plan(experiment, table, system, data);
  if (!kind_is_open) plan.training.given.insert("kind");
  if (table.has("frame")) plan.training.given.insert("frame");
  if (kind_is_open && plan.training.recipe != "auto")
    table.fail("kind", fmt::format("is \"auto\", which only recipe = \"auto\" can decide; say {}",
                                   fmt::join(layer_kind_names(), ", ")));
  if (kind_is_open && table.has("d_state"))
    table.fail("d_state", "is a size that not every kind has; say kind = \"mamba\" with it");
  if (plan.training.recipe == "auto")
    read_open_size(table, plan);
  else
    size_settings(shape.kind).read(table, shape);
  if (!has_states(shape.kind) && table.has("d_state"))
    table.fail("d_state", fmt::format("is a size that a {} does not have", to_string(shape.kind)));
  if (shape.deviations) {
    if (table.has("noise_channels"))
      table.fail("noise_channels", "with deviations there is one for each closure; leave it out");
    plan.noise.channels = shape.d_out;
    shape.d_in += shape.d_out;
  }
  validate(shape);
  check_scores(plan, table);
  for (const StagePlan& stage : plan.training.stages)
    if (stage.sites > inputs.sites())
      table.fail("", fmt::format("sites = {} in [training], but {}", stage.sites,
                                 plan.inputs.is_local() ? fmt::format("the lattice has {}", inputs.sites())
                                                        : "only a local network has sites"));
  if (!system.has_equations()) check_needs_no_equations(plan.training, system, table);
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

/// A model that is trained already.
std::string read_file(const ConfigTable& table) {
  for (const char* key : {"kind", "training"})
    if (table.has(key)) table.fail(key, "a model with a file is trained already: its file says the rest");
  table.integer_or("members", 1, 1, 1000);  // for mac run, instead of that of [rollout]
  return model_path(table, "file", {".safetensors", ".h5"});
}

ModelPlan read_model(const ConfigTable& experiment, const ConfigTable& table, const System& system,
                     const DataPlan& data) {
  ModelPlan model;
  if (table.has("file")) model.file = read_file(table);
  std::vector<std::string> kinds = layer_kind_names();
  kinds.push_back("auto");
  for (const BaselineKind& kind : baseline_kinds()) kinds.push_back(kind.name);
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
  const auto baseline = std::ranges::find(baseline_kinds(), model.kind, &BaselineKind::name);
  if (!system.is_known() && baseline != baseline_kinds().end())
    table.accept_all_keys();  // it is fitted, and its settings depend on what the system is
  else if (baseline != baseline_kinds().end())
    model.baseline = baseline->read(table, system, data);
  else
    model.network = read_network(experiment, table, system, data);
  if (model.network) model.kind = to_string(model.network->shape.kind);
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
  std::string text = training_settings().text(plan);
  for (const StagePlan& stage : plan.stages) text += "[[stages]]\n" + stage_settings().text(stage);
  return text;
}

}  // namespace mac
