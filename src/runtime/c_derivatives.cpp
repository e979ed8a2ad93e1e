// The C interface to derivatives of steps.
#include "runtime/c_boundary.hpp"

namespace {

using namespace mac;
using namespace mac::c_boundary;

/// The strides of arrays like y and like the closure.
struct Strides {
  ptrdiff_t component, column;
};
Strides row_major(std::size_t components) { return {1, static_cast<ptrdiff_t>(components)}; }
template <class T>
Field<T> field(T* data, Strides strides) {
  return {data, strides.component, strides.column};
}

std::size_t inputs_of(const mac_tape* tape) { return tape ? tape->own.model().model.shape.d_in : 0; }
std::size_t outputs_of(const mac_tape* tape) { return tape ? tape->own.model().model.shape.d_out : 0; }
using c_boundary::inputs_of;
using c_boundary::outputs_of;

void require_memory(const RuntimeModel& model, const double* memory, const char* function,
                    const char* argument) {
  if (model.model.shape.state_size() > 0) require(memory, function, argument);
}

/// The state's own tape with the step that would come next.
RuntimeTape& linearised(mac_state* state, const Field<const double>& y, const char* function) {
  require(state, function, "state");
  require_field(y, inputs_of(state), state->own->columns(), function, "y");
  if (!state->linearised)
    state->linearised = std::make_unique<RuntimeTape>(state->own->shared_model(), state->own->columns(), 1);
  state->linearised->clear();
  state->linearised->record(*state->own, y);
  return *state->linearised;
}

void require_step(const mac_tape* tape, std::size_t step, const char* function) {
  require(tape, function, "tape");
  if (step >= tape->own.steps())
    throw UsageError("{}: step {} is not on the tape, which has {}", function, step, tape->own.steps());
}

void tangent(RuntimeTape& tape, std::size_t step, const Field<const double>& dy, double* dmemory,
             const Field<double>& dclosure, const char* function) {
  const NetworkShape& shape = tape.model().model.shape;
  require_field(dy, shape.d_in, tape.columns(), function, "dy");
  require_memory(tape.model(), dmemory, function, "dmemory");
  require_field(dclosure, shape.d_out, tape.columns(), function, "dclosure");
  tape.tangent(step, dy, dmemory, dclosure);
}

void adjoint(RuntimeTape& tape, std::size_t step, const Field<const double>& gclosure, double* gmemory,
             const Field<double>& gy, const char* function) {
  const NetworkShape& shape = tape.model().model.shape;
  require_field(gclosure, shape.d_out, tape.columns(), function, "gclosure");
  require_memory(tape.model(), gmemory, function, "gmemory");
  require_field(gy, shape.d_in, tape.columns(), function, "gy");
  tape.adjoint(step, gclosure, gmemory, gy);
}

mac_status step_tangent(const char* function, mac_state* state, const double* y, const double* dy,
                        Strides of_y, double* dmemory, double* dclosure, Strides of_closure,
                        mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    RuntimeTape& tape = linearised(state, field(y, of_y), function);
    tangent(tape, 0, field(dy, of_y), dmemory, field(dclosure, of_closure), function);
  });
}

mac_status step_adjoint(const char* function, mac_state* state, const double* y, const double* gclosure,
                        Strides of_closure, double* gmemory, double* gy, Strides of_y,
                        mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    RuntimeTape& tape = linearised(state, field(y, of_y), function);
    adjoint(tape, 0, field(gclosure, of_closure), gmemory, field(gy, of_y), function);
  });
}

mac_status tape_step(const char* function, mac_tape* tape, mac_state* state, const Field<const double>& y,
                     const Field<double>& closure, mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(tape, function, "tape");
    require(state, function, "state");
    require_field(y, inputs_of(state), state->own->columns(), function, "y");
    require_field(closure, outputs_of(state), state->own->columns(), function, "closure");
    tape->own.check(*state->own);
    tape->own.record(*state->own, y);
    try {
      state->own->step(StridedLayout<const double>{y}, StridedLayout<double>{closure});
    } catch (...) {
      tape->own.forget_last();
      throw;
    }
  });
}

mac_status tape_tangent(const char* function, mac_tape* tape, size_t step, const Field<const double>& dy,
                        double* dmemory, const Field<double>& dclosure, mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_step(tape, step, function);
    tangent(tape->own, step, dy, dmemory, dclosure, function);
  });
}

mac_status tape_adjoint(const char* function, mac_tape* tape, size_t step,
                        const Field<const double>& gclosure, double* gmemory, const Field<double>& gy,
                        mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_step(tape, step, function);
    adjoint(tape->own, step, gclosure, gmemory, gy, function);
  });
}

}  // namespace

size_t mac_state_memory_size(const mac_state* state) {
  return state ? state->own->model().model.shape.state_size() : 0;
}

mac_status mac_state_get_memory(const mac_state* state, double* memory, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_get_memory", "state");
    require_memory(state->own->model(), memory, "mac_state_get_memory", "memory");
    state->own->get_memory(memory);
  });
}

