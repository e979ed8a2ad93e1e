// Experiments, data sets and the stages of a study, as library functions; every stage that takes long
// releases the GIL and stops on Ctrl-C.
#include <mac/baselines.hpp>
#include <mac/data.hpp>
#include <mac/evaluation.hpp>
#include <mac/experiment.hpp>
#include <mac/onnx.hpp>
#include <mac/run.hpp>
#include <mac/training.hpp>
#include <nlohmann/json.hpp>

#include "io/input_file.hpp"
#include "module.hpp"
#include "rollout/open_model.hpp"

namespace mac::python {

namespace {

// ---- systems

PySystem make_named_system(const std::string& toml) {
  const ConfigTable table = ConfigTable::parse(toml, "System");
  PySystem system{make_system(table)};
  table.reject_unknown_keys();
  return system;
}

/// y (d) or (columns, d) -> R^(y) of the same form
Array reduced_rhs(const PySystem& system, const Array& y) {
  const std::size_t d = system.system->resolved_size();
  if (y.ndim() < 1 || y.ndim() > 2 || y.shape(y.ndim() - 1) != static_cast<py::ssize_t>(d))
    throw UsageError("y has shape {}, expected ({},) or (columns, {})", shape_text(y), d, d);
  Array rate(std::vector<py::ssize_t>(y.shape(), y.shape() + y.ndim()));
  double* const out = rate.mutable_data();
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.size()); i += d)
    system.system->reduced_rhs(y.data() + i, out + i);
  return rate;
}

std::vector<std::size_t> closure_targets(const PySystem& system) {
  const auto targets = system.system->closure_targets();
  return {targets.begin(), targets.end()};
}

void bind_system(py::module_& module) {
  py::class_<PySystem>(module, "System")
      .def(py::init(&make_named_system), py::arg("toml"))
      .def_property_readonly("name", [](const PySystem& s) { return std::string(s.system->name()); })
      .def_property_readonly("resolved_names", [](const PySystem& s) { return s.system->resolved_names(); })
      .def_property_readonly("closure_names", [](const PySystem& s) { return s.system->closure_names(); })
      .def_property_readonly("closure_targets", &closure_targets)
      .def("reduced_rhs", &reduced_rhs, py::arg("y"));
  module.def("system_names", &system_names);
  module.def("layer_kind_has_states",
             [](const std::string& kind) { return has_states(layer_kind_from(kind)); });
}

// ---- experiments

const ModelPlan& find_model(const Experiment& experiment, const std::string& name) {
  std::vector<std::string> names;
  for (const ModelPlan& plan : experiment.models) {
    if (plan.name == name) return plan;
    names.push_back(plan.name);
  }
  throw UsageError("{}: has no model \"{}\", only {}", experiment.config.file(), name,
                   fmt::join(names, ", "));
}

py::dict describe_splits(const Experiment& experiment) {
  py::dict splits;
  for (const SplitPlan& split : experiment.data.splits)
    splits[py::str(split.name)] =
        py::dict(py::arg("trajectories") = split.trajectories, py::arg("times") = split.intervals + 1,
                 py::arg("horizon") = split.horizon);
  return splits;
}

py::dict describe_models(const Experiment& experiment) {
  py::dict models;
  for (const ModelPlan& plan : experiment.models) models[py::str(plan.name)] = plan.kind;
  return models;
}

void bind_experiment(py::module_& module) {
  py::class_<Experiment>(module, "Experiment")
      .def_static("read", &Experiment::read, py::arg("path"))
      .def_static("parse", &Experiment::parse, py::arg("text"), py::arg("name"))
      .def_property_readonly("text", [](const Experiment& e) { return e.config.text(); })
      .def_property_readonly("file", [](const Experiment& e) { return e.config.file(); })
      .def_property_readonly("system", [](const Experiment& e) { return PySystem{e.system}; })
      .def_property_readonly("closure_step", [](const Experiment& e) { return e.data.closure_step(); })
      .def_property_readonly("splits", &describe_splits)
      .def_property_readonly("models", &describe_models);
}

