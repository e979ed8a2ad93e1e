// What stands behind a mac_state: the memory of a batch of columns and the space a step works in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mac/error.hpp>
#include <memory>
#include <span>

#include "coupling/network_columns.hpp"
#include "runtime/runtime_model.hpp"

namespace mac {

/// NaN, infinity or overflow in what went in or came out.
class NotFinite : public Error {
 public:
  using Error::Error;
};

class RuntimeState {
 public:
  virtual ~RuntimeState() = default;

  const RuntimeModel& model() const { return *model_; }
  std::size_t columns() const { return columns_; }
  std::uint64_t steps() const { return steps_; }

  virtual void step(const Field<const double>& y, const Field<double>& closure) = 0;
  virtual void step(const Field<const float>& y, const Field<float>& closure) = 0;
  /// The closure at a fraction of the step that the last step() opened.
  void closure_at(Hold hold, double fraction, const Field<double>& out) const;

  virtual std::unique_ptr<RuntimeState> clone() const = 0;
  /// Everything of another state. Throws UsageError unless that is of the same model and batch.
  void copy(const RuntimeState& from);
  void reset();
  std::size_t saved_size() const;
  void save(std::span<std::byte> out) const;
  /// Throws Error, and changes nothing, unless the bytes are a state of this model and batch.
  void restore(std::span<const std::byte> saved);

 protected:
  RuntimeState(std::shared_ptr<const RuntimeModel> model, std::size_t columns);
  RuntimeState(const RuntimeState&) = default;

  // The recurrent states.
  virtual std::span<std::byte> memory() = 0;
  virtual std::span<const std::byte> memory() const = 0;
  virtual bool memory_finite(std::span<const std::byte> memory) const = 0;

  std::shared_ptr<const RuntimeModel> model_;
  std::size_t columns_;
  std::uint64_t steps_ = 0;
  std::vector<double> closure_, previous_;  // (columns, outputs): the last two predictions
};

/// At rest. Throws UsageError for a number of columns that cannot be meant.
std::unique_ptr<RuntimeState> make_state(std::shared_ptr<const RuntimeModel> model, std::size_t columns);

}  // namespace mac
