// The C interface to models, states and steps.
#include <mac/mac.h>

#include <algorithm>
#include <mac/version.hpp>

#include "runtime/c_boundary.hpp"

namespace {

using namespace mac;
using namespace mac::c_boundary;

static_assert(static_cast<int>(Hold::zero) == MAC_HOLD_ZERO &&
              static_cast<int>(Hold::linear) == MAC_HOLD_LINEAR &&
              static_cast<int>(Hold::stage) == MAC_HOLD_STAGE);
static_assert(static_cast<int>(Target::instant) == MAC_TARGET_INSTANT &&
              static_cast<int>(Target::mean) == MAC_TARGET_MEAN);
static_assert(static_cast<int>(Precision::float32) == MAC_FLOAT32 &&
              static_cast<int>(Precision::float64) == MAC_FLOAT64);

/// None: that of the file.
std::optional<Precision> precision_from(mac_precision precision, const char* function) {
  if (precision == MAC_PRECISION_OF_FILE) return std::nullopt;
  if (precision != MAC_FLOAT32 && precision != MAC_FLOAT64)
    throw UsageError("{}: precision is {}: expected MAC_FLOAT32, MAC_FLOAT64 or MAC_PRECISION_OF_FILE",
                     function, precision);
  return static_cast<Precision>(precision);
}

mac_model* opened(const Safetensors& tensors, std::optional<Precision> precision) {
  return new mac_model{std::make_shared<const RuntimeModel>(tensors, precision)};
}

template <class U>
mac_status step(const char* function, mac_state* state, Field<const U> y, Field<U> closure,
                mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, function, "state");
    require_field(y, inputs_of(state), state->own->columns(), function, "y");
    require_field(closure, outputs_of(state), state->own->columns(), function, "closure");
    state->own->step(StridedLayout<const U>{y}, StridedLayout<U>{closure});
  });
}

template <class U>
mac_status closure_at(const char* function, const mac_state* state, mac_hold hold, double fraction,
                      const Field<U>& closure, mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_closure_at(state, hold, fraction, function);
    require_field(closure, outputs_of(state), state->own->columns(), function, "closure");
    state->own->closure_at(static_cast<Hold>(hold), fraction, StridedLayout<U>{closure});
  });
}

mac_status save_columns(const char* function, const mac_state* state, const size_t* columns, size_t count,
                        void* buffer, size_t size, mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, function, "state");
    require(buffer, function, "buffer");
    if (count > state->own->columns() && !columns)
      throw UsageError("{}: {} columns were asked for, the state has {}", function, count,
                       state->own->columns());
    if (size < state->own->saved_size(count))
      throw UsageError("{}: the buffer has {} bytes, the state needs {}", function, size,
                       state->own->saved_size(count));
    state->own->save({columns, count}, {static_cast<std::byte*>(buffer), size});
  });
}

const char* name_at(const std::vector<std::string>& names, std::size_t component) {
  return component < names.size() ? names[component].c_str() : "";
}

}  // namespace

const char* mac_version(void) { return mac::version(); }

const char* mac_status_name(mac_status status) {
  switch (status) {
    case MAC_OK:
      return "ok";
    case MAC_INVALID_ARGUMENT:
      return "invalid argument";
    case MAC_BAD_MODEL:
      return "bad model";
    case MAC_BAD_STATE:
      return "bad state";
    case MAC_NOT_FINITE:
      return "not finite";
    case MAC_OUT_OF_MEMORY:
      return "out of memory";
    case MAC_INTERNAL_ERROR:
      return "internal error";
    case MAC_DEVICE_ERROR:
      return "device error";
  }
  return "unknown status";
}

mac_status mac_model_open(const char* path, mac_precision precision, mac_model** model, mac_error* error) {
  return guarded(error, MAC_BAD_MODEL, [&] {
    require(path, "mac_model_open", "path");
    require(model, "mac_model_open", "model");
    *model = opened(Safetensors::read(path), precision_from(precision, "mac_model_open"));
  });
}

mac_status mac_model_open_memory(const void* bytes, size_t size, const char* name, mac_precision precision,
                                 mac_model** model, mac_error* error) {
  return guarded(error, MAC_BAD_MODEL, [&] {
    require(bytes, "mac_model_open_memory", "bytes");
    require(model, "mac_model_open_memory", "model");
    const std::string_view contents(static_cast<const char*>(bytes), size);
    *model = opened(Safetensors::parse(contents, name ? name : "model in memory"),
                    precision_from(precision, "mac_model_open_memory"));
  });
}

mac_status mac_model_clone(const mac_model* model, mac_model** clone, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(model, "mac_model_clone", "model");
    require(clone, "mac_model_clone", "clone");
    *clone = new mac_model{model->shared};
  });
}

