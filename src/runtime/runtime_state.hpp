// What stands behind a mac_state: the memory of a batch of columns and the space a step works in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mac/error.hpp>
#include <mac/held_rk4.hpp>
#include <memory>
#include <span>

#include "coupling/fourier_frame.hpp"
#include "runtime/guard.hpp"
#include "runtime/layout.hpp"
#include "runtime/runtime_model.hpp"

namespace mac {

/// NaN, infinity or overflow in what went in or came out.
class NotFinite : public Error {
 public:
  using Error::Error;
};

/// Some columns of a state, in the order given.
class ColumnList {
 public:
  /// columns[0], ..., columns[count - 1]; null: 0, ..., count - 1.
  ColumnList(const std::size_t* columns, std::size_t count) : columns_(columns), count_(count) {}
  std::size_t size() const { return count_; }
  std::size_t operator[](std::size_t k) const { return columns_ ? columns_[k] : k; }

 private:
  const std::size_t* columns_;
  std::size_t count_;
};

class RuntimeState {
 public:
  virtual ~RuntimeState() = default;

  const RuntimeModel& model() const { return *model_; }
  const std::shared_ptr<const RuntimeModel>& shared_model() const { return model_; }
  std::size_t columns() const { return columns_; }
  /// Steps a column has taken since it was at rest; without a column those of the column with most.
  std::uint64_t steps(std::size_t column) const { return steps_[column]; }
  std::uint64_t steps() const;

  // The active columns take a step; the arrays' places of the others are not touched.
  virtual void step(const StridedLayout<const double>& y, const StridedLayout<double>& closure) = 0;
  virtual void step(const StridedLayout<const float>& y, const StridedLayout<float>& closure) = 0;
  virtual void step(const GridLayout<const double>& y, const GridLayout<double>& closure) = 0;
  virtual void step(const GridLayout<const float>& y, const GridLayout<float>& closure) = 0;

  /// Columns that take part in steps: those listed, in ascending order. At first all.
  void set_active(ColumnList columns);
  /// Those whose number in `mask` (columns) is not 0.
  void set_mask(const unsigned char* mask);
  bool all_active() const { return active_ == columns_; }
  std::size_t active() const { return active_; }

  /// Null: none.
  void set_guard(std::unique_ptr<Guard> guard) { guard_ = std::move(guard); }
  Guard* guard() const { return guard_.get(); }

  /// Noise of a stochastic closure: column j reads stream streams[j], or j where that is null. UsageError of a
  /// deterministic one.
  void seed(std::uint64_t seed, const std::uint64_t* streams);
  /// Off: it reads zeros.
  void set_noise(bool on);

  /// Columns that have no frame yet (coupling/fourier_frame.hpp) take that of y, and not that of their first step.
  void set_frames(const Field<const double>& y);
  const ColumnFrames& frames() const { return frames_; }

  /// What the next step from y would start from: the network's input x (columns, inputs), normalised, and the
  /// memory (columns, state_size).
  virtual void point(const Field<const double>& y, double* x, double* memory) = 0;
  /// The recurrent state as numbers, (columns, state_size).
  virtual void get_memory(double* memory) const = 0;
  virtual void set_memory(const double* memory) = 0;
  /// The closure at a fraction of the step that the last step() opened, to any layout.
  template <class Layout>
  void closure_at(Hold hold, double fraction, const Layout& out) const {
    const std::size_t outputs = model_->model.shape.d_out;
    for (std::size_t j = 0; j < columns_; ++j) {
      const double share = held_rk4::share({hold, model_->held.target}, steps_[j] > 1, fraction);
      put(out, j, outputs, [&](std::size_t i) {
        return held_rk4::line(closure_[j * outputs + i], previous_[j * outputs + i], share);
      });
    }
  }

  virtual std::unique_ptr<RuntimeState> clone() const = 0;
  /// Columns from[k] of another state (it may be this one) to columns to[k]. Throws UsageError unless that is
  /// of the same model and precision.
  void copy(const RuntimeState& other, ColumnList from, ColumnList to);
  void reset(ColumnList columns);

  // Saved columns: a head and a record for each.
  std::size_t saved_size(std::size_t columns) const;
  void save(ColumnList columns, std::span<std::byte> out) const;
  /// Columns from[k] of what was saved to columns to[k]. Throws Error, and changes nothing, unless the bytes
  /// are of this model and precision and all columns are there.
  void restore(std::span<const std::byte> saved, ColumnList from, ColumnList to);
  /// How many columns were saved.
  std::size_t saved_columns(std::span<const std::byte> saved) const;
  ColumnList all() const { return {nullptr, columns_}; }

 protected:
  RuntimeState(std::shared_ptr<const RuntimeModel> model, std::size_t columns);
  RuntimeState(const RuntimeState& other);

  // The recurrent state of a column.
  virtual std::span<std::byte> memory(std::size_t column) = 0;
  virtual std::span<const std::byte> memory(std::size_t column) const = 0;
  virtual bool memory_finite(std::span<const std::byte> memory) const = 0;

  std::shared_ptr<const RuntimeModel> model_;
  std::size_t columns_;
  std::vector<std::uint64_t> steps_;        // (columns)
  std::vector<double> closure_, previous_;  // (columns, outputs): the last two predictions
  std::unique_ptr<Guard> guard_;
  ColumnFrames frames_;

  // What the network reads beside y: e of each column, and where it comes from.
  RedNoise noise_;
  bool noise_on_ = true;
  struct NoisePlace {
    std::uint64_t seed, stream;
  };
  std::vector<NoisePlace> places_;  // (columns), empty of a deterministic closure

  /// Active columns that follow each other.
  struct Run {
    std::size_t first, count;
  };
  std::vector<Run> runs_;  // room for as many as there can be

 private:
  void activate(std::size_t column);

  std::size_t active_;
  void check(ColumnList columns) const;
  std::size_t record_size() const;
};

/// At rest. Throws UsageError for a number of columns that cannot be meant.
std::unique_ptr<RuntimeState> make_state(std::shared_ptr<const RuntimeModel> model, std::size_t columns);

}  // namespace mac
