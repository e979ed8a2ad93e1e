#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mac/baselines.hpp>
#include <mac/cuda.hpp>
#include <mac/error.hpp>
#include <mac/model.hpp>
#include <mac/open_model.hpp>
#include <mac/report.hpp>
#include <mac/run.hpp>
#include <mac/step_stability.hpp>
#include <mac/system_parameters.hpp>
#include <mac/training.hpp>
#include <mac/version.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/standard_streams.hpp"
#include "data/open_on_ranks.hpp"
#include "experiment/baseline_kinds.hpp"
#include "io/atomic_file.hpp"
#include "io/content_hash.hpp"
#include "io/input_file.hpp"
#include "io/json_text.hpp"
#include "io/output_lock.hpp"
#include "parallel/ranks_in_order.hpp"
#include "run/experiment_copy.hpp"
#include "run/manifest.hpp"

namespace mac {

namespace fs = std::filesystem;

namespace {

/// A model to train, or to take as it is, and to roll out.
struct Job {
  ModelPlan plan;
  std::string canonical;  // its entry of [[models]]
  std::string file;       // models/...
  std::string rollout;    // rollouts/...
  std::size_t members;    // runs from each state
};

/// "AMD EPYC 9654 96-Core Processor, 2 threads": what wall times were measured on. With a device, networks
/// were trained on it.
std::string machine(Device device) {
  std::string processor = "unknown processor";
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("model name")) {
      processor = line.substr(std::min(line.size(), line.find(':') + 2));
      break;
    }
  return fmt::format("{}, {} threads{}", processor, std::thread::hardware_concurrency(),
                     device == Device::cuda ? ", networks on " + cuda_description() : "");
}

class Study {
 public:
  Study(const Experiment& experiment, const std::string& folder, const RunOptions& options)
      : experiment_(experiment), folder_(folder), options_(options), manifest_(folder) {}

  RunResult run() {
    check();
    std::optional<OutputLock> lock;
    on_root([&] {
      make_folders();
      lock.emplace(folder_);
      manifest_ = Manifest(folder_);  // by now nobody else writes it
      write_experiment();
    });
    generate_data();
    if (options_.only_data) return {{experiment_, {}}, "", done_, kept_, {}};
    const DataFile data = open_on_ranks(path("data.h5"));
    if (auto warning = stability_warning(*experiment_.system, experiment_.rollout, data))
      warn(std::move(*warning));
    std::vector<std::string> rollouts;
    const bool alone = ranks().size() == 1;
    if (!alone) train_over_ranks(data);
    for (const std::vector<Job>& together : jobs()) {
      if (together[0].plan.file)
        take_model(together[0]);
      else if (alone)
        train_models(together, data);
      for (const Job& job : together) {
        ModelRequest request{path(job.file), job.plan.name, {}, {}};
        request.allow_other_parameters = options_.allow_other_parameters;
        roll_out(job.rollout, request, content(job.file), data, job.members);
        rollouts.push_back(job.rollout);
      }
    }
    const HeldClosure held = coupling();
    roll_out("rollouts/markov.h5", {"markov", {}, {}, {}}, "markov", data, 1);
    roll_out("rollouts/exact.h5", {"exact", {}, held.hold, held.target},
             fmt::format("exact {} {}", to_string(held.hold), to_string(held.target)), data, 1);
    rollouts.insert(rollouts.end(), {"rollouts/markov.h5", "rollouts/exact.h5"});
    Evaluation evaluation = evaluate_rollouts(rollouts);
    if (options_.report) write_report();
    return {std::move(evaluation), options_.report ? path("report.html") : "", done_, kept_,
            std::move(warnings_)};
  }

 private:
  bool has_split(std::string_view name) const {
    return std::ranges::find(experiment_.data.splits, name, &SplitPlan::name) !=
           experiment_.data.splits.end();
  }

  /// Kept for the caller as well.
  void warn(std::string warning) {
    if (options_.say_warnings) say("warning: {}\n", warning);
    warnings_.push_back(std::move(warning));
  }