void mac_model_close(mac_model* model) { delete model; }

size_t mac_model_inputs(const mac_model* model) { return model ? model->shared->model.input_size() : 0; }

size_t mac_model_outputs(const mac_model* model) { return model ? model->shared->model.shape.d_out : 0; }

size_t mac_model_parameters(const mac_model* model) { return model ? model->shared->parameters : 0; }

mac_precision mac_model_precision(const mac_model* model) {
  return model ? static_cast<mac_precision>(model->shared->precision()) : MAC_FLOAT32;
}

const char* mac_model_kind(const mac_model* model) {
  return model ? to_string(model->shared->model.shape.kind).data() : "";
}

const char* mac_model_system(const mac_model* model) {
  return model ? model->shared->model.system.c_str() : "";
}

const char* mac_model_input_name(const mac_model* model, size_t component) {
  return model ? name_at(model->shared->model.input_names, component) : "";
}

const char* mac_model_output_name(const mac_model* model, size_t component) {
  return model ? name_at(model->shared->model.output_names, component) : "";
}

ptrdiff_t mac_model_closure_target(const mac_model* model, size_t component) {
  if (!model || component >= model->shared->closure_targets.size()) return -1;
  return static_cast<ptrdiff_t>(model->shared->closure_targets[component]);
}

double mac_model_closure_step(const mac_model* model) {
  return model ? model->shared->model.closure_step.value_or(0) : 0;
}

mac_hold mac_model_hold(const mac_model* model) {
  return model ? static_cast<mac_hold>(model->shared->held.hold) : MAC_HOLD_ZERO;
}

mac_target mac_model_target(const mac_model* model) {
  return model ? static_cast<mac_target>(model->shared->held.target) : MAC_TARGET_INSTANT;
}

const char* mac_model_metadata(const mac_model* model, const char* key) {
  if (!model || !key) return nullptr;
  for (const auto& [name, text] : model->shared->metadata)
    if (name == key) return text.c_str();
  return nullptr;
}

uint64_t mac_model_id(const mac_model* model) { return model ? model->shared->id : 0; }

mac_status mac_model_normalisation(const mac_model* model, double* input_mean, double* input_scale,
                                   double* output_mean, double* output_scale, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(model, "mac_model_normalisation", "model");
    const Normalisation& n = model->shared->model.normalisation;
    if (input_mean) std::ranges::copy(n.input_mean, input_mean);
    if (input_scale) std::ranges::copy(n.input_scale, input_scale);
    if (output_mean) std::ranges::copy(n.output_mean, output_mean);
    if (output_scale) std::ranges::copy(n.output_scale, output_scale);
  });
}

mac_status mac_state_create(const mac_model* model, size_t columns, mac_state** state, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(model, "mac_state_create", "model");
    require(state, "mac_state_create", "state");
    *state = new mac_state{make_state(model->shared, columns)};
  });
}

mac_status mac_state_clone(const mac_state* state, mac_state** clone, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_clone", "state");
    require(clone, "mac_state_clone", "clone");
    *clone = new mac_state{state->own->clone()};
  });
}

mac_status mac_state_copy(const mac_state* from, mac_state* to, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(from, "mac_state_copy", "from");
    require(to, "mac_state_copy", "to");
    if (from->own->columns() != to->own->columns())
      throw UsageError("mac_state_copy: a state of {} columns cannot be copied to one of {}",
                       from->own->columns(), to->own->columns());
    to->own->copy(*from->own, from->own->all(), to->own->all());
  });
}

void mac_state_free(mac_state* state) { delete state; }

mac_status mac_state_reset(mac_state* state, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_reset", "state");
    state->own->reset(state->own->all());
  });
}

size_t mac_model_noise(const mac_model* model) { return model ? model->shared->model.noise.channels : 0; }

mac_status mac_state_seed(mac_state* state, uint64_t seed, const uint64_t* streams, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_seed", "state");
    state->own->seed(seed, streams);
  });
}

mac_status mac_state_set_noise(mac_state* state, int on, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_noise", "state");
    state->own->set_noise(on != 0);
  });
}

mac_status mac_state_set_frame(mac_state* state, const double* y, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_frame", "state");
    const Field<const double> states = rows(y, inputs_of(state));
    require_field(states, inputs_of(state), state->own->columns(), "mac_state_set_frame", "y");
    state->own->set_frames(states);
  });
}

size_t mac_state_columns(const mac_state* state) { return state ? state->own->columns() : 0; }

uint64_t mac_state_steps(const mac_state* state) { return state ? state->own->steps() : 0; }

uint64_t mac_state_column_steps(const mac_state* state, size_t column) {
  return state && column < state->own->columns() ? state->own->steps(column) : 0;
}

