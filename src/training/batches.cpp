#include "training/batches.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/random.hpp>
#include <numeric>
#include <set>

#include "coupling/fourier_frame.hpp"
#include "parallel/parallel_for.hpp"

namespace mac {

namespace {

/// Work on fewer numbers than this stays on one thread: waking another would take longer. A random number
/// costs as much as some ten others.
constexpr std::size_t worth_threads = 1 << 17, worth_threads_noisy = 1 << 13;

}  // namespace

void read_known(const DataSplit& split, std::size_t trajectory, std::size_t first, std::size_t count,
                char* known) {
  const std::size_t c = split.closure_size();
  std::vector<double> closure(count * c);
  split.read_closure(trajectory, first, count, closure.data());
  for (std::size_t t = 0; t < count; ++t) known[t] = std::isnan(closure[t * c]) ? 0 : 1;
}

TrainingData::TrainingData(const DataSplit& split, Target target, std::size_t times, double budget)
    : split_(&split),
      target_(target),
      trajectories_(split.trajectories()),
      times_(times),
      d_(split.resolved_size()),
      c_(split.closure_size()),
      e_(split.input_names().size()),
      in_memory_(static_cast<double>(split.trajectories() * times * (d_ + c_ + e_)) * sizeof(double) <=
                 budget),
      masked_(split.masked()),
      systems_(split.systems()) {
  if (!in_memory_) return;
  const std::size_t n = split.trajectories();
  resolved_.resize(n * times_ * d_);
  closure_.resize(n * closure_times() * c_);
  given_.resize(n * times_ * e_);
  known_.resize(masked_ ? n * times_ : 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (masked_) read_known(split, i, 0, times_, known_.data() + i * times_);
    split.read_resolved(i, 0, times_, resolved_.data() + i * times_ * d_);
    if (e_ > 0) split.read_inputs(i, 0, times_, given_.data() + i * times_ * e_);
    double* out = closure_.data() + i * closure_times() * c_;
    if (target_ == Target::instant)
      split.read_closure(i, 0, times_, out);
    else
      split.read_closure_mean(i, 0, times_ - 1, out);
  }
}

TrainingData::TrainingData(Target target, std::size_t trajectories, std::vector<double> resolved,
                           std::vector<double> closure, std::size_t d, std::size_t c)
    : split_(nullptr),
      target_(target),
      trajectories_(trajectories),
      times_(resolved.size() / (trajectories * d)),
      d_(d),
      c_(c),
      in_memory_(true),
      resolved_(std::move(resolved)),
      closure_(std::move(closure)) {}

std::size_t TrainingData::starts(SampleShape shape) const {
  const std::size_t by_states = times_ + 1 - shape.states;
  return shape.closures == 0 ? by_states : std::min(by_states, closure_times() + 1 - shape.closures);
}

std::size_t TrainingData::windows(SampleShape shape) const { return trajectories() * starts(shape); }

Window TrainingData::window(SampleShape shape, std::size_t i) const {
  return {i / starts(shape), i % starts(shape)};
}

void TrainingData::read(Window window, SampleShape shape, double* resolved, double* closure, double* given,
                        char* known) const {
  const auto [trajectory, first] = window;
  if (in_memory_) {
    if (masked_) std::copy_n(known_.data() + trajectory * times_ + first, shape.states, known);
    if (e_ > 0) std::copy_n(given_.data() + (trajectory * times_ + first) * e_, shape.states * e_, given);
    std::copy_n(resolved_.data() + (trajectory * times_ + first) * d_, shape.states * d_, resolved);
    std::copy_n(closure_.data() + (trajectory * closure_times() + first) * c_, shape.closures * c_, closure);
    return;
  }
  if (masked_) read_known(*split_, trajectory, first, shape.states, known);
  split_->read_resolved(trajectory, first, shape.states, resolved);
  if (e_ > 0) split_->read_inputs(trajectory, first, shape.states, given);
  if (target_ == Target::instant)
    split_->read_closure(trajectory, first, shape.closures, closure);
  else
    split_->read_closure_mean(trajectory, first, shape.closures, closure);
}

double Batch::sum(const std::vector<double>& of_samples) const {
  const std::vector<double> all = collect(of_samples, 1);
  return std::accumulate(all.begin(), all.end(), 0.0);
}

void make_room(Batch& batch, std::size_t count, SampleShape shape, const TrainingData& data) {
  batch.count = count;
  batch.shape = shape;
  batch.resolved.resize(count * shape.states * data.resolved_size());
  batch.closure.resize(count * shape.closures * data.closure_size());
  batch.given.resize(count * shape.states * data.given_size());
  batch.known.resize(data.masked() ? count * shape.states : 0);
}

void read_sample(const TrainingData& data, Window window, std::size_t i, Batch& batch) {
  data.read(window, batch.shape, batch.resolved.data() + i * batch.shape.states * data.resolved_size(),
            batch.closure.data() + i * batch.shape.closures * data.closure_size(),
            batch.given.data() + i * batch.shape.states * data.given_size(),
            data.masked() ? batch.known.data() + i * batch.shape.states : nullptr);
  if (const System* system = data.system(window.trajectory)) batch.systems.push_back(system);
}

void enter_frame_of_sample(std::size_t frame_modes, std::size_t i, Batch& batch) {
  const std::size_t width = 2 * frame_modes;
  double* const resolved = batch.resolved.data() + i * batch.shape.states * width;
  const std::vector<double> first(resolved, resolved + width);
  enter_frame(frame_modes, first.data(), resolved, batch.shape.states, width);
  enter_frame(frame_modes, first.data(), batch.closure.data() + i * batch.shape.closures * width,
              batch.shape.closures, width);
}

SampleShape sample_shape(const StagePlan& stage, const TrainingData& data) {
  const bool closure_loss = compares_closures(stage.loss);
  const std::size_t longest = closure_loss && data.target() == Target::mean ? data.times() - 1 : data.times();
  const std::size_t length = stage.window > 0 ? stage.window : longest;
  if (length > longest)
    throw UsageError("a window of {} times is longer than the {} usable times of the data", length, longest);
  const bool draws_sites = closure_loss && stage.optimiser != OptimiserKind::lbfgs;  // its one batch has all
  return {length, closure_loss ? length : 0, draws_sites ? stage.sites : 0};
}

std::vector<std::size_t> draw_without_repeats(std::size_t available, std::size_t count,
                                              RandomStream& random) {
  std::vector<std::size_t> drawn;
  std::set<std::size_t> taken;
  for (std::size_t i = 0; i < count; ++i) {  // Floyd's sampling
    const std::size_t last = available - count + i;
    const std::size_t draw = random.below(last + 1);
    drawn.push_back(taken.insert(draw).second ? draw : (taken.insert(last), last));
  }
  return drawn;
}

std::vector<Window> draw_windows(const TrainingData& data, SampleShape shape, std::size_t count,
                                 std::uint64_t seed, std::size_t step) {
  RandomStream random(seed, Purpose::batches, static_cast<std::uint32_t>(step));
  const std::size_t available = data.windows(shape);
  std::vector<Window> windows;
  if (count <= available)
    for (const std::size_t chosen : draw_without_repeats(available, count, random))
      windows.push_back(data.window(shape, chosen));
  else
    for (std::size_t i = 0; i < count; ++i) windows.push_back(data.window(shape, random.below(available)));
  return windows;
}

double noise_at(const StagePlan& stage, std::size_t step) {
  // Paper, Noise Injection (apdx_noise_injection): for from * S < s <= to * S, steps counted from 1.
  const double s = static_cast<double>(step + 1), all = static_cast<double>(stage.steps);
  return s > stage.noise_from * all && s <= stage.noise_to * all ? stage.noise : 0;
}

BatchStream::BatchStream(const TrainingData& data, const System& system, const StagePlan& stage,
                         std::uint64_t seed, std::size_t first_step, int threads, std::size_t sites,
                         const BatchShare* share, std::size_t frame_modes)
    : data_(data),
      stage_(stage),
      seed_(seed),
      first_step_(first_step),
      threads_(threads),
      sites_(sites),
      frame_modes_(frame_modes),
      augmentation_(system) {
  const SampleShape shape = sample_shape(stage, data);
  for (Batch* batch : {&current_, &next_}) {
    batch->share = share;
    make_room(*batch, share ? share->samples().size() : stage.batch, shape, data);
  }
}

const Batch& BatchStream::at(std::size_t step) {
  if (reading_.valid()) {
    reading_.get();
    std::swap(current_, next_);
    if (next_step_ != step) read(step, current_);
  } else {
    read(step, current_);
  }
  if (!data_.in_memory() && step + 1 < stage_.steps) {
    next_step_ = step + 1;
    reading_ = std::async(std::launch::async, [this] { read(next_step_, next_); });
  }
  vary(step, current_);
  current_.seed = seed_;
  current_.step = first_step_ + step;
  return current_;
}

void BatchStream::read(std::size_t step, Batch& batch) const {
  const std::vector<Window> windows =
      draw_windows(data_, batch.shape, stage_.batch, seed_, first_step_ + step);
  batch.systems.clear();
  for (std::size_t i = 0; i < batch.count; ++i) read_sample(data_, windows[batch.sample(i)], i, batch);
  batch.sites.clear();
  const std::size_t drawn = batch.shape.sites;
  if (drawn == 0 || drawn >= sites_) return;
  RandomStream random(seed_, Purpose::sites, static_cast<std::uint32_t>(first_step_ + step));
  for (std::size_t i = 0, sample = 0; i < batch.count;
       ++sample) {  // those of other ranks' samples are drawn, too
    const std::vector<std::size_t> sites = draw_without_repeats(sites_, drawn, random);
    if (batch.sample(i) != sample) continue;
    batch.sites.insert(batch.sites.end(), sites.begin(), sites.end());
    ++i;
  }
}

void BatchStream::vary(std::size_t step, Batch& batch) const {
  const double noise = noise_at(stage_, step);
  const bool noisy = noise > 0;
  batch.noise.resize(noisy ? batch.resolved.size() : 0);
  if (!noisy && !stage_.augmentation && frame_modes_ == 0) return;
  const std::size_t resolved_stride = batch.shape.states * data_.resolved_size(),
                    closure_stride = batch.shape.closures * data_.closure_size();
  const bool share = batch.resolved.size() > (noisy ? worth_threads_noisy : worth_threads);
  parallel_for(batch.count, share ? threads_ : 1, [&](std::size_t i, std::size_t) {
    const std::uint32_t stream = sample_stream(first_step_ + step, stage_.batch, batch.sample(i));
    if (stage_.augmentation) {
      RandomStream random(seed_, Purpose::augmentation, stream);
      augmentation_.apply(augmentation_.draw(random), batch.resolved.data() + i * resolved_stride,
                          batch.shape.states, batch.closure.data() + i * closure_stride,
                          batch.shape.closures);
    }
    if (frame_modes_ > 0) enter_frame_of_sample(frame_modes_, i, batch);
    if (noisy) {
      const auto values = std::span(batch.noise).subspan(i * resolved_stride, resolved_stride);
      RandomStream(seed_, Purpose::noise, stream).normals(values);
      for (double& value : values) value *= noise;
    }
  });
}

}  // namespace mac