  /// Refuses what would fail only after hours, before anything is made.
  void check() {
    const std::string& file = experiment_.config.file();
    const std::vector<std::string> stages = run_stages();
    for (const std::string& name : options_.force)
      if (std::ranges::find(stages, name) == stages.end())
        throw UsageError("there is no stage \"{}\" to force, only {}", name, fmt::join(stages, ", "));
    if (options_.device == Device::cuda)
      if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error("{}", reason);
    if (!experiment_.system->has_equations())
      throw UsageError("{}: recorded data come without equations to simulate; train on them with mac train",
                       file);
    if (!has_split("test") && !has_split("ood"))
      throw UsageError("{}: has no [data.test] and no [data.ood] to roll the models out on", file);
    for (const ModelPlan& model : experiment_.models) {
      if (model.file) {
        check_trained_model(*model.file, experiment_, options_.allow_other_parameters);
        if (auto warning = parameters_warning(*model.file, file, experiment_)) warn(std::move(*warning));
      }
      if (model.baseline) check_reach(model);
      if (model.network && !model.network->training.init_file.empty())
        require_file(model.network->training.init_file);
      if (model.network && model.network->training.select != Selection::last && !has_split("validation"))
        throw UsageError("{}: has no [data.validation] to select the weights of {} by; say select = \"last\"",
                         file, model.name);
    }
  }

  void check_reach(const ModelPlan& model) const {
    const auto reach = model.baseline->reach();
    for (const SplitPlan& split : experiment_.data.splits)
      if (reach && is_rolled_out(split.name) && split.horizon > *reach * (1 + 1e-9))
        throw UsageError("{}: {} reaches to t = {:g}, [data.{}] to {:g}; give it a longer horizon",
                         experiment_.config.file(), model.name, *reach, split.name, split.horizon);
  }

  void make_folders() const {
    for (const char* name : {"models", "rollouts"}) make_folder(folder_ / name);
  }

  std::string path(const std::string& output) const { return (folder_ / output).string(); }

  bool forced(const std::string& stage) const {
    return std::find(options_.force.begin(), options_.force.end(), stage) != options_.force.end();
  }

  /// An output and what it is made from.
  struct Output {
    std::string stage, file, hash;
  };
  /// Nothing where the output that is there was made from the same inputs.
  std::optional<Output> missing(const std::string& stage, const std::string& file,
                                std::vector<std::string> inputs) {
    inputs.insert(inputs.begin(), {stage, version()});
    if (options_.portable && stage == "train") inputs.emplace_back("portable");
    Output wanted{stage, file, hash_parts(inputs)};
    if (of_root(ranks().root() && (forced(stage) || !manifest_.is_valid(file, wanted.hash)))) return wanted;
    ++kept_;
    return std::nullopt;
  }

  /// The manifest is rank 0's.
  std::string content(const std::string& output) const {
    return ranks().root() ? manifest_.content(output) : std::string();
  }
  static bool of_root(bool value) {
    Bytes byte(1, static_cast<std::byte>(value));
    ranks().broadcast(byte);
    return byte[0] != std::byte{0};
  }

  /// Makes what is missing, all at once.
  void make(const std::vector<Output>& outputs, const std::function<void()>& all) {
    if (!options_.quiet)
      for (const Output& output : outputs) say("{:<9} {}\n", output.stage, path(output.file));
    const auto began = std::chrono::steady_clock::now();
    all();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    on_root([&] {
      for (const Output& output : outputs)
        record(output, seconds.count() / static_cast<double>(outputs.size()));
    });
    done_ += outputs.size();
  }

  void note_history(const std::string& model) {
    if (const std::string history = TrainingFiles(model).history; fs::exists(path(history)))
      manifest_.note(history);
  }

  /// The history of a training first: a model that is recorded is not looked at again after a kill.
  void record(const Output& output, double seconds) {
    if (output.stage == "train") note_history(output.file);
    manifest_.record(output.file, output.hash);
    record_time(fmt::format("{} {}", output.stage, output.file), seconds);
  }

  void stage(const std::string& name, const std::string& output, std::vector<std::string> inputs,
             const std::function<void()>& one) {
    if (const auto made = missing(name, output, std::move(inputs))) make({*made}, one);
  }

  /// What one process does.
  void stage_of_root(const std::string& name, const std::string& output, std::vector<std::string> inputs,
                     const std::function<void()>& one) {
    stage(name, output, std::move(inputs), [&] { on_root(one); });
  }

  /// Wall times for the report: timing.json,
  /// {"machine": "...", "stages": {"train models/mac-seed0.safetensors": seconds}}.
  void record_time(const std::string& what, double seconds) const {
    auto timing = nlohmann::json::object();
    if (fs::exists(path("timing.json")))
      timing = nlohmann::json::parse(read_json_text(path("timing.json")), nullptr, false);
    if (!timing.is_object()) timing = nlohmann::json::object();
    timing["machine"] = machine(options_.device);
    timing["stages"][what] = seconds;
    write_file_atomically(path("timing.json"), timing.dump(2) + "\n");
  }

  void write_experiment() {
    write_file_atomically(path("experiment.toml"), text_with_copies(experiment_));
    manifest_.note("experiment.toml");
  }

