#include "runtime/cuda/device_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mac/cuda.hpp>

#include "runtime/saved_columns.hpp"

namespace mac::cuda {

namespace {

/// Columns taken from or to their tiles at once: what save, restore and copy need on the device beside the state.
constexpr std::size_t columns_at_once = 1 << 14;

void refuse_models_of_the_cpu(const RuntimeModel& model) {
  const auto refuse = [&](const char* what, const char* instead) {
    throw UsageError("{}: is {}, which does not step on a CUDA device{}", model.file, what, instead);
  };
  const NetworkShape& shape = model.model.shape;
  const char* const cpu = "; mac_state_create steps it on the CPU";
  if (shape.members > 1) refuse("an ensemble", cpu);
  if (model.model.noise.channels > 0) refuse("a stochastic closure", cpu);
  if (shape.kind != LayerKind::mamba && shape.kind != LayerKind::gru)
    throw UsageError("{}: is of kind {}, which does not step on a CUDA device: expected mamba or gru{}",
                     model.file, to_string(shape.kind), cpu);
  if (model.precision() != Precision::float32) refuse("opened in float64", ": open it with MAC_FLOAT32");
}

template <class T>
DeviceArray<T> zeros(std::size_t count) {
  DeviceArray<T> array(count);
  cuda::check(cudaMemset(array.data(), 0, count * sizeof(T)), "clearing its memory");
  return array;
}

}  // namespace

/// Room on the device for some columns out of their tiles.
class DeviceState::Records {
 public:
  Records(const ColumnMemory& memory, std::size_t columns)
      : room_(std::min(columns, columns_at_once)),
        states_(static_cast<std::size_t>(memory.states)),
        outputs_(static_cast<std::size_t>(memory.outputs)),
        columns_(room_),
        steps_(room_),
        recurrent_(room_ * states_),
        closure_(room_ * outputs_),
        previous_(room_ * outputs_),
        angles_(memory.angles ? room_ : 0) {}

  std::size_t room() const { return room_; }
  void move(Exchange way, const ColumnMemory& memory, std::span<const unsigned> columns,
            cudaStream_t stream) {
    columns_.upload(columns.data(), columns.size(), stream);
    cuda::check(
        launch_exchange(way, memory, columns_.data(), static_cast<int>(columns.size()),
                        {recurrent_.data(), closure_.data(), previous_.data(), steps_.data(), angles_.data()},
                        stream),
        "starting a kernel");
  }
  /// Records `first` .. of the host's arrays.
  void to_host(Read& read, std::size_t first, std::size_t count, cudaStream_t stream) const {
    recurrent_.download(read.recurrent.data() + first * states_, count * states_, stream);
    closure_.download(read.closure.data() + first * outputs_, count * outputs_, stream);
    previous_.download(read.previous.data() + first * outputs_, count * outputs_, stream);
    steps_.download(read.steps.data() + first, count, stream);
    if (angles_.size() > 0) angles_.download(read.angles.data() + first, count, stream);
  }
  void from_host(const Read& read, std::size_t first, std::size_t count, cudaStream_t stream) {
    recurrent_.upload(read.recurrent.data() + first * states_, count * states_, stream);
    closure_.upload(read.closure.data() + first * outputs_, count * outputs_, stream);
    previous_.upload(read.previous.data() + first * outputs_, count * outputs_, stream);
    steps_.upload(read.steps.data() + first, count, stream);
    if (angles_.size() > 0) angles_.upload(read.angles.data() + first, count, stream);
  }

