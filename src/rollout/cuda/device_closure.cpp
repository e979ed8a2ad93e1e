// A network closure whose rollouts run on the device.
//
// A network that sees Fourier modes in frames (coupling/fourier_frame.hpp) needs no kernel of its own: the reduced
// equations turn with their states, so that a trajectory which is in its frame at the start stays there.
#include <chrono>
#include <cmath>
#include <limits>
#include <mac/cuda.hpp>
#include <mac/model.hpp>
#include <mac/progress.hpp>

#include "coupling/cuda/device_equations.hpp"
#include "coupling/fourier_frame.hpp"
#include "coupling/input_map.hpp"
#include "network/cuda/device.hpp"
#include "rollout/cuda/free_rollout.hpp"
#include "rollout/group.hpp"
#include "systems/reduced_equations.hpp"

namespace mac {

namespace cuda {

namespace {

/// Results of a group, in numbers: what the host takes from the device at once.
constexpr std::size_t most_results = 1 << 27;
/// Steps of a launch: between two the host looks for an interrupt.
constexpr int steps_of_launch = 4096;

template <class T>
std::vector<T> from_device(const DeviceArray<T>& array, std::size_t count) {
  std::vector<T> values(count);
  array.download(values.data(), count, nullptr);
  check(cudaStreamSynchronize(nullptr), "rolling out");
  return values;
}

/// turn(i, row) for all rows of every trajectory i; rows (count, any, 2 modes).
template <class Turn>
void turn_rows(std::vector<double>& rows, std::size_t count, std::size_t modes, const Turn& turn) {
  const std::size_t width = 2 * modes, each = rows.size() / (count * width);
  for (std::size_t k = 0; k < count * each; ++k) turn(k / each, rows.data() + k * width);
}

/// What trajectories remember, as files have it (network_closure.cpp): of each the recurrent state and, where there are
/// frames, the angle of its own.
class GroupMemory {
 public:
  GroupMemory(std::size_t count, std::size_t state, std::size_t modes)
      : count_(count), state_(state), modes_(modes), frames_(modes, count) {}

  /// The recurrent states, (count, state); `start` goes into the frames.
  std::vector<float> recall(GroupStart& start) {
    std::vector<float> recurrent(count_ * state_);
    const std::size_t size = state_ + (frames_.exist() ? 1 : 0);
    for (std::size_t i = 0; i < count_ && !start.memory.empty(); ++i) {
      const double* const memory = start.memory.data() + i * size;
      for (std::size_t k = 0; k < state_; ++k) recurrent[i * state_ + k] = static_cast<float>(memory[k]);
      if (frames_.exist()) frames_.set(i, memory[state_]);
    }
    if (!frames_.exist()) return recurrent;
    for (std::size_t i = 0; i < count_; ++i) {
      frames_.choose(i, start.y.data() + i * 2 * modes_);
      frames_.keep(i);
    }
    for (auto* rows : {&start.y, &start.truth, &start.closure, &start.previous})
      turn_rows(*rows, count_, modes_, [&](std::size_t i, double* row) { frames_.enter(i, row); });
    return recurrent;
  }

  /// Puts the memory after a rollout into its result, which leaves the frames.
  void keep(const std::vector<float>& recurrent, GroupResult& result) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const auto own = recurrent.begin() + static_cast<std::ptrdiff_t>(i * state_);
      result.memory.insert(result.memory.end(), own, own + static_cast<std::ptrdiff_t>(state_));
      if (frames_.exist()) result.memory.push_back(frames_.angle(i));
    }
    for (auto* rows : {&result.resolved, &result.closure})
      if (frames_.exist())
        turn_rows(*rows, count_, modes_, [&](std::size_t i, double* row) { frames_.leave(i, row); });
  }

 private:
  std::size_t count_, state_, modes_;
  ColumnFrames frames_;
};

/// RolloutRun::reads: of each input the variable, or ~ the number of what is given.
std::vector<int> read_by(const InputMap& map) {
  std::vector<int> reads;
  for (std::size_t f = 0; f < map.features() && !map.is_plain(); ++f)
    reads.push_back(map.is_given(f) ? ~static_cast<int>(map.given_of(f))
                                    : static_cast<int>(map.variable_of(f).value()));
  return reads;
}

class DeviceNetworkClosure final : public ClosureModel {
 public:
  DeviceNetworkClosure(const Model& model, const std::string& name, HeldClosure held,
                       std::shared_ptr<const System> system)
      : shape_(model.shape),
        inputs_(model.inputs),
        resolved_(system ? system->resolved_size() : model.shape.d_in),
        normalisers_(model.normalisation),
        weights_(on_device(pack_parameters(model.shape, parameters_as<float>(model)))),
        host_(make_network_closure(model, name, held, Precision::float32, std::move(system))) {}

  std::string name() const override { return host_->name(); }
  HeldClosure held() const override { return host_->held(); }
  std::optional<Precision> precision() const override { return host_->precision(); }
  std::size_t most_members() const override { return host_->most_members(); }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                      std::size_t count) const override {
    return host_->start(split, first, count);
  }
  std::optional<std::size_t> rolls_at_once(std::size_t times) const override {
    return std::max<std::size_t>(1, most_results / (times * (resolved_ + shape_.d_out)));
  }
  GroupResult roll(const GroupTask& task, GroupStart start) const override;

 private:
  NetworkShape shape_;
  NetworkInputs inputs_;
  std::size_t resolved_;
  Normalisers normalisers_;
  DeviceArray<float> weights_;
  std::unique_ptr<ClosureModel> host_;
};