// ---- data

py::dict read_split(const DataFile& file, const std::string& name) {
  const DataSplit split = file.split(name);
  const std::size_t n = split.trajectories(), times = split.times(), d = split.resolved_size(),
                    c = split.closure_size();
  const auto extent = [](std::size_t size) { return static_cast<py::ssize_t>(size); };
  Array resolved = make_array({extent(n), extent(times), extent(d)});
  Array closure = make_array({extent(n), extent(times), extent(c)});
  Array mean = make_array({extent(n), extent(times - 1), extent(c)});
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < n; ++i) {
    split.read_resolved(i, 0, times, resolved.mutable_data() + i * times * d);
    split.read_closure(i, 0, times, closure.mutable_data() + i * times * c);
    split.read_closure_mean(i, 0, times - 1, mean.mutable_data() + i * (times - 1) * c);
    labels.push_back(split.label(i));
  }
  py::dict arrays;
  arrays["time"] = py::array_t<double>(extent(times), split.time().data());
  arrays["resolved"] = resolved;
  arrays["closure"] = closure;
  arrays["closure_mean"] = mean;
  arrays["labels"] = labels;
  return arrays;
}

void write_arrays(const Experiment& experiment,
                  const std::map<std::string, std::map<std::string, Array>>& splits,
                  const std::string& path) {
  std::vector<SplitArrays> arrays;
  for (const auto& [name, split] : splits)
    arrays.push_back(
        {name, view(split.at("resolved")), view(split.at("closure")), view(split.at("closure_mean"))});
  const LongCall call;
  write_data(experiment, arrays, path);
}

void bind_data(py::module_& module) {
  py::class_<DataFile>(module, "DataFile")
      .def(py::init([](const std::string& path) { return DataFile::open(path); }), py::arg("path"))
      .def_property_readonly("path", &DataFile::path)
      .def_property_readonly("experiment", [](const DataFile& file) { return file.experiment(); })
      .def_property_readonly("splits", &DataFile::splits)
      .def("read", &read_split, py::arg("split"));
  module.def("write_data", &write_arrays, py::arg("experiment"), py::arg("splits"), py::arg("path"));
}

// ---- stages

py::dict train_network(const Experiment& experiment, const std::string& model, const std::string& data,
                       const std::string& path, std::optional<std::uint64_t> seed, bool resume,
                       const std::string& device, int threads, bool quiet) {
  ModelPlan plan = find_model(experiment, model);
  const TrainOptions options{threads, quiet, resume, device_from(device)};
  if (plan.file) throw UsageError("{}: is trained already: {}", plan.name, *plan.file);
  if (plan.baseline) {
    const LongCall call;
    const std::string words = train_baseline(experiment, plan, DataFile::open(data), path, threads, quiet);
    const py::gil_scoped_acquire acquire;
    return py::dict(py::arg("summary") = words);
  }
  if (seed) plan.network->training.seed = *seed;
  const LongCall call;
  const TrainingResult result = train(experiment, plan, DataFile::open(data), path, options);
  const py::gil_scoped_acquire acquire;
  return py::dict(py::arg("best_step") = result.best_step,
                  py::arg("best_validation") = result.best_validation,
                  py::arg("seconds_per_step") = result.seconds_per_step);
}

void roll_out_data(const std::string& model, const std::string& data, const std::string& path,
                   const std::string& name, std::optional<std::string> hold, std::vector<std::string> splits,
                   std::optional<double> to, int threads, bool quiet) {
  ModelRequest request{model, name, std::nullopt, std::nullopt};
  if (hold) request.hold = hold_from(*hold);
  RolloutOptions options;
  options.splits = std::move(splits);
  options.to = to;
  options.threads = threads;
  options.quiet = quiet;
  const LongCall call;
  const DataFile file = DataFile::open(data);
  rollout(request, file, path, options);
}