mac_status mac_state_set_memory(mac_state* state, const double* memory, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_memory", "state");
    require_memory(state->own->model(), memory, "mac_state_set_memory", "memory");
    state->own->set_memory(memory);
  });
}

mac_status mac_step_tangent(mac_state* state, const double* y, const double* dy, double* dmemory,
                            double* dclosure, mac_error* error) {
  return step_tangent("mac_step_tangent", state, y, dy, row_major(inputs_of(state)), dmemory, dclosure,
                      row_major(outputs_of(state)), error);
}

mac_status mac_step_tangent_strided(mac_state* state, const double* y, const double* dy,
                                    ptrdiff_t y_component, ptrdiff_t y_column, double* dmemory,
                                    double* dclosure, ptrdiff_t closure_component, ptrdiff_t closure_column,
                                    mac_error* error) {
  return step_tangent("mac_step_tangent_strided", state, y, dy, {y_component, y_column}, dmemory, dclosure,
                      {closure_component, closure_column}, error);
}

mac_status mac_step_adjoint(mac_state* state, const double* y, const double* gclosure, double* gmemory,
                            double* gy, mac_error* error) {
  return step_adjoint("mac_step_adjoint", state, y, gclosure, row_major(outputs_of(state)), gmemory, gy,
                      row_major(inputs_of(state)), error);
}

mac_status mac_step_adjoint_strided(mac_state* state, const double* y, const double* gclosure,
                                    ptrdiff_t closure_component, ptrdiff_t closure_column, double* gmemory,
                                    double* gy, ptrdiff_t y_component, ptrdiff_t y_column, mac_error* error) {
  return step_adjoint("mac_step_adjoint_strided", state, y, gclosure, {closure_component, closure_column},
                      gmemory, gy, {y_component, y_column}, error);
}

mac_status mac_step_jacobian(mac_state* state, const double* y, double* jacobian, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(jacobian, "mac_step_jacobian", "jacobian");
    linearised(state, rows(y, inputs_of(state)), "mac_step_jacobian").jacobian(0, jacobian);
  });
}

mac_status mac_tape_create(const mac_model* model, size_t columns, size_t steps, mac_tape** tape,
                           mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(model, "mac_tape_create", "model");
    require(tape, "mac_tape_create", "tape");
    *tape = new mac_tape{RuntimeTape(model->shared, columns, steps)};
  });
}

void mac_tape_free(mac_tape* tape) { delete tape; }

void mac_tape_clear(mac_tape* tape) {
  if (tape) tape->own.clear();
}

size_t mac_tape_steps(const mac_tape* tape) { return tape ? tape->own.steps() : 0; }

mac_status mac_tape_step(mac_tape* tape, mac_state* state, const double* y, double* closure,
                         mac_error* error) {
  return tape_step("mac_tape_step", tape, state, rows(y, inputs_of(state)), rows(closure, outputs_of(state)),
                   error);
}

mac_status mac_tape_step_strided(mac_tape* tape, mac_state* state, const double* y, ptrdiff_t y_component,
                                 ptrdiff_t y_column, double* closure, ptrdiff_t closure_component,
                                 ptrdiff_t closure_column, mac_error* error) {
  return tape_step("mac_tape_step_strided", tape, state, {y, y_component, y_column},
                   {closure, closure_component, closure_column}, error);
}

mac_status mac_tape_tangent(mac_tape* tape, size_t step, const double* dy, double* dmemory, double* dclosure,
                            mac_error* error) {
  return tape_tangent("mac_tape_tangent", tape, step, rows(dy, inputs_of(tape)), dmemory,
                      rows(dclosure, outputs_of(tape)), error);
}

mac_status mac_tape_tangent_strided(mac_tape* tape, size_t step, const double* dy, ptrdiff_t y_component,
                                    ptrdiff_t y_column, double* dmemory, double* dclosure,
                                    ptrdiff_t closure_component, ptrdiff_t closure_column, mac_error* error) {
  return tape_tangent("mac_tape_tangent_strided", tape, step, {dy, y_component, y_column}, dmemory,
                      {dclosure, closure_component, closure_column}, error);
}

mac_status mac_tape_adjoint(mac_tape* tape, size_t step, const double* gclosure, double* gmemory, double* gy,
                            mac_error* error) {
  return tape_adjoint("mac_tape_adjoint", tape, step, rows(gclosure, outputs_of(tape)), gmemory,
                      rows(gy, inputs_of(tape)), error);
}

mac_status mac_tape_adjoint_strided(mac_tape* tape, size_t step, const double* gclosure,
                                    ptrdiff_t closure_component, ptrdiff_t closure_column, double* gmemory,
                                    double* gy, ptrdiff_t y_component, ptrdiff_t y_column, mac_error* error) {
  return tape_adjoint("mac_tape_adjoint_strided", tape, step, {gclosure, closure_component, closure_column},
                      gmemory, {gy, y_component, y_column}, error);
}
