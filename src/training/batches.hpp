// Batches of training sequences. Which sequences, their symmetric images and their noise are functions of
// (seed, step): a training that goes on from a checkpoint needs no more than the number of its step.
#pragma once

#include <future>
#include <mac/data.hpp>
#include <mac/training_plan.hpp>
#include <vector>

#include "training/augment.hpp"
#include "training/batch_share.hpp"

namespace mac {

/// The shape of one sample: `states` resolved states, and the closure at the first `closures` of them.
struct SampleShape {
  std::size_t states = 0;
  std::size_t closures = 0;
  std::size_t sites = 0;  // of a local network, drawn for each sample; 0: all
};

struct Batch {
  std::size_t count = 0;  // of this rank
  SampleShape shape;
  std::vector<double> resolved;  // (count, states, d)
  std::vector<double> closure;   // (count, closures, c)
  std::vector<double> noise;     // (count, states, d), in units of the variables' scales; empty: none
  std::vector<const System*> systems =
      {};                          // (count): each sample's equations; empty: all have the common ones
  std::vector<double> given = {};  // (count, states, e): what comes from outside; empty: nothing does
  /// (count, states): whether a state is of the data, not filled in where they have a gap; empty: all are.
  std::vector<char> known = {};
  /// (count, sites): those of a local network whose closures count; empty: all.
  std::vector<std::uint32_t> sites = {};
  std::uint64_t seed = 0;  // with the step, counted over all stages: name of the noise that networks read
  std::size_t step = 0;
  const BatchShare* share = nullptr;  // where other ranks have the others; null: these are all

  const System& system_of(std::size_t i, const System& common) const {
    return systems.empty() ? common : *systems[i];
  }
  /// How many sites of a lattice of `all` a sample has, and which is the s-th of sample b.
  std::size_t sites_of_sample(std::size_t all) const { return sites.empty() ? all : sites.size() / count; }
  std::size_t site(std::size_t b, std::size_t s, std::size_t of_sample) const {
    return sites.empty() ? s : sites[b * of_sample + s];
  }

  /// Samples of all ranks.
  std::size_t whole() const { return share ? share->whole() : count; }
  /// Of all samples, the one that is this rank's i-th.
  std::size_t sample(std::size_t i) const { return share ? share->samples()[i] : i; }
  /// Rows (samples, width) of all ranks' samples, in their order.
  std::vector<double> collect(const std::vector<double>& of_samples, std::size_t width) const {
    return share ? share->collect(of_samples, width) : of_samples;
  }
  /// Over the samples of all ranks, in their order.
  double sum(const std::vector<double>& of_samples) const;
};

/// Where a sample starts in a split.
struct Window {
  std::size_t trajectory = 0;
  std::size_t first = 0;
};

/// Of a masked split: whether the states at these times are of the data. Where the closure is not known the state was
/// filled in, or lies beside one that was.
void read_known(const DataSplit& split, std::size_t trajectory, std::size_t first, std::size_t count,
                char* known);

/// The first `times` saved times of a split, in memory if they fit the budget (bytes), else in the file.
class TrainingData {
 public:
  TrainingData(const DataSplit& split, Target target, std::size_t times, double budget);
  /// Trajectories in memory, resolved (trajectories, times, d) and closure (trajectories, closure_times, c).
  TrainingData(Target target, std::size_t trajectories, std::vector<double> resolved,
               std::vector<double> closure, std::size_t d, std::size_t c);

  bool in_memory() const { return in_memory_; }
  std::size_t trajectories() const { return trajectories_; }
  std::size_t times() const { return times_; }
  Target target() const { return target_; }
  std::size_t resolved_size() const { return d_; }
  std::size_t closure_size() const { return c_; }
  std::size_t given_size() const { return e_; }
  bool masked() const { return masked_; }  // some states are filled in
  std::size_t closure_times() const { return target_ == Target::mean ? times_ - 1 : times_; }

  /// Number of windows that a sample of this shape can start at, and the i-th of them.
  std::size_t windows(SampleShape shape) const;
  Window window(SampleShape shape, std::size_t i) const;

  /// given (states, given_size) and known (states) may be null where that is nothing, or nothing is masked.
  void read(Window window, SampleShape shape, double* resolved, double* closure, double* given = nullptr,
            char* known = nullptr) const;
  /// Its equations, where parameters vary; else null.
  const System* system(std::size_t trajectory) const {
    return systems_.empty() ? nullptr : systems_[trajectory].get();
  }

 private:
  std::size_t starts(SampleShape shape) const;

  const DataSplit* split_;  // null: all are in memory
  Target target_;
  std::size_t trajectories_, times_, d_, c_, e_ = 0;
  bool in_memory_, masked_ = false;
  std::vector<std::shared_ptr<const System>> systems_;
  std::vector<double> resolved_, closure_, given_;
  std::vector<char> known_;
};

/// Room for `count` samples.
void make_room(Batch& batch, std::size_t count, SampleShape shape, const TrainingData& data);
/// Sample i of the batch becomes the window.
void read_sample(const TrainingData& data, Window window, std::size_t i, Batch& batch);
/// Sample i in the frame of its first state.
void enter_frame_of_sample(std::size_t frame_modes, std::size_t i, Batch& batch);

/// The sample that a stage's loss needs.
SampleShape sample_shape(const StagePlan& stage, const TrainingData& data);

/// `count` different numbers below `available`, which is not less.
std::vector<std::size_t> draw_without_repeats(std::size_t available, std::size_t count, RandomStream& random);

/// The windows of a batch: different ones, as far as there are enough. `step` counts over all stages.
std::vector<Window> draw_windows(const TrainingData& data, SampleShape shape, std::size_t count,
                                 std::uint64_t seed, std::size_t step);

/// Standard deviation of the input noise at a step of the stage; 0: none.
double noise_at(const StagePlan& stage, std::size_t step);

/// The random stream of sample i of a step (counted over all stages).
inline std::uint32_t sample_stream(std::size_t step, std::size_t batch, std::size_t i) {
  return static_cast<std::uint32_t>(step * batch + i);
}

/// Batches of one stage, step after step.
class BatchStream {
 public:
  /// `sites`: of the lattice of a local network. `frame_modes`: samples come in the frames of their first states
  /// (coupling/fourier_frame.hpp).
  BatchStream(const TrainingData& data, const System& system, const StagePlan& stage, std::uint64_t seed,
              std::size_t first_step, int threads, std::size_t sites = 1, const BatchShare* share = nullptr,
              std::size_t frame_modes = 0);

  /// The batch of step 0, 1, ... of the stage; valid until the next call. When the data are in the file, the
  /// next batch is read meanwhile: nobody else may call HDF5 between two calls.
  const Batch& at(std::size_t step);

 private:
  void read(std::size_t step, Batch& batch) const;
  void vary(std::size_t step, Batch& batch) const;

  const TrainingData& data_;
  StagePlan stage_;
  std::uint64_t seed_;
  std::size_t first_step_;  // of the stage, in the whole training: names the random streams
  int threads_;
  std::size_t sites_, frame_modes_;
  Augmentation augmentation_;
  Batch current_, next_;
  std::size_t next_step_ = 0;
  std::future<void> reading_;
};

}  // namespace mac
