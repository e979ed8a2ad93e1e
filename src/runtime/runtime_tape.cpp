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
      dc_(columns * model_->model.shape.d_out),
      frames_(model_->model.frame_modes(), columns * most_steps) {}

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
  for (std::size_t j = 0; frames_.exist() && j < columns_; ++j)
    frames_.set(steps_ * columns_ + j, state.frames().chosen(j));
  ++steps_;
}

void RuntimeTape::tangent(std::size_t step, const Field<const double>& dy, double* dmemory,
                          const Field<double>& dclosure) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  for (std::size_t j = 0; j < columns_; ++j) {
    double* const dx = dx_.data() + j * inputs;
    for (std::size_t i = 0; i < inputs; ++i) dx[i] = dy.at(i, j);
    if (frames_.exist()) frames_.enter(step * columns_ + j, dx);
    for (std::size_t i = 0; i < inputs; ++i) dx[i] *= model_->normalisers.input.factor(i);
  }
  model_->derivative().tangent(columns_, point(step), dx_.data(), dmemory, dc_.data(), work_);
  for (std::size_t j = 0; j < columns_; ++j) {
    double* const dc = dc_.data() + j * outputs;
    for (std::size_t i = 0; i < outputs; ++i) dc[i] *= model_->normalisers.output.scale(i);
    if (frames_.exist()) frames_.leave(step * columns_ + j, dc);
    for (std::size_t i = 0; i < outputs; ++i) dclosure.at(i, j) = dc[i];
  }
}

void RuntimeTape::adjoint(std::size_t step, const Field<const double>& gclosure, double* gmemory,
                          const Field<double>& gy) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  for (std::size_t j = 0; j < columns_; ++j) {
    double* const dc = dc_.data() + j * outputs;
    for (std::size_t i = 0; i < outputs; ++i) dc[i] = gclosure.at(i, j);
    if (frames_.exist()) frames_.enter(step * columns_ + j, dc);  // the transpose of leaving
    for (std::size_t i = 0; i < outputs; ++i) dc[i] *= model_->normalisers.output.scale(i);
  }
  model_->derivative().adjoint(columns_, point(step), dc_.data(), gmemory, dx_.data(), work_);
  for (std::size_t j = 0; j < columns_; ++j) {
    double* const dx = dx_.data() + j * inputs;
    for (std::size_t i = 0; i < inputs; ++i) dx[i] *= model_->normalisers.input.factor(i);
    if (frames_.exist()) frames_.leave(step * columns_ + j, dx);
    for (std::size_t i = 0; i < inputs; ++i) gy.at(i, j) = dx[i];
  }
}

void RuntimeTape::jacobian(std::size_t step, double* jacobian) {
  const std::size_t inputs = model_->model.shape.d_in, outputs = model_->model.shape.d_out;
  model_->derivative().jacobian(columns_, point(step), jacobian, work_);
  for (std::size_t j = 0; j < columns_; ++j)
    for (std::size_t i = 0; i < outputs; ++i)
      for (std::size_t k = 0; k < inputs; ++k)
        jacobian[(j * outputs + i) * inputs + k] *=
            model_->normalisers.output.scale(i) * model_->normalisers.input.factor(k);
  if (!frames_.exist()) return;
  for (std::size_t j = 0; j < columns_; ++j) {
    const std::size_t frame = step * columns_ + j;
    double* const rows = jacobian + j * outputs * inputs;
    for (std::size_t i = 0; i < outputs; ++i)
      frames_.leave(frame, rows + i * inputs);  // the transpose of entering
    for (std::size_t k = 0; k < inputs; ++k) {
      for (std::size_t i = 0; i < outputs; ++i) dc_[i] = rows[i * inputs + k];
      frames_.leave(frame, dc_.data());
      for (std::size_t i = 0; i < outputs; ++i) rows[i * inputs + k] = dc_[i];
    }
  }
}

}  // namespace mac
