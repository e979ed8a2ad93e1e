// A closure as Python holds it: a model, and the memory of the columns that step together.
#pragma once

#include <mac/runtime.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "module.hpp"

namespace mac::python {

/// Throws UsageError unless it is zero or linear.
runtime::Hold hold_by_name(const std::string& name);

/// Limits as Python says them: None, or the arguments of set_limits.
py::object limits_as_dict(const std::optional<runtime::Limits>& limits);
std::optional<runtime::Limits> limits_from_dict(const py::object& value);

class Closure {
 public:
  Closure(std::string file_bytes, const std::string& name, const std::optional<std::string>& precision);
  Closure(const Closure& other);  // a clone: the same model, a copy of the memory

  const runtime::Model& model() const { return *model_; }
  std::string name() const { return name_; }
  std::string precision() const;
  py::bytes file_bytes() const { return py::bytes(*bytes_); }
  /// What the training that made it ended with; empty where it was opened from a file, which does not keep it.
  const std::vector<std::string>& verdict() const { return verdict_; }
  void set_verdict(std::vector<std::string> sentences) { verdict_ = std::move(sentences); }

  std::size_t columns() const { return state_ ? state_->columns() : 0; }
  std::uint64_t steps() const { return state_ ? state_->steps() : 0; }
  /// Forgets everything; the next step may have any number of columns, or exactly the given one.
  void reset(std::optional<std::size_t> columns = std::nullopt);
  py::bytes save() const;
  void restore(const py::buffer& saved);

  // Columns come and go (docs/c-api.md); the columns are those of the state that reset(columns) or a step made.
  py::bytes save_columns(const std::vector<std::size_t>& columns);
  void restore_columns(const py::buffer& saved, const std::vector<std::size_t>& from,
                       const std::vector<std::size_t>& to);
  void reset_columns(const std::vector<std::size_t>& columns);
  void seed(std::uint64_t seed, const std::vector<std::uint64_t>& streams);
  void set_noise(bool on);
  std::size_t noise() const { return model_->noise(); }
  void copy_columns(Closure& other, const std::vector<std::size_t>& from, const std::vector<std::size_t>& to);

  // Guards and columns that rest (docs/hosts.md). Limits may be set before there are columns, and stay through
  // reset and restore.
  void set_limits(std::optional<runtime::Limits> limits);
  const std::optional<runtime::Limits>& limits() const { return limits_; }
  /// The columns there are. Throws UsageError before the first step or reset(columns).
  runtime::State& remembered();

  /// y (inputs) or (columns, inputs) -> closure of the same form; NaN in columns that rest
  Array step(const Array& y);
  /// The closure at a fraction of the step that the last step() opened, in its form.
  Array at(double fraction, const std::optional<std::string>& hold) const;
  /// y (time, inputs) or (columns, time, inputs), one step after the other
  Array sequence(const Array& y);

  /// The state for this many columns, made when there is none yet. Throws UsageError if there is another.
  runtime::State& state_for(std::size_t columns);
  /// The same for what steps all columns.
  runtime::State& whole_state_for(std::size_t columns);
  /// Whether the last rollout left the memory within a closure step.
  bool within_step() const { return state_ && within_step_; }
  void set_within_step(bool within) { within_step_ = within; }
  /// Grows whenever the state becomes another object.
  std::uint64_t generation() const { return generation_; }

  /// Taken while a thread steps: one state belongs to one thread at a time.
  std::unique_lock<std::mutex> claim() const;

 private:
  std::shared_ptr<const std::string> bytes_;
  std::string name_;
  std::shared_ptr<const runtime::Model> model_;
  void make_state(std::size_t columns);

  std::optional<runtime::Limits> limits_;
  std::vector<std::string> verdict_;
  std::optional<runtime::State> state_;
  std::uint64_t generation_ = 0;
  bool within_step_ = false;
  bool batch_ = false;  // the last step was given (columns, inputs)
  mutable std::mutex busy_;
};

}  // namespace mac::python
