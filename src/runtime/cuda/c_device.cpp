// The C interface of mac/mac_cuda.h.
#include <mac/mac_cuda.h>

#include <cmath>
#include <mac/cuda.hpp>
#include <mac/version.hpp>

#include "runtime/c_boundary.hpp"
#include "runtime/cuda/device_state.hpp"
#include "runtime/saved_columns.hpp"

struct mac_device_state {
  mac::cuda::DeviceState own;
};

namespace {

using namespace mac;
using namespace mac::c_boundary;
using cuda::DeviceField;

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

std::size_t inputs_of(const mac_device_state* state) {
  return state ? state->own.model().model.input_size() : 0;
}
std::size_t outputs_of(const mac_device_state* state) {
  return state ? state->own.model().model.shape.d_out : 0;
}

/// How the columns lie in a host's array.
struct Grid {
  std::size_t extents[3];
  std::ptrdiff_t component, strides[3];
};
Grid strided(const mac_device_state* state, std::ptrdiff_t component, std::ptrdiff_t column) {
  return {{state ? state->own.columns() : 0, 1, 1}, component, {column, 0, 0}};
}
Grid rows_of(const mac_device_state* state, std::size_t components) {
  return strided(state, 1, static_cast<std::ptrdiff_t>(components));
}

template <class U>
DeviceField field(const char* function, const char* name, const mac_device_state* state, U* data,
                  const Grid& grid, std::size_t components) {
  state->own.require_reach(data, function, name);
  bool zero = grid.component == 0 && components > 1;
  for (int k = 0; k < 3; ++k) zero = zero || (grid.strides[k] == 0 && grid.extents[k] > 1);
  if (zero) throw UsageError("{}: a stride of {} is 0: its elements would be one", function, name);
  return {.data = const_cast<std::remove_const_t<U>*>(data),
          .is_float = sizeof(U) == sizeof(float),
          .component = grid.component,
          .extents = {static_cast<unsigned>(grid.extents[0]), static_cast<unsigned>(grid.extents[1])},
          .strides = {grid.strides[0], grid.strides[1], grid.strides[2]}};
}

template <class U>
mac_status step(const char* function, mac_device_state* state, const U* y, const Grid& y_grid, U* closure,
                const Grid& closure_grid, void* stream, mac_error* error) noexcept {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, function, "state");
    state->own.step(field(function, "y", state, y, y_grid, inputs_of(state)),
                    field(function, "closure", state, closure, closure_grid, outputs_of(state)),
                    stream_of(stream));
  });
}

template <class U>
mac_status step_field(const char* function, mac_device_state* state, const size_t* extents, const U* y,
                      ptrdiff_t y_component, const ptrdiff_t* y_strides, U* closure,
                      ptrdiff_t closure_component, const ptrdiff_t* closure_strides, void* stream,
                      mac_error* error) noexcept {
  Grid of_y{{}, y_component, {}}, of_closure{{}, closure_component, {}};
  const mac_status status = guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, function, "state");
    require(extents, function, "extents");
    require(y_strides, function, "y_strides");
    require(closure_strides, function, "closure_strides");
    std::size_t points = 1;
    for (int k = 0; k < 3; ++k) {
      points = std::max(points, extents[k]) <= state->own.columns() ? points * extents[k] : 0;
      of_y.extents[k] = of_closure.extents[k] = extents[k];
      of_y.strides[k] = y_strides[k], of_closure.strides[k] = closure_strides[k];
    }
    if (points != state->own.columns())
      throw UsageError("{}: a grid of {} x {} x {} is not that of the state's {} columns", function,
                       extents[0], extents[1], extents[2], state->own.columns());
  });
  return status == MAC_OK ? step(function, state, y, of_y, closure, of_closure, stream, error) : status;
}