 private:
  std::size_t room_, states_, outputs_;
  DeviceArray<unsigned> columns_;
  DeviceArray<std::uint64_t> steps_;
  DeviceArray<float> recurrent_;
  DeviceArray<double> closure_, previous_, angles_;
};

DeviceState::DeviceState(std::shared_ptr<const RuntimeModel> model, std::size_t columns)
    : model_(std::move(model)) {
  constexpr std::size_t most = std::size_t{1} << 30;
  if (columns < 1 || columns > most)
    throw UsageError("a device state of {} columns was asked for: expected 1 to {}", columns, most);
  refuse_models_of_the_cpu(*model_);
  if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  cuda::check(cudaGetDevice(&device_), "asking which one is current");
  const NetworkShape& shape = model_->model.shape;
  network_ = packed_sizes(shape);
  std::optional<DeviceStepLaunch> launch;
  cuda::check(prepare_step(network_, static_cast<int>(columns), shared_memory(), multiprocessors(), launch),
              "loading the kernels");
  if (!launch)
    throw UsageError("{}: is too large for steps on this CUDA device; mac_state_create steps it on the CPU",
                     model_->file);
  launch_ = *launch;
  std::vector<float> packed = pack_parameters(shape, parameters_as<float>(model_->model));
  packed.resize((packed.size() + 3) / 4 * 4);
  weights_ = on_device(packed);
  input_ = on_device(model_->normalisers.input.numbers());
  output_ = on_device(model_->normalisers.output.numbers());

  memory_ = {.columns = static_cast<int>(columns),
             .states = static_cast<int>(shape.state_size()),
             .outputs = static_cast<int>(shape.d_out),
             .group = launch_.group,
             .recurrent = nullptr,
             .closure = nullptr,
             .previous = nullptr,
             .steps = nullptr,
             .angles = nullptr,
             .trouble = nullptr};
  recurrent_ = zeros<float>(memory_.tiles() * memory_.tile_size());
  closure_ = zeros<double>(columns * shape.d_out);
  previous_ = zeros<double>(columns * shape.d_out);
  steps_ = zeros<std::uint64_t>(columns);
  if (const std::size_t modes = model_->model.frame_modes(); modes > 0) {
    angles_ = on_device(std::vector<double>(columns, std::numeric_limits<double>::quiet_NaN()));
    chosen_ = zeros<double>(columns);
    factors_ = zeros<double>(2 * modes * columns);
  }
  trouble_ = on_device(std::vector<unsigned long long>{Trouble::none});
  memory_.recurrent = recurrent_.data();
  memory_.closure = closure_.data(), memory_.previous = previous_.data();
  memory_.steps = steps_.data(), memory_.angles = angles_.data(), memory_.trouble = trouble_.data();
  cuda::check(cudaDeviceSynchronize(), "taking the weights");  // whatever stream is first, it finds all of it
}

std::size_t DeviceState::bytes() const {
  return sizeof(float) * (weights_.size() + recurrent_.size()) +
         sizeof(double) * (input_.size() + output_.size() + closure_.size() + previous_.size() +
                           angles_.size() + chosen_.size() + factors_.size()) +
         sizeof(std::uint64_t) * (steps_.size() + trouble_.size());
}

void DeviceState::step(const DeviceField& y, const DeviceField& closure, cudaStream_t stream) {
  const OnDevice on(device_);
  const DeviceStep step{
      .network = network_,
      .modes = static_cast<int>(model_->model.frame_modes()),
      .chosen = chosen_.data(),
      .factors = factors_.data(),
      .memory = memory_,
      .weights = weights_.data(),
      .input = Normaliser::view_of(input_.data(), static_cast<std::size_t>(network_.d_in)),
      .output = Normaliser::view_of(output_.data(), static_cast<std::size_t>(network_.d_out)),
      .mask = mask_,
      .y = y,
      .closure = closure};
  cuda::check(launch_step(step, launch_, stream), "starting a step");
}

void DeviceState::closure_at(HeldClosure held, double fraction, const DeviceField& out,
                             cudaStream_t stream) const {
  const OnDevice on(device_);
  cuda::check(launch_closure_at(memory_, held, fraction, out, stream), "starting a kernel");
}

void DeviceState::reset(cudaStream_t stream) {
  const OnDevice on(device_);
  const auto clear = [&](void* data, std::size_t bytes, int with = 0) {
    if (bytes > 0) cuda::check(cudaMemsetAsync(data, with, bytes, stream), "resetting a state");
  };
  clear(recurrent_.data(), recurrent_.size() * sizeof(float));
  clear(closure_.data(), closure_.size() * sizeof(double));
  clear(previous_.data(), previous_.size() * sizeof(double));
  clear(steps_.data(), steps_.size() * sizeof(std::uint64_t));
  clear(angles_.data(), angles_.size() * sizeof(double), 0xff);  // NaN
}

std::vector<unsigned> DeviceState::places(ColumnList columns) const {
  std::vector<unsigned> places(columns.size());
  for (std::size_t k = 0; k < columns.size(); ++k) {
    if (columns[k] >= this->columns())
      throw UsageError("column {} is beyond the {} of the state", columns[k], this->columns());
    places[k] = static_cast<unsigned>(columns[k]);
  }
  return places;
}

DeviceState::Read DeviceState::at_rest(std::size_t count) const {
  const std::size_t outputs = count * static_cast<std::size_t>(memory_.outputs);
  return {{},
          std::vector<float>(count * static_cast<std::size_t>(memory_.states)),
          std::vector<double>(outputs),
          std::vector<double>(outputs),
          std::vector<std::uint64_t>(count),
          std::vector<double>(count, std::numeric_limits<double>::quiet_NaN())};
}

void DeviceState::save(ColumnList columns, std::span<std::byte> out, cudaStream_t stream) const {
  const std::vector<unsigned> listed = places(columns);
  const OnDevice on(device_);
  const auto states = static_cast<std::size_t>(memory_.states),
             outputs = static_cast<std::size_t>(memory_.outputs);
  Records records(memory_, listed.size());
  Read part = at_rest(records.room());
  std::byte* next = out.data() + saved_head_size;
  const auto put = [&](const auto* from, std::size_t count) {
    std::memcpy(next, from, count * sizeof *from);
    next += count * sizeof *from;
  };
  for (std::size_t first = 0; first < listed.size(); first += records.room()) {
    const std::size_t count = std::min(records.room(), listed.size() - first);
    records.move(Exchange::save, memory_, std::span(listed).subspan(first, count), stream);
    records.to_host(part, 0, count, stream);
    cuda::check(cudaStreamSynchronize(stream), "saving a state");
    for (std::size_t k = 0; k < count; ++k) {
      put(&part.steps[k], 1);
      put(part.recurrent.data() + k * states, states);
      put(part.closure.data() + k * outputs, outputs);
      put(part.previous.data() + k * outputs, outputs);
      if (std::isnan(part.angles[k]))
        part.angles[k] = std::numeric_limits<double>::quiet_NaN();  // NaN has many bytes
      if (memory_.angles) put(&part.angles[k], 1);
    }
  }
  write_saved_head(*model_, listed.size(), out);
}

DeviceState::Read DeviceState::read(std::span<const std::byte> saved, ColumnList from, ColumnList to) const {
  const SavedRecords records = read_saved(*model_, saved);
  const auto states = static_cast<std::size_t>(memory_.states),
             outputs = static_cast<std::size_t>(memory_.outputs);
  const std::size_t count = to.size(), size = saved_record_size(*model_);
  Read read = at_rest(count);
  read.columns = places(to);
  for (std::size_t k = 0; k < count; ++k) {
    if (from[k] >= records.columns)
      throw UsageError("column {} is beyond the {} of the saved state", from[k], records.columns);
    const auto record = records.bytes.subspan(from[k] * size, size);
    const auto recurrent = record.subspan(sizeof(std::uint64_t), states * sizeof(float));
    const auto closures =
        record.subspan(sizeof(std::uint64_t) + recurrent.size(), 2 * outputs * sizeof(double));
    if (memory_.angles) std::memcpy(&read.angles[k], closures.data() + closures.size(), sizeof(double));
    if (!all_finite<float>(recurrent) || !all_finite<double>(closures) || std::isinf(read.angles[k]))
      throw NotFinite(
          "column {} of the saved state has a number that is not finite: it was saved after a blow-up",
          from[k]);
    std::memcpy(&read.steps[k], record.data(), sizeof(std::uint64_t));
    std::memcpy(read.recurrent.data() + k * states, recurrent.data(), recurrent.size());
    std::memcpy(read.closure.data() + k * outputs, closures.data(), outputs * sizeof(double));
    std::memcpy(read.previous.data() + k * outputs, closures.data() + outputs * sizeof(double),
                outputs * sizeof(double));
  }
  return read;
}

void DeviceState::write(const Read& read, cudaStream_t stream) {
  const OnDevice on(device_);
  Records records(memory_, read.columns.size());
  for (std::size_t first = 0; first < read.columns.size(); first += records.room()) {
    const std::size_t count = std::min(records.room(), read.columns.size() - first);
    records.from_host(read, first, count, stream);
    records.move(Exchange::restore, memory_, std::span(read.columns).subspan(first, count), stream);
  }
  cuda::check(cudaStreamSynchronize(stream), "restoring a state");
}

void DeviceState::reset(ColumnList columns, cudaStream_t stream) {
  Read rest = at_rest(columns.size());
  rest.columns = places(columns);
  write(rest, stream);
}

void DeviceState::copy(const DeviceState& other, ColumnList from, ColumnList to, cudaStream_t stream) {
  if (other.model_ != model_ && other.model_->id != model_->id)
    throw UsageError("a device state of {} cannot be copied to one of {}", other.model_->file, model_->file);
  if (other.device_ != device_)
    throw UsageError("a device state on device {} cannot be copied to one on device {}: save and restore it",
                     other.device_, device_);
  const std::vector<unsigned> sources = other.places(from), targets = places(to);
  const OnDevice on(device_);
  Records records(memory_, targets.size());
  for (std::size_t first = 0; first < targets.size(); first += records.room()) {
    const std::size_t count = std::min(records.room(), targets.size() - first);
    records.move(Exchange::save, other.memory_, std::span(sources).subspan(first, count), stream);
    records.move(Exchange::restore, memory_, std::span(targets).subspan(first, count), stream);
  }
  cuda::check(cudaStreamSynchronize(stream), "copying columns");
}

void DeviceState::check(cudaStream_t stream) {
  const OnDevice on(device_);
  unsigned long long told = Trouble::none;
  trouble_.download(&told, 1, stream);
  cuda::check(cudaStreamSynchronize(stream), "stepping");
  if (told == Trouble::none) return;
  trouble_.upload(&Trouble::none, 1, stream);
  cuda::check(cudaStreamSynchronize(stream), "stepping");
  const std::size_t component = told & 0xffffff, column = (told & ~Trouble::closure) >> 24;
  if (told & Trouble::closure)
    throw NotFinite(
        "the closure came out not finite in column {}, {}, and so did the state: restore or reset it", column,
        describe_component(component, model_->model.output_names));
  throw NotFinite(
      "the input is not finite, or too large for float32 once normalised, in column {}, {}: the "
      "column took no step",
      column, describe_component(component, model_->model.input_names));
}

void DeviceState::require_reach(const void* pointer, const char* function, const char* name) const {
  if (!pointer) throw UsageError("{}: the argument {} is null", function, name);
  if (std::ranges::find(reached_, pointer) != std::end(reached_)) return;
  const OnDevice on(device_);
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, pointer), "asking about a pointer");
  int pageable = 0;  // where the device reaches all of the host's memory
  cuda::check(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device_),
              "asking about its memory");
  if (attributes.type == cudaMemoryTypeUnregistered && !pageable)
    throw UsageError("{}: {} is a pointer to host memory: expected memory that the CUDA device reaches",
                     function, name);
  reached_[next_reached_++ % 4] = pointer;
}

}  // namespace mac::cuda