py::dict read_rollout(const std::string& path) {
  const RolloutFile file = RolloutFile::open(path);
  const auto d = static_cast<py::ssize_t>(file.experiment.system->resolved_size());
  const auto c = static_cast<py::ssize_t>(file.experiment.system->closure_size());
  py::dict splits;
  for (const RolloutSplit& split : file.splits) {
    const auto n = static_cast<py::ssize_t>(split.trajectories()),
               times = static_cast<py::ssize_t>(split.time.size());
    const auto array = [](const std::vector<double>& values, const std::vector<py::ssize_t>& shape) {
      return py::array_t<double>(shape, values.data());
    };
    py::dict arrays;
    arrays["time"] = array(split.time, {times});
    arrays["resolved"] = array(split.resolved, {n, times, d});
    arrays["closure"] = array(split.closure, {n, times, c});
    arrays["true_resolved"] = array(split.true_resolved, {n, times, d});
    arrays["true_closure"] = array(split.true_closure, {n, times, c});
    arrays["blow_up_time"] = array(split.blow_up_time, {n});
    arrays["labels"] = split.labels;
    splits[py::str(split.name)] = arrays;
  }
  return splits;
}

/// Metrics as the text of metrics.json.
std::string evaluate_files(const std::vector<std::string>& rollouts) {
  const LongCall call;
  std::vector<RolloutFile> files;
  for (const std::string& path : rollouts) files.push_back(RolloutFile::open(path));
  return to_json(evaluate(std::move(files))).dump();
}

py::tuple run_experiment(const Experiment& experiment, const std::string& folder, const RunOptions& options) {
  std::string metrics, report;
  std::size_t done = 0, kept = 0;
  {
    const LongCall call;
    const RunResult result = run_study(experiment, folder, options);
    metrics = to_json(result.evaluation).dump();
    report = result.report;
    done = result.done;
    kept = result.kept;
  }
  return py::make_tuple(metrics, report, done, kept);
}

void bind_stages(py::module_& module) {
  module.def(
      "generate",
      [](const Experiment& experiment, const std::string& path, int threads, bool quiet) {
        const LongCall call;
        generate(experiment, path, {threads, quiet});
      },
      py::arg("experiment"), py::arg("path"), py::arg("threads"), py::arg("quiet"));
  module.def("train", &train_network, py::arg("experiment"), py::arg("model"), py::arg("data"),
             py::arg("path"), py::arg("seed"), py::arg("resume"), py::arg("device"), py::arg("threads"),
             py::arg("quiet"));
  module.def("rollout_data", &roll_out_data, py::arg("model"), py::arg("data"), py::arg("path"),
             py::arg("name"), py::arg("hold"), py::arg("splits"), py::arg("to"), py::arg("threads"),
             py::arg("quiet"));
  module.def("read_rollout", &read_rollout, py::arg("path"));
  module.def("evaluate", &evaluate_files, py::arg("rollouts"));
  module.def(
      "run",
      [](const Experiment& experiment, const std::string& folder, std::vector<std::uint64_t> seeds,
         std::vector<std::string> force, const std::string& device, int threads, bool quiet) {
        return run_experiment(experiment, folder,
                              {threads, quiet, device_from(device), std::move(seeds), std::move(force)});
      },
      py::arg("experiment"), py::arg("folder"), py::arg("seeds"), py::arg("force"), py::arg("device"),
      py::arg("threads"), py::arg("quiet"));
  module.def(
      "export_onnx",
      [](const std::string& model, const std::string& path) {
        check_output(path, {model});
        export_onnx(load_model(model), path);
      },
      py::arg("model"), py::arg("path"));
}

}  // namespace

void bind_study(py::module_& module) {
  bind_system(module);
  bind_experiment(module);
  bind_data(module);
  bind_stages(module);
}

}  // namespace mac::python
