#include "runtime/runtime_tape.hpp"

namespace mac {

namespace {

std::size_t checked_size(std::size_t columns, std::size_t steps, std::size_t state_size) {
  constexpr std::size_t most = std::size_t{1} << 48;  // keeps every product of sizes within 64 bits
  if (columns < 1 || steps < 1 || columns > most / steps || columns * steps > most / (state_size + 1))
    throw UsageError("a tape of {} steps of {} columns was asked for: expected one or more of both", steps,
                     columns);
  return columns * steps;
}

}  // namespace

RuntimeTape::RuntimeTape(std::shared_ptr<const RuntimeModel> model, std::size_t columns,
                         std::size_t most_steps)
    : model_(std::move(model)),
      columns_(columns),
      most_steps_(most_steps),
      work_(model_->derivative().make_work()),
      x_(checked_size(columns, most_steps, model_->model.shape.state_size()) * model_->model.shape.d_in),
      memory_(columns * most_steps * model_->model.shape.state_size()),
      dx_(columns * model_->model.shape.d_in),
      dc_(columns * model_->model.shape.d_out) {}

void RuntimeTape::check(const RuntimeState& state) const {
  if (&state.model() != model_.get() &&
      (state.model().id != model_->id || state.model().precision() != model_->precision()))
    throw UsageError("a tape of {} in {} cannot record steps of {} in {}", model_->file,
                     to_string(model_->precision()), state.model().file,
                     to_string(state.model().precision()));
  if (state.columns() != columns_)
    throw UsageError("a tape of {} columns cannot record steps of {}", columns_, state.columns());
}

void RuntimeTape::record(RuntimeState& state, const Field<const double>& y) {
  if (!state.all_active())
    throw UsageError("derivatives are of steps of all columns: {} of {} are active", state.active(),
                     state.columns());
  if (state.guard() && state.guard()->settings().changes_numbers())
    throw UsageError(
        "derivatives are those of the network alone: the state has limits that change its numbers");
  if (steps_ == most_steps_) throw UsageError("the tape is full: it has room for {} steps", most_steps_);
  state.point(y, x(steps_), memory(steps_));
  ++steps_;
}

void RuntimeTape::tangent(std::size_t step, const Field<const double>& dy, double* dmemory,
                          const Field<double>& dclosure) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < inputs; ++i)
      dx_[j * inputs + i] = dy.at(i, j) * model_->normalisers.input.factor(i);
  model_->derivative().tangent(columns_, point(step), dx_.data(), dmemory, dc_.data(), work_);
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < outputs; ++i)
      dclosure.at(i, j) = dc_[j * outputs + i] * model_->normalisers.output.scale(i);
}

void RuntimeTape::adjoint(std::size_t step, const Field<const double>& gclosure, double* gmemory,
                          const Field<double>& gy) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < outputs; ++i)
      dc_[j * outputs + i] = gclosure.at(i, j) * model_->normalisers.output.scale(i);
  model_->derivative().adjoint(columns_, point(step), dc_.data(), gmemory, dx_.data(), work_);
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < inputs; ++i)
      gy.at(i, j) = dx_[j * inputs + i] * model_->normalisers.input.factor(i);
}

void RuntimeTape::jacobian(std::size_t step, double* jacobian) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  model_->derivative().jacobian(columns_, point(step), jacobian, work_);
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < outputs; ++i)
      for (std::size_t k = 0; k < inputs; ++k)
        jacobian[(j * outputs + i) * inputs + k] *=
            model_->normalisers.output.scale(i) * model_->normalisers.input.factor(k);
}

}  // namespace mac