template <class U>
mac_status closure_at(const char* function, const mac_device_state* state, mac_hold hold, double fraction,
                      U* closure, const Grid& grid, void* stream, mac_error* error) noexcept {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, function, "state");
    if (hold != MAC_HOLD_ZERO && hold != MAC_HOLD_LINEAR)
      throw UsageError("{}: hold is {}: expected MAC_HOLD_ZERO or MAC_HOLD_LINEAR", function, hold);
    if (!std::isfinite(fraction)) throw UsageError("{}: fraction is {}: expected 0 to 1", function, fraction);
    state->own.closure_at({static_cast<Hold>(hold), state->own.model().held.target}, fraction,
                          field(function, "closure", state, closure, grid, outputs_of(state)),
                          stream_of(stream));
  });
}

}  // namespace

mac_status mac_cuda_available(mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
  });
}

mac_status mac_device_state_create(const mac_model* model, size_t columns, mac_device_state** state,
                                   mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(model, "mac_device_state_create", "model");
    require(state, "mac_device_state_create", "state");
    // A program may link both runtimes; what is behind a mac_model must be the same in both.
    if (std::strcmp(mac_version(), mac::version()) != 0)
      throw UsageError(
          "mac_device_state_create: the model is of libmac_runtime {}, this is libmac_runtime_cuda {}",
          mac_version(), mac::version());
    *state = new mac_device_state{cuda::DeviceState(model->shared, columns)};
  });
}

void mac_device_state_free(mac_device_state* state) {
  if (!state) return;
  guarded(nullptr, MAC_DEVICE_ERROR, [&] {
    const cuda::OnDevice on(state->own.device());
    delete state;
  });
}

size_t mac_device_state_columns(const mac_device_state* state) { return state ? state->own.columns() : 0; }

int mac_device_state_device(const mac_device_state* state) { return state ? state->own.device() : -1; }

size_t mac_device_state_memory(const mac_device_state* state) { return state ? state->own.bytes() : 0; }

mac_status mac_device_state_reset(mac_device_state* state, void* stream, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, "mac_device_state_reset", "state");
    state->own.reset(stream_of(stream));
  });
}

size_t mac_device_state_bytes(const mac_device_state* state, size_t count) {
  return state ? saved_head_size + count * saved_record_size(state->own.model()) : 0;
}

mac_status mac_device_state_save(const mac_device_state* state, const size_t* columns, size_t count,
                                 void* buffer, size_t size, void* stream, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, "mac_device_state_save", "state");
    require(buffer, "mac_device_state_save", "buffer");
    if (size < mac_device_state_bytes(state, count))
      throw UsageError("mac_device_state_save: the buffer has {} bytes, the state needs {}", size,
                       mac_device_state_bytes(state, count));
    state->own.save({columns, count}, {static_cast<std::byte*>(buffer), size}, stream_of(stream));
  });
}

mac_status mac_device_state_restore(mac_device_state* state, const void* buffer, size_t size,
                                    const size_t* saved_columns, const size_t* columns, size_t count,
                                    void* stream, mac_error* error) {
  cuda::DeviceState::Read read;
  const mac_status status = guarded(error, MAC_BAD_STATE, [&] {
    require(state, "mac_device_state_restore", "state");
    require(buffer, "mac_device_state_restore", "buffer");
    read = state->own.read({static_cast<const std::byte*>(buffer), size}, {saved_columns, count},
                           {columns, count});
  });
  if (status != MAC_OK) return status;
  return guarded(error, MAC_DEVICE_ERROR, [&] { state->own.write(read, stream_of(stream)); });
}

mac_status mac_device_state_reset_columns(mac_device_state* state, const size_t* columns, size_t count,
                                          void* stream, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, "mac_device_state_reset_columns", "state");
    state->own.reset({columns, count}, stream_of(stream));
  });
}

mac_status mac_device_state_copy_columns(const mac_device_state* from, const size_t* from_columns,
                                         mac_device_state* to, const size_t* to_columns, size_t count,
                                         void* stream, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(from, "mac_device_state_copy_columns", "from");
    require(to, "mac_device_state_copy_columns", "to");
    to->own.copy(from->own, {from_columns, count}, {to_columns, count}, stream_of(stream));
  });
}

