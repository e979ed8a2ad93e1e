// Experiments, data sets and the stages of a study, as library functions; every stage that takes long
// releases the GIL and stops on Ctrl-C.
#include <mac/baselines.hpp>
#include <mac/data.hpp>
#include <mac/evaluation.hpp>
#include <mac/experiment.hpp>
#include <mac/import.hpp>
#include <mac/judge.hpp>
#include <mac/model.hpp>
#include <mac/onnx.hpp>
#include <mac/open_model.hpp>
#include <mac/recorded.hpp>
#include <mac/run.hpp>
#include <mac/step_stability.hpp>
#include <mac/system_parameters.hpp>
#include <mac/training.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "closure.hpp"
#include "data/write_data.hpp"
#include "function_system.hpp"
#include "module.hpp"
#include "python_rhs.hpp"

namespace mac::python {

namespace {

// ---- systems

PySystem make_named_system(const std::string& toml) {
  const ConfigTable table = ConfigTable::parse(toml, "System");
  PySystem system{make_system(table)};
  system.parameters = system_parameters(table);
  table.reject_unknown_keys();
  return system;
}

/// The [system] table of an experiment, or a text that is one.
PySystem make_text_system(const std::string& text, const std::string& file) {
  const ConfigTable root = ConfigTable::parse(text, file);
  const ConfigTable table = root.has("system") ? root.table("system") : root;
  PySystem system{make_system(table)};
  system.parameters = system_parameters(table);
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
  module.def("text_system", &make_text_system, py::arg("text"), py::arg("file"));
  module.def("function_system", &make_function_system, py::arg("name"), py::arg("full"), py::arg("reduced"),
             py::arg("sample"), py::arg("resolved"), py::arg("size"), py::arg("targets"),
             py::arg("warmup_steps"), py::arg("reduced_vjp"));
  module.def("system_names", &system_names);
  module.def(
      "other_parameters",
      [](const Closure& closure, const PySystem& system) -> std::optional<std::string> {
        if (closure.model().system() != system.system->name()) return std::nullopt;  // refused as such
        const Model model =
            model_from(Safetensors::parse(closure.file_bytes().cast<std::string>(), closure.name()));
        return other_parameters(closure.name(), trained_parameters(model), "the right-hand side",
                                system.parameters);
      },
      py::arg("closure"), py::arg("system"));
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
      .def_static("read", py::overload_cast<const std::string&>(&Experiment::read), py::arg("path"))
      .def_static("parse", py::overload_cast<const std::string&, const std::string&>(&Experiment::parse),
                  py::arg("text"), py::arg("name"))
      .def_property_readonly("text", [](const Experiment& e) { return e.config.text(); })
      .def_property_readonly("file", [](const Experiment& e) { return e.config.file(); })
      .def_property_readonly("system",
                             [](const Experiment& e) {
                               return PySystem{e.system, system_parameters(e.config.table("system"))};
                             })
      .def_property_readonly("closure_step", [](const Experiment& e) { return e.data.closure_step(); })
      .def_property_readonly("splits", &describe_splits)
      .def_property_readonly("parameters", [](const Experiment& e) { return e.data.parameters; })
      .def_property_readonly("forcing", [](const Experiment& e) { return e.data.forcing; })
      .def_property_readonly(
          "formulas",
          [](const Experiment& e) {
            const std::vector<std::string> all = e.data.input_names();
            return std::vector(
                all.begin() + static_cast<std::ptrdiff_t>(e.data.parameters.size() + e.data.forcing.size()),
                all.end());
          })
      .def_property_readonly("models", &describe_models)
      .def_property_readonly(
          "recorded_equations",
          [](const Experiment& e) {
            const bool recorded = e.system->name() == "recorded";
            return recorded ? e.config.table("system").string_or("equations", "none") : std::string();
          },
          "Of recorded data \"none\", \"zero\" or \"function\"; empty: the system has its own.");
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
  const std::size_t p = split.parameter_names().size(), e = split.input_names().size(), f = e - p;
  Array parameters = make_array({extent(n), extent(p)});
  Array forcing = make_array({extent(n), extent(times), extent(f)});
  std::vector<double> inputs(times * e);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < n; ++i) {
    split.read_resolved(i, 0, times, resolved.mutable_data() + i * times * d);
    split.read_closure(i, 0, times, closure.mutable_data() + i * times * c);
    split.read_closure_mean(i, 0, times - 1, mean.mutable_data() + i * (times - 1) * c);
    labels.push_back(split.label(i));
    std::ranges::copy(split.parameters(i), parameters.mutable_data() + i * p);
    if (f > 0) split.read_inputs(i, 0, times, inputs.data());
    for (std::size_t t = 0; t < times && f > 0; ++t)
      std::copy_n(inputs.data() + t * e + p, f, forcing.mutable_data() + (i * times + t) * f);
  }
  py::dict arrays;
  arrays["parameters"] = parameters;
  arrays["forcing"] = forcing;
  arrays["time"] = py::array_t<double>(extent(times), split.time().data());
  arrays["resolved"] = resolved;
  arrays["closure"] = closure;
  arrays["closure_mean"] = mean;
  arrays["labels"] = labels;
  arrays["masked"] = split.masked();
  return arrays;
}

void write_arrays(const Experiment& experiment,
                  const std::map<std::string, std::map<std::string, Array>>& splits, const std::string& path,
                  const std::set<std::string>& masked) {
  std::vector<SplitArrays> arrays;
  const auto given = [](const std::map<std::string, Array>& split, const char* key) {
    const auto found = split.find(key);
    return found == split.end() ? std::span<const double>() : view(found->second);
  };
  for (const auto& [name, split] : splits)
    arrays.push_back({name, view(split.at("resolved")), view(split.at("closure")),
                      view(split.at("closure_mean")), given(split, "parameters"), given(split, "forcing")});
  const LongCall call;
  write_data(experiment, arrays, path, masked);
}

void bind_data(py::module_& module) {
  py::class_<DataFile>(module, "DataFile")
      .def(py::init([](const std::string& path) { return DataFile::open(path); }), py::arg("path"))
      .def_property_readonly("path", &DataFile::path)
      .def_property_readonly("experiment", [](const DataFile& file) { return file.experiment(); })
      .def_property_readonly("splits", &DataFile::splits)
      .def("read", &read_split, py::arg("split"));
  module.def("write_data", &write_arrays, py::arg("experiment"), py::arg("splits"), py::arg("path"),
             py::arg("masked") = std::set<std::string>());
  module.def(
      "import_data",
      [](const std::vector<std::string>& files, const std::string& plan_text, const std::string& path,
         bool quiet) {
        ImportPlan plan;
        read_import_plan(ConfigTable::parse(plan_text, "read"), plan);
        const LongCall call;
        ImportReport report = import_data(files, plan, path, quiet);
        return std::pair(std::move(report.notes), std::move(report.warnings));
      },
      py::arg("files"), py::arg("plan"), py::arg("path"), py::arg("quiet"));
}

// ---- stages

/// What a verdict leaves for Python: sentences, and warnings after those that were there.
std::pair<std::vector<std::string>, std::vector<std::string>> told(const std::vector<Verdict>& verdicts,
                                                                   std::vector<std::string> warnings) {
  std::vector<std::string> sentences;
  for (const Verdict& verdict : verdicts) {
    sentences.push_back(verdict.sentence);
    warnings.insert(warnings.end(), verdict.warnings.begin(), verdict.warnings.end());
  }
  return {std::move(sentences), std::move(warnings)};
}

/// The last owner may be a thread without the GIL.
std::shared_ptr<const py::object> shared_object(const py::object& object) {
  return {new py::object(object), [](const py::object* owned) {
            const py::gil_scoped_acquire acquire;
            delete owned;
          }};
}

/// A right-hand side f(t, y) in Python, and where the user has one of them its derivative f(t, y, v): vjp gives
/// J^T v, jvp gives J v.
struct PythonRhs {
  py::object function, vjp, jvp;
};

/// Empty: by differences.
ColumnsVjp python_vjp(const PythonRhs& rhs, py::ssize_t d) {
  const bool transposed = !rhs.vjp.is_none();
  if (!transposed && rhs.jvp.is_none()) return {};
  const auto shared = shared_object(transposed ? rhs.vjp : rhs.jvp);
  const auto n = static_cast<std::size_t>(d);
  if (transposed)
    return [shared, d, n](std::size_t count, const double* y, const double* adjoint, double* grad) {
      const py::gil_scoped_acquire acquire;
      const std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(count), d};
      const Array state = copied(shape, y);
      const Array product = checked("rhs_vjp", (*shared)(0.0, state, copied(shape, adjoint)), state);
      for (std::size_t k = 0; k < count * n; ++k) grad[k] += product.data()[k];
    };
  // All columns of the Jacobians of all states in one call: row (i, v) is J(y_i) e_v.
  return [shared, d, n](std::size_t count, const double* y, const double* adjoint, double* grad) {
    std::vector<double> rows(count * n * n), units(rows.size());
    for (std::size_t k = 0; k < count * n; ++k) {
      std::copy_n(y + k / n * n, n, rows.data() + k * n);
      units[k * n + k % n] = 1;
    }
    const py::gil_scoped_acquire acquire;
    const std::vector<py::ssize_t> shape{static_cast<py::ssize_t>(count * n), d};
    const Array state = copied(shape, rows.data());
    const Array product = checked("rhs_jvp", (*shared)(0.0, state, copied(shape, units.data())), state);
    for (std::size_t k = 0; k < count * n; ++k)
      for (std::size_t v = 0; v < n; ++v) grad[k] += adjoint[k / n * n + v] * product.data()[k * n + v];
  };
}