  void generate_data() {
    std::vector<std::string> made_from{experiment_.config.table("system").canonical(),
                                       experiment_.config.table("data").canonical()};
    if (const std::string how = rollout_text(experiment_); !how.empty()) made_from.push_back(how);
    stage("generate", "data.h5", made_from, [&] {
      bool taken = false;
      on_root([&] { taken = take_data(); });
      if (!of_root(taken)) generate(experiment_, path("data.h5"), {options_.threads, options_.quiet});
    });
  }

  /// [rollout], where it says anything. Who rolls out or judges reads it in the data file.
  static std::string rollout_text(const Experiment& of) {
    RolloutPlan plan = of.rollout;
    plan.members = 1;  // runs say how many themselves
    return plan == RolloutPlan{} ? "" : fmt::format("{} {}", plan.integrator, plan.substeps);
  }

  /// The data of another run of the same [system] and [data], by a link where the disk has links.
  bool take_data() const {
    if (options_.data_from.empty()) return false;
    const fs::path source = fs::path(options_.data_from) / "data.h5", target = path("data.h5");
    const auto canonical = [](const Experiment& of) {
      return of.config.table("system").canonical() + of.config.table("data").canonical() + rollout_text(of);
    };
    if (canonical(DataFile::open(source.string()).experiment()) != canonical(experiment_)) return false;
    std::error_code failure;
    fs::remove(target, failure);
    fs::create_hard_link(source, target, failure);
    if (failure) fs::copy_file(source, target, failure);
    return !failure;
  }

  /// On a device all seeds of a network train together.
  std::vector<std::vector<Job>> jobs() const {
    std::vector<std::vector<Job>> jobs;
    const std::vector<ConfigTable> tables = experiment_.config.tables("models");
    for (std::size_t i = 0; i < experiment_.models.size(); ++i) {
      const ModelPlan& model = experiment_.models[i];
      std::vector<std::uint64_t> seeds = options_.seeds;
      if (seeds.empty() || !model.network) seeds = {model.network ? model.network->training.seed : 0};
      std::size_t members = experiment_.rollout.members;
      if (model.file)
        members = static_cast<std::size_t>(
            tables[i].integer_or("members", static_cast<std::int64_t>(members), 1, 1000));
      std::vector<Job> of_model;
      for (const std::uint64_t seed : seeds) {
        ModelPlan plan = model;
        if (plan.network) plan.network->training.seed = seed;
        const std::string file = model_file_name(plan);
        std::string settings = plan.network ? to_text(plan.network->training) : std::string();
        if (plan.network && !plan.network->training.init_file.empty())
          settings += hash_file(plan.network->training.init_file);
        of_model.push_back({plan, settings + tables[i].canonical(), "models/" + file,
                            fmt::format("rollouts/{}.h5", fs::path(file).stem().string()), members});
      }
      if (options_.device == Device::cuda)
        jobs.push_back(std::move(of_model));
      else
        for (const Job& job : of_model) jobs.push_back({job});
    }
    return jobs;
  }

  /// The models that are missing, as tasks that ranks take when they are free; a single one by all of them together.
  void train_over_ranks(const DataFile& data) {
    std::vector<Job> tasks;
    std::vector<Output> outputs;
    for (const std::vector<Job>& together : jobs())
      for (const Job& job : together) {
        if (job.plan.file) continue;
        auto output = missing("train", job.file, {content("data.h5"), job.canonical});
        if (!output) continue;
        outputs.push_back(std::move(*output));
        tasks.push_back(job);
      }
    on_root([&] {
      for (const Job& job : tasks) remove_changed(job);
    });
    if (tasks.size() == 1) {
      const Job& job = tasks[0];
      make(outputs, [&] {
        if (job.plan.baseline)
          on_root([&] { train_task(job, data); });
        else
          train_task(job, data);
      });
    } else {
      std::size_t begun = 0;
      bytes_in_order(
          tasks.size(), 1, Supply::one_by_one,
          [&](std::size_t, std::size_t i) {
            const auto began = std::chrono::steady_clock::now();
            train_task(tasks[i], data);
            std::vector<double> seconds{
                std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()};
            return packed(std::array{&seconds});
          },
          [&](std::size_t i, const Bytes& bytes) {
            std::vector<double> seconds;
            unpack(bytes, std::array{&seconds});
            record(outputs[i], seconds[0]);
            if (!options_.quiet)
              say("{:<9} {} ({} of {})\n", outputs[i].stage, path(outputs[i].file), ++begun, tasks.size());
          });
      done_ += tasks.size();
    }
  }

