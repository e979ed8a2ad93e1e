#include "training/cuda/device_data.hpp"

namespace mac::cuda {

namespace {

bool fits(std::size_t numbers, double budget) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for its memory");
  const double bytes = static_cast<double>(numbers * sizeof(double));
  return bytes <= budget && bytes <= 0.5 * static_cast<double>(free);  // the network needs some too
}

/// Which of the images that have frames of their own.
std::size_t image_of(const Augmentation::Element& element) {
  return (element.reflected ? 1 : 0) + (element.negative ? 2 : 0);
}

}  // namespace

DeviceData::DeviceData(const DescentPlan& plan, SampleShape shape, std::size_t models)
    : data_(plan.data),
      stage_(plan.stage),
      first_step_(plan.first_step),
      shape_(shape),
      augmentation_(plan.context.system),
      framed_(plan.context.inputs.frame_modes() > 0) {
  const std::size_t d = data_.resolved_size(), c = data_.closure_size(), e = data_.given_size();
  const std::size_t trajectory = data_.times() * (d + e) + data_.closure_times() * c;
  resident_ = fits(data_.trajectories() * trajectory, plan.memory);
  if (resident_) {
    upload_all();
  } else {
    resolved_.reserve(models * stage_.batch * shape.states * d);
    closure_.reserve(models * stage_.batch * shape.closures * c);
    given_.reserve(models * stage_.batch * shape.states * e);
  }
  const InputMap& inputs = plan.context.inputs;
  std::vector<int> reads;
  for (std::size_t f = d; f < inputs.features(); ++f) reads.push_back(static_cast<int>(inputs.given_of(f)));
  upload_now(reads_, reads);
  const Normalisers normalisers(plan.context.normalisation);
  std::vector<double> scales = normalisers.input.numbers();
  const std::vector<double> output = normalisers.output.numbers();
  scales.insert(scales.end(), output.begin(), output.end());
  upload_now(scales_, scales);
  source_ = {resolved_.data(),
             closure_.data(),
             Normaliser::view_of(scales_.data(), inputs.features()),
             Normaliser::view_of(scales_.data() + 3 * inputs.features(), c),
             static_cast<int>(d),
             static_cast<int>(c),
             stage_.augmentation || framed_ ? static_cast<int>(augmentation_.turned_modes()) : 0,
             {given_.data(), reads_.data(), static_cast<int>(e), static_cast<int>(reads.size())}};
}

std::array<double, 4> DeviceData::angles_into_frame(const double* y) const {
  std::array<double, 4> angles{};
  for (const bool reflected : {false, true})
    for (const bool negative : {false, true}) {
      const Augmentation::Element element{.reflected = reflected, .negative = negative};
      angles[image_of(element)] = augmentation_.into_frame(element, y).angle;
    }
  return angles;
}

void DeviceData::upload_all() {
  const std::size_t d = data_.resolved_size(), c = data_.closure_size();
  const SampleShape whole{data_.times(), data_.closure_times()};
  const std::size_t starts = framed_ ? data_.windows(shape_) / data_.trajectories() : 0;
  resolved_.reserve(data_.trajectories() * whole.states * d);
  closure_.reserve(data_.trajectories() * whole.closures * c);
  given_.reserve(data_.trajectories() * whole.states * data_.given_size());
  std::vector<double> resolved(whole.states * d), closure(whole.closures * c),
      given(whole.states * data_.given_size());
  const auto copy = [](double* to, const std::vector<double>& from) {
    check(cudaMemcpy(to, from.data(), from.size() * sizeof(double), cudaMemcpyHostToDevice), "copying to it");
  };
  for (std::size_t i = 0; i < data_.trajectories(); ++i) {
    data_.read({i, 0}, whole, resolved.data(), closure.data(), given.data());
    copy(resolved_.data() + i * resolved.size(), resolved);
    copy(closure_.data() + i * closure.size(), closure);
    copy(given_.data() + i * given.size(), given);
    for (std::size_t t = 0; t < starts; ++t) frames_.push_back(angles_into_frame(resolved.data() + t * d));
  }
}

void DeviceData::draw(std::size_t m, std::uint64_t seed, std::size_t step, Sample* samples,
                      cudaStream_t stream) {
  const std::size_t d = data_.resolved_size(), c = data_.closure_size(), e = data_.given_size();
  const std::size_t states = shape_.states * d, closures = shape_.closures * c, given = shape_.states * e;
  const std::vector<Window> windows = draw_windows(data_, shape_, stage_.batch, seed, first_step_ + step);
  host_resolved_.resize(resident_ ? 0 : stage_.batch * states);
  host_closure_.resize(resident_ ? 0 : stage_.batch * closures);
  host_given_.resize(resident_ ? 0 : stage_.batch * given);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::uint32_t stream_index = sample_stream(first_step_ + step, stage_.batch, i);
    Augmentation::Element element;
    if (stage_.augmentation) {
      RandomStream random(seed, Purpose::augmentation, stream_index);
      element = augmentation_.draw(random);
    }
    const auto [trajectory, first] = windows[i];
    if (!resident_)
      data_.read(windows[i], shape_, host_resolved_.data() + i * states, host_closure_.data() + i * closures,
                 host_given_.data() + i * given);
    if (framed_) {
      const std::size_t starts = data_.windows(shape_) / data_.trajectories();
      const auto angles = resident_ ? frames_[trajectory * starts + first]
                                    : angles_into_frame(host_resolved_.data() + i * states);
      element.angle = angles[image_of(element)];
    }
    Sample& sample = samples[i];
    sample = {(trajectory * data_.times() + first) * d,
              (trajectory * data_.closure_times() + first) * c,
              seed,
              stream_index,
              element.angle,
              element.reflected ? 1 : 0,
              static_cast<int>(element.shift),
              element.negative ? -1.0 : 1.0,
              (trajectory * data_.times() + first) * e};
    if (resident_) continue;
    sample.resolved = (m * stage_.batch + i) * states;
    sample.closure = (m * stage_.batch + i) * closures;
    sample.given = (m * stage_.batch + i) * given;
  }
  if (resident_) return;
  const auto copy = [&](double* to, const std::vector<double>& from) {
    check(cudaMemcpyAsync(to, from.data(), from.size() * sizeof(double), cudaMemcpyHostToDevice, stream),
          "copying to it");
  };
  copy(resolved_.data() + m * host_resolved_.size(), host_resolved_);
  copy(closure_.data() + m * host_closure_.size(), host_closure_);
  copy(given_.data() + m * host_given_.size(), host_given_);
}

}  // namespace mac::cuda