/// The experiment's recorded system with a Python function for its reduced right-hand side; it does not
/// depend on the time, so it is called with 0.
std::shared_ptr<const System> with_python_rhs(const std::shared_ptr<const System>& system,
                                              const PythonRhs& rhs) {
  const auto d = static_cast<py::ssize_t>(system->resolved_size());
  return with_reduced_rhs(
      system,
      [shared = shared_object(rhs.function), d](std::size_t count, const double* y, double* dydt) {
        const py::gil_scoped_acquire acquire;
        call_rhs(*shared, 0.0, {static_cast<py::ssize_t>(count), d}, y, dydt);
      },
      python_vjp(rhs, d));
}

py::dict train_network(Experiment experiment, const std::string& model, const std::string& data,
                       const std::string& path, std::optional<std::uint64_t> seed, bool resume,
                       const std::string& device, int threads, bool quiet, const py::object& rhs,
                       double budget, const py::object& rhs_vjp, const py::object& rhs_jvp) {
  if (!rhs.is_none()) experiment.system = with_python_rhs(experiment.system, {rhs, rhs_vjp, rhs_jvp});
  const std::shared_ptr<const System> with_rhs = rhs.is_none() ? nullptr : experiment.system;
  ModelPlan plan = find_model(experiment, model);
  TrainOptions options{threads, quiet, resume, device_from(device)};
  options.budget = budget;
  if (plan.file) throw UsageError("{}: is trained already: {}", plan.name, *plan.file);
  std::string words;
  std::optional<TrainingResult> result;
  std::pair<std::vector<std::string>, std::vector<std::string>> judged;
  if (seed && plan.network) plan.network->training.seed = *seed;
  {
    const LongCall call;
    DataFile file = DataFile::open(data);
    check_data(experiment, file);
    // The file only says that there is a function: what judges its data here has it.
    if (with_rhs) file.set_system(with_rhs);
    std::vector<std::string> warnings;
    if (auto warning = stability_warning(*experiment.system, experiment.rollout, file))
      warnings.push_back(std::move(*warning));
    if (plan.baseline)
      words = train_baseline(experiment, plan, file, path, threads, quiet);
    else
      result = train(experiment, plan, file, path, options);
    judged = told(judge_training(path, file, threads), std::move(warnings));
  }
  py::dict out(py::arg("verdict") = judged.first, py::arg("warnings") = judged.second);
  if (!result) {
    out["summary"] = words;
    return out;
  }
  out["best_step"] = result->best_step;
  out["best_validation"] = result->best_validation;
  out["seconds_per_step"] = result->seconds_per_step;
  out["table"] = result->table;
  out["warning"] = result->warning;
  return out;
}