  void train_task(const Job& job, const DataFile& data) const {
    if (job.plan.baseline) {
      train_baseline(experiment_, job.plan, data, path(job.file), options_.threads, options_.quiet);
      return;
    }
    const std::uint64_t seed = job.plan.network->training.seed;
    const std::string file = path(job.file);
    train_seeds(experiment_, job.plan, {&seed, 1}, data, {&file, 1},
                {options_.threads, options_.quiet, !forced("train"), options_.device});
  }

  /// A training goes on from its own files, and takes a model that is there for its own.
  void remove_changed(const Job& job) const {
    if (manifest_.is_changed(job.file)) fs::remove(path(job.file));
  }

  /// One baseline, or a network with several seeds.
  void train_models(const std::vector<Job>& together, const DataFile& data) {
    std::vector<Output> models;
    std::vector<std::uint64_t> seeds;
    std::vector<std::string> paths;
    const ModelPlan& plan = together[0].plan;
    for (const Job& job : together)
      if (auto model = missing("train", job.file, {manifest_.content("data.h5"), job.canonical})) {
        models.push_back(std::move(*model));
        paths.push_back(path(job.file));
        if (job.plan.network) seeds.push_back(job.plan.network->training.seed);
        remove_changed(job);
      }
    if (models.empty()) return;
    make(models, [&] {
      if (plan.baseline)
        train_baseline(experiment_, plan, data, paths[0], options_.threads, options_.quiet);
      else
        train_seeds(experiment_, plan, seeds, data, paths,
                    {options_.threads, options_.quiet, !forced("train"), options_.device});
    });
  }

  /// Copies a model that is trained already: the folder stays whole without the file it came from.
  void take_model(const Job& job) {
    stage_of_root("copy", job.file, {hash_file(*job.plan.file)}, [&] {
      const std::string target = path(job.file);
      AtomicFile copy(target);
      std::error_code failure;
      fs::copy_file(*job.plan.file, copy.temporary_path(), fs::copy_options::overwrite_existing, failure);
      if (failure) throw Error("{}: cannot be copied to {}: {}", *job.plan.file, target, failure.message());
      copy.commit();
    });
  }

  void roll_out(const std::string& output, const ModelRequest& request, const std::string& model,
                const DataFile& data, std::size_t members) {
    std::vector<std::string> inputs{content("data.h5"), model};
    if (members > 1) inputs.push_back(fmt::format("{} members", members));
    stage("rollout", output, inputs, [&] {
      RolloutOptions options;
      options.threads = options_.threads;
      options.quiet = options_.quiet;
      options.time_steps = true;
      options.validation = validation_trajectories;
      options.members = std::min(members, open_model(request, data)->most_members());
      rollout(request, data, path(output), options);
    });
    rollout_contents_.push_back(content(output));
  }

  /// The coupling of the floor: that of the first network, so that the floor is its floor.
  HeldClosure coupling() const {
    for (const ModelPlan& model : experiment_.models) {
      if (model.network) return model.network->training.held;
      if (model.file && !is_baseline(*model.file))
        if (const auto held = load_model(*model.file).held) return *held;
    }
    return {Hold::linear, Target::instant};
  }

  /// As metrics.json has it: the same numbers whether it was made now or before.
  Evaluation evaluate_rollouts(const std::vector<std::string>& rollouts) {
    std::vector<std::string> inputs = rollout_contents_;
    if (const auto table = experiment_.config.table_if("evaluation")) inputs.push_back(table->canonical());
    stage_of_root("evaluate", "metrics.json", inputs, [&] {
      std::vector<std::string> paths;
      for (const std::string& output : rollouts) paths.push_back(path(output));
      const EvaluateOptions options{path("data.h5"), &experiment_};  // its [evaluation] may be newer
      write_file_atomically(path("metrics.json"), metrics_text(evaluate_files(paths, options)));
    });
    Evaluation evaluation = read_metrics(path("metrics.json"));
    evaluation.experiment = experiment_;
    return evaluation;
  }

  void write_report() {
    std::vector<std::string> inputs = rollout_contents_;
    inputs.push_back(content("metrics.json"));
    stage_of_root("report", "report.html", inputs, [&] {
      report_run(folder_.string(), path("report.html"), {options_.threads, options_.quiet});
      for (const auto& figure : fs::directory_iterator(folder_ / "report_files"))
        manifest_.note("report_files/" + figure.path().filename().string());
    });
  }

  const Experiment& experiment_;
  fs::path folder_;
  const RunOptions& options_;
  Manifest manifest_;
  std::vector<std::string> rollout_contents_;
  std::size_t done_ = 0, kept_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<std::string> run_stages() { return {"generate", "train", "rollout", "evaluate", "report"}; }

RunResult run_study(const Experiment& experiment, const std::string& folder, const RunOptions& options) {
  return Study(experiment, folder, options).run();
}

}  // namespace mac
