#include <algorithm>
#include <cmath>
#include <mac/data.hpp>
#include <mac/error.hpp>
#include <mac/open_model.hpp>
#include <mac/progress.hpp>
#include <mac/version.hpp>

#include "coupling/input_map.hpp"
#include "data/provenance.hpp"
#include "data/relative_l2.hpp"
#include "evaluation/mean_std.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "io/output_lock.hpp"
#include "predict/predict.hpp"

namespace mac {

namespace {

/// x (batch, time, d_in) as a user's file has it.
SequenceDims check_input(const Safetensors& file, const NetworkShape& shape) {
  const TensorInfo& info = file.at("x");
  if (info.shape.size() != 3)
    throw Error("{}: tensor 'x' has {} dimensions: expected (batch, time, {})", file.file(),
                info.shape.size(), shape.d_in);
  if (info.shape[2] != shape.d_in)
    throw Error("{}: tensor 'x' has {} components: the network has {} inputs", file.file(), info.shape[2],
                shape.d_in);
  if (info.count == 0) throw Error("{}: tensor 'x' is empty", file.file());
  return {info.shape[0], info.shape[1]};
}

void check_finite(const std::vector<double>& x, SequenceDims dims, std::size_t d_in,
                  const std::string& file) {
  const auto bad = std::ranges::find_if_not(x, [](double value) { return std::isfinite(value); });
  if (bad == x.end()) return;
  const auto index = static_cast<std::size_t>(bad - x.begin());
  throw Error("{}: tensor 'x' is {} in sample {} at time index {}, component {}", file, *bad,
              index / (dims.time * d_in), index / d_in % dims.time, index % d_in);
}

/// A split of the file being written.
struct PredictionWriter {
  h5::Dataset closure, true_closure;
};

PredictionWriter create_split(h5::File& file, const DataSplit& split, std::size_t times,
                              const std::vector<std::string>& components) {
  const std::string group = "/" + split.name();
  file.create_group(group);
  h5::Dataset time = file.create_dataset(group + "/time", {times});
  time.write({0}, {times}, split.time().data());
  const auto create = [&](const char* name) {
    h5::Dataset set =
        file.create_dataset(group + "/" + name, {split.trajectories(), times, components.size()},
                            {1, std::min<std::size_t>(times, 4096), components.size()});
    set.set_attribute("variables", components);
    return set;
  };
  return {create("closure"), create("true_closure")};
}

/// x (count, sites, times, inputs) of trajectories first, first + 1, ...: a sequence for each site.
std::vector<double> read_inputs(const InputMap& inputs, const DataSplit& split, std::size_t first,
                                std::size_t count, std::size_t times) {
  const std::size_t d = split.resolved_size(), e = inputs.given_size(), n = inputs.features();
  std::vector<double> x(count * inputs.sites() * times * n), y(times * d), given(times * e);
  for (std::size_t i = 0; i < count; ++i) {
    split.read_resolved(first + i, 0, times, y.data());
    if (e > 0) split.read_inputs(first + i, 0, times, given.data());
    for (std::size_t t = 0; t < times; ++t)
      inputs.read(y.data() + t * d, given.data() + t * e, [&](std::size_t site, std::size_t f, double value) {
        x[((i * inputs.sites() + site) * times + t) * n + f] = value;
      });
  }
  return x;
}

/// closure (count, times, c) of outputs (count, sites, times, outputs).
std::vector<double> closures_from(const InputMap& inputs, const std::vector<double>& outputs,
                                  std::size_t count, std::size_t times, std::size_t c) {
  if (inputs.is_plain()) return outputs;
  const std::size_t n = inputs.outputs();
  std::vector<double> closure(count * times * c);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const std::size_t t = k / n % times, site = k / (n * times) % inputs.sites(),
                      i = k / (n * times * inputs.sites());
    closure[(i * times + t) * c + inputs.closure(site, k % n)] = outputs[k];
  }
  return closure;
}

ClosureError predict_split(Predictor& predict, const InputMap& inputs, Target target, const DataSplit& split,
                           PredictionWriter writer, std::size_t times,
                           const std::vector<std::string>& components, Progress& progress) {
  const std::size_t c = components.size();
  constexpr std::size_t group_size = 16;
  std::vector<std::vector<double>> errors(c);  // of each component, a trajectory each
  for (std::size_t first = 0; first < split.trajectories(); first += group_size) {
    const std::size_t count = std::min(group_size, split.trajectories() - first);
    const std::vector<double> y = closures_from(
        inputs, predict({count * inputs.sites(), times}, read_inputs(inputs, split, first, count, times)),
        count, times, c);
    writer.closure.write({first, 0, 0}, {count, times, c}, y.data());
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double> truth(times * c);
      if (target == Target::mean)
        split.read_closure_mean(first + i, 0, times, truth.data());
      else
        split.read_closure(first + i, 0, times, truth.data());
      writer.true_closure.write({first + i, 0, 0}, {1, times, c}, truth.data());
      const auto error = relative_l2(std::span(y).subspan(i * times * c, times * c), truth, c);
      for (std::size_t j = 0; j < c; ++j)
        if (!std::isnan(error[j])) errors[j].push_back(error[j]);
    }
    progress.advance(count);
  }
  ClosureError result{split.name(), components, {}};
  for (const std::vector<double>& component : errors) result.errors.push_back(mean_std(component));
  return result;
}

}  // namespace

void predict_safetensors(const Model& model, const std::string& input, const std::string& output,
                         const PredictOptions& options) {
  const Safetensors file = Safetensors::read(input);
  const SequenceDims dims = check_input(file, model.shape);
  const std::vector<double> x = file.numbers("x");
  check_finite(x, dims, model.shape.d_in, input);
  const std::vector<double> y = Predictor(model, options)(dims, x);

  SafetensorsWriter writer;
  writer.set_metadata("program", fmt::format("mac {} ({})", version(), commit()));
  writer.set_metadata("command", "predict");
  const std::vector<std::size_t> shape{dims.batch, dims.time, model.shape.d_out};
  if (options.precision.value_or(model.precision()) == Precision::float64)
    writer.add("y", shape, y);
  else
    writer.add("y", shape, std::vector<float>(y.begin(), y.end()));
  writer.write(output);
}

std::vector<ClosureError> predict_data(const Model& model, const std::string& model_file,
                                       const std::string& input, const std::string& output,
                                       const PredictOptions& options) {
  const DataFile data = DataFile::open(input);
  const System& system = *data.experiment().system;
  check_fits(model_file, model, data.experiment(), input, options.allow_other_parameters);
  const Target target = model.held.value_or(HeldClosure{}).target;
  Predictor predict(model, options);

  const OutputLock lock(output);
  AtomicFile finished(output);
  h5::File file = h5::File::create(finished);
  write_provenance(file, "prediction", data.experiment());
  file.set_attribute("/", "target", std::string(to_string(target)));
  std::vector<ClosureError> errors;
  std::size_t trajectories = 0;
  for (const std::string& name : data.splits()) trajectories += data.split(name).trajectories();
  Progress progress("predicting", trajectories, options.quiet);
  for (const std::string& name : data.splits()) {
    const DataSplit split = data.split(name);
    // A mean belongs to the interval after its time, so the last time has none.
    const std::size_t times = target == Target::mean ? split.times() - 1 : split.times();
    const InputMap inputs(model.inputs, system, split.input_names());
    errors.push_back(predict_split(predict, inputs, target, split,
                                   create_split(file, split, times, system.closure_names()), times,
                                   system.closure_names(), progress));
  }
  file.close();
  finished.commit();
  return errors;
}

}  // namespace mac
