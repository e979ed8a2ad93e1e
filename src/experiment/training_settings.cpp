#include "experiment/training_settings.hpp"

namespace mac {

namespace {

// The names of the choices, in the order of their enums.
const std::vector<std::string> losses{"closure", "step", "rollout", "crps", "energy", "likelihood"};
const std::vector<std::string> rollout_forms{"sequence", "autoregressive"};
const std::vector<std::string> rollout_gradients{"full", "identity", "network"};
const std::vector<std::string> scalings{"max_abs", "mean_std", "per_mode"};
const std::vector<std::string> weightings{"none", "effect", "relative"};
const std::vector<std::string> lead_weightings{"equal", "inverse"};
const std::vector<std::string> optimisers{"adamw", "soap", "lbfgs"};
const std::vector<std::string> selections{"loss", "rollout", "last"};
const std::vector<std::string> precisions{"float32", "float64"};
const std::vector<std::string> holds{"zero", "linear"};
const std::vector<std::string> targets{"instant", "mean"};

/// The paper's settings for Burgers' equation (tab_burgers_training_hyperparameters); its other experiments say
/// where they differ.
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

/// For problems that nobody tuned. Noise makes a closure that stays on course in a free rollout; how much of
/// it, the learning rate and the size of the network are only where the search starts (auto_recipe.hpp).
Draft auto_recipe() {
  Draft draft = fast_recipe();
  draft.plan.recipe = "auto";
  draft.plan.validation_beyond = 2;
  draft.stage.steps = 4000;
  draft.stage.noise = 0.03;
  return draft;
}

constexpr SettingOptions required{.required = true};
/// Of settings that don't change the model, and of files, whose content is what counts.
constexpr SettingOptions not_in_text{.in_text = InText::never};
constexpr SettingOptions if_changed{.in_text = InText::if_changed};

SettingTable<NetworkShape> frame_sizes() {
  SettingTable<NetworkShape> table;
  table.integer("d_model", &NetworkShape::d_model, {1, 4096}, "numbers between the blocks", required)
      .integer("blocks", &NetworkShape::n_blocks, {1, 64}, "blocks one after the other", required)
      .flag(
          "deviations", &NetworkShape::deviations,
          "the network predicts a mean and a deviation of each closure; noise times the deviation is added");
  return table;
}

}  // namespace

// The order of the keys is that of to_text: it is part of checkpoints and of the hashes of mac run.

const SettingTable<TrainingPlan>& training_settings() {
  using Plan = TrainingPlan;
  static const SettingTable<Plan> table = [] {
    SettingTable<Plan> t;
    t.choice("recipe", &Plan::recipe, recipe_names(), "fills in the defaults of all other settings");
    t.choice(
        "hold", [](auto& plan) -> auto& { return plan.held.hold; }, holds,
        "the closure within a step: constant, or extrapolated from the last two");
    t.choice(
        "target", [](auto& plan) -> auto& { return plan.held.target; }, targets,
        "what is learnt: the closure at a time, or its mean over the step that follows");
    t.choice("normalisation", &Plan::normalisation, scalings,
             "scales from the training data: each component by its largest value, each by mean and standard "
             "deviation, or one scale for what the symmetries mix");
    t.string(
        "init", &Plan::init, "a file",
        "a network (`.safetensors`, seen from the folder of the experiment) whose weights training starts "
        "from, instead of random ones",
        not_in_text);
    t.choice("precision", &Plan::precision, precisions, "of the weights, in training and in the file");
    t.number("averaging", &Plan::averaging, {0, 0.999999},
             "decay of an exponential average of the weights, which becomes the model; 0: none");
    t.choice("select", &Plan::select, selections,
             "which weights become the model: those with the least validation loss, with the least error of "
             "free rollouts over validation data, or the last");
    t.integer("validate_every", &Plan::validate_every, {1}, "steps between validations");
    t.integer("validation_trajectories", &Plan::validation_trajectories, {1},
              "pieces of validation data at each");
    t.number("validation_horizon", &Plan::validation_horizon, non_negative,
             "length of a validation rollout; 0: as long as the sequences trained on");
    t.integer("patience", &Plan::patience, {0},
              "validations without a better one after which a stage ends; 0: never",
              {.in_text = InText::if_changed});
    t.number(
        "validation_beyond", &Plan::validation_beyond, non_negative,
        "validation rollouts go on for this many times their horizon; the share that strays from the data's "
        "range is added to their error",
        if_changed);
    t.number("history", &Plan::history, non_negative,
             "length of the true past that is read first: errors count and rollouts run free from there on",
             if_changed);
    t.integer("checkpoint_every", &Plan::checkpoint_every, {1}, "steps between checkpoints", not_in_text);
    t.integer("seed", &Plan::seed, {0}, "of weights, batches, noise and augmentation");
    t.number("memory", &Plan::memory, non_negative,
             "GB of data kept in memory (a GPU's own with `--device cuda`); more is read as needed",
             not_in_text);
    return t;
  }();
  return table;
}

const SettingTable<StagePlan>& stage_settings() {
  using Plan = StagePlan;
  static const SettingTable<Plan> table = [] {
    SettingTable<Plan> t;
    t.choice("loss", &Plan::loss, losses,
             "what is compared with the data: the predicted closure, or the resolved variables one or "
             "`rollout_steps` coupled steps on, differentiated through the RK4 step; of a network with "
             "`noise_channels` the distribution of the latter: the almost fair CRPS of each variable, or the "
             "energy score of all; with `deviations` the `likelihood` of the closure as well");
    t.integer("rollout_steps", &Plan::rollout_steps, {1},
              "coupled steps of the losses `rollout`, `crps`, `energy`");
    t.choice("rollout_form", &Plan::rollout_form, rollout_forms,
             "what the network reads after s steps: the sequence of all s-step predictions (the paper's), or "
             "each start goes on from its own memory");
    t.choice(
        "rollout_gradient", &Plan::rollout_gradient, rollout_gradients,
        "how gradients of `step` and `rollout` go back through the reduced equations: exactly; past them "
        "from state to state, as if they did not depend on the state; or not at all, the states being "
        "data. The last two need no derivative of the equations",
        if_changed);
    t.choice("loss_weights", &Plan::loss_weights, weightings,
             "how errors count: all the same, by a component's effect on its variable, or relative as in the "
             "tables");
    t.integer("members", &Plan::members, {2, 1024}, "runs that `crps` and `energy` compare with the data",
              if_changed);
    t.choice("lead_weights", &Plan::lead_weights, lead_weightings,
             "how the steps of these runs count: all the same, or step s as 1/s, for errors grow about as s",
             if_changed);
    t.choice("optimiser", &Plan::optimiser, optimisers,
             "PyTorch's AdamW; Adam's step in the eigenbases of the gradients' covariances; or quasi-Newton "
             "steps with a line search on one batch, drawn once for the stage");
    t.integer("steps", &Plan::steps, {1},
              "steps of the optimiser, under PyTorch's OneCycleLR; left out, `auto` goes by the number of "
              "sequences");
    t.integer("batch", &Plan::batch, {1}, "sequences a step");
    t.number("max_lr", &Plan::max_lr, positive,
             "largest learning rate; of `lbfgs` the length of the first step");
    t.number("warmup_fraction", &Plan::warmup_fraction, fraction,
             "share of the steps in which the learning rate rises");
    t.number("div_factor", &Plan::div_factor, positive, "`max_lr` over the first learning rate");
    t.number("final_div_factor", &Plan::final_div_factor, positive, "the first learning rate over the last");
    t.flag("cycle_momentum", &Plan::cycle_momentum,
           "the momentum falls from .95 to .85 where the learning rate rises, and back; otherwise it is .9");
    t.number("weight_decay", &Plan::weight_decay, non_negative, "decoupled, on all parameters");
    t.number("clip", &Plan::clip, non_negative, "largest norm of a gradient; 0: any");
    t.number("noise", &Plan::noise, non_negative, "standard deviation of noise on the normalised input");
    t.number("noise_from", &Plan::noise_from, fraction, "share of the steps after which noise starts");
    t.number("noise_to", &Plan::noise_to, fraction, "share of the steps after which it ends");
    t.flag("augmentation", &Plan::augmentation,
           "random translations, reflections or cyclic shifts, as the system declares them");
    t.integer("window", &Plan::window, {0}, "times of the sequences cut from a trajectory; 0: all of it");
    t.integer("sites", &Plan::sites, {0},
              "sites of a local network whose closures a sample of the loss `closure` has, drawn anew each "
              "step; 0: all",
              if_changed);
    t.number("horizon", &Plan::horizon, non_negative, "only times up to here are used; 0: all");
    return t;
  }();
  return table;
}

const SettingTable<NetworkShape>& size_settings(LayerKind kind) {
  static const SettingTable<NetworkShape> frame = frame_sizes();
  static const SettingTable<NetworkShape> with_states = frame_sizes().integer(
      "d_state", &NetworkShape::d_state, {1, 1024},
      "states of each channel: numbers of a Mamba, complex ones of an oscillator", required);
  return has_states(kind) ? with_states : frame;
}

const SettingTable<NoiseInputs>& noise_settings() {
  static const SettingTable<NoiseInputs> table = [] {
    SettingTable<NoiseInputs> t;
    t.integer("noise_channels", &NoiseInputs::channels, {0, 1024},
              "random numbers that the network reads at every step: a stochastic closure; 0: none");
    t.number("noise_time", &NoiseInputs::time, non_negative,
             "time over which they are correlated; 0: new ones at every step");
    return t;
  }();
  return table;
}

std::vector<std::string> recipe_names() { return {"paper", "fast", "auto"}; }

Draft recipe(const std::string& name) {
  return name == "paper" ? paper_recipe() : name == "auto" ? auto_recipe() : fast_recipe();
}

std::string_view to_string(LossKind kind) { return losses[static_cast<std::size_t>(kind)]; }

}  // namespace mac