/// In how many steps rollouts take a closure step of the data.
std::size_t closure_substeps(const Experiment& experiment, const std::string& data, const py::object& rhs,
                             const py::object& rhs_vjp, const py::object& rhs_jvp) {
  const auto system = with_python_rhs(experiment.system, {rhs, rhs_vjp, rhs_jvp});
  const LongCall call;
  return choose_step(*system, experiment.rollout, DataFile::open(data)).substeps;
}

/// Returns the verdict's sentences and warnings.
py::tuple roll_out_data(const std::string& model, const std::string& data, const std::string& path,
                        const std::string& name, std::optional<std::string> hold,
                        std::optional<std::string> precision, std::vector<std::string> splits,
                        std::optional<double> to, bool self_contained, bool allow_other_parameters,
                        int threads, bool quiet) {
  ModelRequest request{model, name, std::nullopt, std::nullopt};
  if (hold) request.hold = hold_from(*hold);
  if (precision) request.precision = precision_from(*precision);
  RolloutOptions options;
  options.splits = std::move(splits);
  options.to = to;
  options.threads = threads;
  options.quiet = quiet;
  options.self_contained = self_contained;
  options.validation = validation_trajectories;
  request.allow_other_parameters = allow_other_parameters;
  std::pair<std::vector<std::string>, std::vector<std::string>> judged;
  {
    const LongCall call;
    const DataFile file = DataFile::open(data);
    rollout(request, file, path, options);
    std::vector<std::string> warnings;
    if (allow_other_parameters)
      if (auto warning = parameters_warning(model, data, file.experiment()))
        warnings.push_back(std::move(*warning));
    judged = told(judge_rollout(path, file, options), std::move(warnings));
  }
  return py::make_tuple(judged.first, judged.second);
}