mac_status mac_step_device(mac_device_state* state, const double* y, double* closure, void* stream,
                           mac_error* error) {
  return step("mac_step_device", state, y, rows_of(state, inputs_of(state)), closure,
              rows_of(state, outputs_of(state)), stream, error);
}

mac_status mac_step_device_float(mac_device_state* state, const float* y, float* closure, void* stream,
                                 mac_error* error) {
  return step("mac_step_device_float", state, y, rows_of(state, inputs_of(state)), closure,
              rows_of(state, outputs_of(state)), stream, error);
}

mac_status mac_step_device_strided(mac_device_state* state, const double* y, ptrdiff_t y_component,
                                   ptrdiff_t y_column, double* closure, ptrdiff_t closure_component,
                                   ptrdiff_t closure_column, void* stream, mac_error* error) {
  return step("mac_step_device_strided", state, y, strided(state, y_component, y_column), closure,
              strided(state, closure_component, closure_column), stream, error);
}

mac_status mac_step_device_strided_float(mac_device_state* state, const float* y, ptrdiff_t y_component,
                                         ptrdiff_t y_column, float* closure, ptrdiff_t closure_component,
                                         ptrdiff_t closure_column, void* stream, mac_error* error) {
  return step("mac_step_device_strided_float", state, y, strided(state, y_component, y_column), closure,
              strided(state, closure_component, closure_column), stream, error);
}

mac_status mac_step_device_field(mac_device_state* state, const size_t extents[3], const double* y,
                                 ptrdiff_t y_component, const ptrdiff_t y_strides[3], double* closure,
                                 ptrdiff_t closure_component, const ptrdiff_t closure_strides[3],
                                 void* stream, mac_error* error) {
  return step_field("mac_step_device_field", state, extents, y, y_component, y_strides, closure,
                    closure_component, closure_strides, stream, error);
}

mac_status mac_step_device_field_float(mac_device_state* state, const size_t extents[3], const float* y,
                                       ptrdiff_t y_component, const ptrdiff_t y_strides[3], float* closure,
                                       ptrdiff_t closure_component, const ptrdiff_t closure_strides[3],
                                       void* stream, mac_error* error) {
  return step_field("mac_step_device_field_float", state, extents, y, y_component, y_strides, closure,
                    closure_component, closure_strides, stream, error);
}

mac_status mac_closure_at_device(const mac_device_state* state, mac_hold hold, double fraction,
                                 double* closure, void* stream, mac_error* error) {
  return closure_at("mac_closure_at_device", state, hold, fraction, closure,
                    rows_of(state, outputs_of(state)), stream, error);
}

mac_status mac_closure_at_device_strided(const mac_device_state* state, mac_hold hold, double fraction,
                                         double* closure, ptrdiff_t closure_component,
                                         ptrdiff_t closure_column, void* stream, mac_error* error) {
  return closure_at("mac_closure_at_device_strided", state, hold, fraction, closure,
                    strided(state, closure_component, closure_column), stream, error);
}

mac_status mac_closure_at_device_strided_float(const mac_device_state* state, mac_hold hold, double fraction,
                                               float* closure, ptrdiff_t closure_component,
                                               ptrdiff_t closure_column, void* stream, mac_error* error) {
  return closure_at("mac_closure_at_device_strided_float", state, hold, fraction, closure,
                    strided(state, closure_component, closure_column), stream, error);
}

mac_status mac_device_state_set_mask(mac_device_state* state, const unsigned char* mask, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, "mac_device_state_set_mask", "state");
    if (mask) state->own.require_reach(mask, "mac_device_state_set_mask", "mask");
    state->own.set_mask(mask);
  });
}

mac_status mac_device_state_check(mac_device_state* state, void* stream, mac_error* error) {
  return guarded(error, MAC_DEVICE_ERROR, [&] {
    require(state, "mac_device_state_check", "state");
    state->own.check(stream_of(stream));
  });
}