GroupResult DeviceNetworkClosure::roll(const GroupTask& task, GroupStart start) const {
  const auto equations = task.system.reduced_equations();
  const std::size_t d = task.system.resolved_size(), c = shape_.d_out, times = task.time.size();
  if (!equations || d > most_rolled_variables)
    throw UsageError(
        "the reduced equations of {} cannot be rolled out on a CUDA device, which takes up to {} variables, "
        "and from equations as text up to {} operations: use --device cpu",
        task.system.name(), most_rolled_variables, WrittenEquations::most_operations);
  if (!task.systems.empty() && std::holds_alternative<WrittenEquations>(equations->of))
    throw UsageError(
        "the equations of {} are text and their parameters vary, with which a CUDA device does not roll out "
        "yet: use --device cpu",
        task.system.name());
  if (!task.dt.is_one_rk4_step())
    throw UsageError(
        "the reduced equations of {} are stiff and take substeps or ETDRK4, which a CUDA device does not "
        "do yet: use --device cpu",
        task.system.name());
  const InputMap map =
      inputs_.is_plain() ? InputMap::plain(d, c) : InputMap(inputs_, task.system, start.given_names);
  if (map.features() != shape_.d_in || map.outputs() != c)
    throw UsageError("{}: the network maps {} variables to {} closure components, the data have {} and {}",
                     name(), shape_.d_in, c, map.features(), map.outputs());
  const auto began = std::chrono::steady_clock::now();
  GroupMemory memory(task.count, shape_.state_size(), map.frame_modes());
  const std::vector<float> recurrent = memory.recall(start);
  start.closure.resize(task.count * c);
  start.previous.resize(task.count * c);
  std::vector<int> blown(task.count, -1);
  for (std::size_t i = 0; i < task.count; ++i)
    if (!std::isnan(start.blow_up_time[i])) blown[i] = 0;

  const auto input = on_device(normalisers_.input.numbers()),
             output = on_device(normalisers_.output.numbers());
  const auto y = on_device(start.y), closure = on_device(start.closure), previous = on_device(start.previous),
             truth = on_device(start.truth);
  std::vector<DeviceEquations> of_each;
  for (const auto& system : task.systems) of_each.emplace_back(system->reduced_equations().value());
  const auto equations_of = on_device(of_each);
  const auto reads = on_device(read_by(map));
  const auto given = on_device(start.given);
  const auto device_recurrent = on_device(recurrent);
  const auto blow_up = on_device(blown);
  const DeviceArray<double> resolved(task.count * times * d), predicted(task.count * times * c);

  RolloutRun run{.network = packed_sizes(shape_.member()),
                 .equations_of = of_each.empty() ? nullptr : equations_of.data(),
                 .members = static_cast<int>(shape_.members),
                 .d = static_cast<int>(d),
                 .count = static_cast<int>(task.count),
                 .first = 0,
                 .end = 0,
                 .times = static_cast<int>(times),
                 .offset = static_cast<int>(task.first_in_data),
                 .history = static_cast<int>(task.history),
                 .continued = task.continued,
                 .dt = task.dt,
                 .held = task.held,
                 .drives = {},
                 .bound = blow_up_bound,
                 .weights = weights_.data(),
                 .input = Normaliser::view_of(input.data(), shape_.d_in),
                 .output = Normaliser::view_of(output.data(), c),
                 .reads = map.is_plain() ? nullptr : reads.data(),
                 .given = given.data(),
                 .given_size = static_cast<int>(start.given_names.size()),
                 .y = y.data(),
                 .closure = closure.data(),
                 .previous = previous.data(),
                 .recurrent = device_recurrent.data(),
                 .blow_up = blow_up.data(),
                 .truth = truth.data(),
                 .resolved = resolved.data(),
                 .predicted = predicted.data()};
  set_drives(task.system.closure_targets(), run.drives);
  const auto launch = choose_launch(run.network, run.d, run.count, shared_memory(), multiprocessors());
  if (!launch) throw Error("{}: is too large for rollouts on the CUDA device: use --device cpu", name());
  for (; run.first < run.times; run.first = run.end) {
    run.end = std::min(run.first + steps_of_launch, run.times);
    launch_rollout(*equations, run, *launch, nullptr);
    check_launch("starting a rollout");
    check(cudaStreamSynchronize(nullptr), "rolling out");
    throw_if_interrupted();
  }

  GroupResult out{from_device(resolved, task.count * times * d),
                  from_device(predicted, task.count * times * c),
                  std::move(start.blow_up_time),
                  {},
                  {}};
  blown = from_device(blow_up, task.count);
  for (std::size_t i = 0; i < task.count; ++i)
    if (std::isnan(out.blow_up_time[i]) && blown[i] >= 0)
      out.blow_up_time[i] = task.time[static_cast<std::size_t>(blown[i])];
  memory.keep(from_device(device_recurrent, recurrent.size()), out);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
  out.seconds_per_step.assign(times, elapsed.count() / static_cast<double>(times));
  return out;
}

}  // namespace

}  // namespace cuda

std::unique_ptr<ClosureModel> make_device_network_closure(const Model& model, const std::string& name,
                                                          HeldClosure held,
                                                          std::shared_ptr<const System> system) {
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  if (held.hold == Hold::stage)
    throw UsageError("{}: the hold stage runs on the CPU only: use --device cpu", name);
  return std::make_unique<cuda::DeviceNetworkClosure>(model, name, held, std::move(system));
}

}  // namespace mac