py::dict read_rollout(const std::string& path, const std::string& data) {
  const RolloutFile file = RolloutFile::open(path, data);
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
std::string evaluate_paths(const std::vector<std::string>& files, const std::string& data) {
  const LongCall call;
  return to_json(evaluate_files(files, {data})).dump();
}

py::tuple run_experiment(const Experiment& experiment, const std::string& folder, const RunOptions& options) {
  std::string metrics, report;
  std::size_t done = 0, kept = 0;
  std::vector<std::string> warnings;
  {
    const LongCall call;
    const RunResult result = run_study(experiment, folder, options);
    metrics = to_json(result.evaluation).dump();
    report = result.report;
    done = result.done;
    kept = result.kept;
    warnings = result.warnings;
  }
  return py::make_tuple(metrics, report, done, kept, warnings);
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
             py::arg("quiet"), py::arg("rhs") = py::none(), py::arg("budget") = 0.0,
             py::arg("rhs_vjp") = py::none(), py::arg("rhs_jvp") = py::none());
  module.def("closure_substeps", &closure_substeps, py::arg("experiment"), py::arg("data"), py::arg("rhs"),
             py::arg("rhs_vjp"), py::arg("rhs_jvp"));
  module.def("rollout_data", &roll_out_data, py::arg("model"), py::arg("data"), py::arg("path"),
             py::arg("name"), py::arg("hold"), py::arg("precision"), py::arg("splits"), py::arg("to"),
             py::arg("self_contained"), py::arg("allow_other_parameters"), py::arg("threads"),
             py::arg("quiet"));
  module.def("read_rollout", &read_rollout, py::arg("path"), py::arg("data"));
  module.def("evaluate", &evaluate_paths, py::arg("files"), py::arg("data"));
  module.def(
      "run",
      [](const Experiment& experiment, const std::string& folder, std::vector<std::uint64_t> seeds,
         std::vector<std::string> force, const std::string& device, bool allow_other_parameters, int threads,
         bool quiet) {
        return run_experiment(experiment, folder,
                              {threads, quiet, device_from(device), std::move(seeds), std::move(force),
                               allow_other_parameters, false});
      },
      py::arg("experiment"), py::arg("folder"), py::arg("seeds"), py::arg("force"), py::arg("device"),
      py::arg("allow_other_parameters"), py::arg("threads"), py::arg("quiet"));
  module.def(
      "export_onnx", [](const std::string& model, const std::string& path) { export_onnx(model, path); },
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