size_t mac_state_bytes(const mac_state* state) {
  return state ? state->own->saved_size(state->own->columns()) : 0;
}

mac_status mac_state_save(const mac_state* state, void* buffer, size_t size, mac_error* error) {
  return save_columns("mac_state_save", state, nullptr, mac_state_columns(state), buffer, size, error);
}

mac_status mac_state_restore(mac_state* state, const void* buffer, size_t size, mac_error* error) {
  return guarded(error, MAC_BAD_STATE, [&] {
    require(state, "mac_state_restore", "state");
    require(buffer, "mac_state_restore", "buffer");
    const std::span saved(static_cast<const std::byte*>(buffer), size);
    if (const std::size_t columns = state->own->saved_columns(saved); columns != state->own->columns())
      throw Error("the saved state has {} columns, this state has {}; mac_state_restore_columns takes some",
                  columns, state->own->columns());
    state->own->restore(saved, state->own->all(), state->own->all());
  });
}

size_t mac_state_columns_bytes(const mac_state* state, size_t count) {
  return state ? state->own->saved_size(count) : 0;
}

mac_status mac_state_save_columns(const mac_state* state, const size_t* columns, size_t count, void* buffer,
                                  size_t size, mac_error* error) {
  return save_columns("mac_state_save_columns", state, columns, count, buffer, size, error);
}

size_t mac_saved_columns(const mac_state* state, const void* buffer, size_t size) {
  size_t columns = 0;
  if (state && buffer)
    guarded(nullptr, MAC_BAD_STATE, [&] {
      columns = state->own->saved_columns({static_cast<const std::byte*>(buffer), size});
    });
  return columns;
}

mac_status mac_state_restore_columns(mac_state* state, const void* buffer, size_t size,
                                     const size_t* saved_columns, const size_t* columns, size_t count,
                                     mac_error* error) {
  return guarded(error, MAC_BAD_STATE, [&] {
    require(state, "mac_state_restore_columns", "state");
    require(buffer, "mac_state_restore_columns", "buffer");
    state->own->restore({static_cast<const std::byte*>(buffer), size}, {saved_columns, count},
                        {columns, count});
  });
}

mac_status mac_state_reset_columns(mac_state* state, const size_t* columns, size_t count, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_reset_columns", "state");
    state->own->reset({columns, count});
  });
}

mac_status mac_state_copy_columns(const mac_state* from, const size_t* from_columns, mac_state* to,
                                  const size_t* to_columns, size_t count, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(from, "mac_state_copy_columns", "from");
    require(to, "mac_state_copy_columns", "to");
    to->own->copy(*from->own, {from_columns, count}, {to_columns, count});
  });
}

mac_status mac_step(mac_state* state, const double* y, double* closure, mac_error* error) {
  return step("mac_step", state, rows(y, inputs_of(state)), rows(closure, outputs_of(state)), error);
}

mac_status mac_step_float(mac_state* state, const float* y, float* closure, mac_error* error) {
  return step("mac_step_float", state, rows(y, inputs_of(state)), rows(closure, outputs_of(state)), error);
}

mac_status mac_step_strided(mac_state* state, const double* y, ptrdiff_t y_component, ptrdiff_t y_column,
                            double* closure, ptrdiff_t closure_component, ptrdiff_t closure_column,
                            mac_error* error) {
  return step<double>("mac_step_strided", state, {y, y_component, y_column},
                      {closure, closure_component, closure_column}, error);
}

mac_status mac_step_strided_float(mac_state* state, const float* y, ptrdiff_t y_component, ptrdiff_t y_column,
                                  float* closure, ptrdiff_t closure_component, ptrdiff_t closure_column,
                                  mac_error* error) {
  return step<float>("mac_step_strided_float", state, {y, y_component, y_column},
                     {closure, closure_component, closure_column}, error);
}

mac_status mac_closure_at(const mac_state* state, mac_hold hold, double fraction, double* closure,
                          mac_error* error) {
  return closure_at("mac_closure_at", state, hold, fraction, rows(closure, outputs_of(state)), error);
}

mac_status mac_closure_at_strided(const mac_state* state, mac_hold hold, double fraction, double* closure,
                                  ptrdiff_t closure_component, ptrdiff_t closure_column, mac_error* error) {
  return closure_at<double>("mac_closure_at_strided", state, hold, fraction,
                            {closure, closure_component, closure_column}, error);
}

mac_status mac_closure_at_strided_float(const mac_state* state, mac_hold hold, double fraction,
                                        float* closure, ptrdiff_t closure_component, ptrdiff_t closure_column,
                                        mac_error* error) {
  return closure_at<float>("mac_closure_at_strided_float", state, hold, fraction,
                           {closure, closure_component, closure_column}, error);
}
