// The C boundary: arguments are checked, exceptions become codes and sentences.
#pragma once

#include <mac/mac.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mac/error.hpp>
#include <new>

#include "runtime/runtime_model.hpp"
#include "runtime/runtime_state.hpp"
#include "runtime/runtime_tape.hpp"

struct mac_model {
  std::shared_ptr<const mac::RuntimeModel> shared;
};
struct mac_state {
  std::unique_ptr<mac::RuntimeState> own;
  std::unique_ptr<mac::RuntimeTape> linearised = nullptr;  // a tape of one step, made when first asked for
};
struct mac_tape {
  mac::RuntimeTape own;
};

namespace mac::c_boundary {

inline mac_status report(mac_error* error, mac_status status, const char* sentence) noexcept {
  if (error) {
    error->code = status;
    const std::size_t length = std::min(std::strlen(sentence), sizeof error->message - 1);
    std::memcpy(error->message, sentence, length);
    error->message[length] = '\0';
  }
  return status;
}

/// Runs the body; what it throws comes back as a status. `failure` is the code of a plain mac::Error.
template <class Body>
mac_status guarded(mac_error* error, mac_status failure, const Body& body) noexcept {
  try {
    body();
    return MAC_OK;
  } catch (const NotFinite& caught) {
    return report(error, MAC_NOT_FINITE, caught.what());
  } catch (const UsageError& caught) {
    return report(error, MAC_INVALID_ARGUMENT, caught.what());
  } catch (const Error& caught) {
    return report(error, failure, caught.what());
  } catch (const std::bad_alloc&) {
    return report(error, MAC_OUT_OF_MEMORY, "there is not enough memory");
  } catch (const std::exception& caught) {
    return report(error, MAC_INTERNAL_ERROR, caught.what());
  } catch (...) {
    return report(error, MAC_INTERNAL_ERROR, "an exception of an unknown type was thrown");
  }
}

inline void require(const void* pointer, const char* function, const char* argument) {
  if (!pointer) throw UsageError("{}: the argument {} is null", function, argument);
}

inline std::size_t inputs_of(const mac_state* state) {
  return state ? state->own->model().model.input_size() : 0;
}
inline std::size_t outputs_of(const mac_state* state) {
  return state ? state->own->model().model.shape.d_out : 0;
}

template <class U>
void require_field(const Field<U>& field, std::size_t components, std::size_t columns, const char* function,
                   const char* argument) {
  require(field.data, function, argument);
  if ((field.component == 0 && components > 1) || (field.column == 0 && columns > 1))
    throw UsageError("{}: a stride of {} is 0: its elements would be one", function, argument);
}

/// A grid of the state's columns, and an array of it for each component.
template <class U>
void require_grid(std::size_t columns, const size_t* extents, U* const* components, std::size_t count,
                  const ptrdiff_t* strides, const char* function, const char* argument) {
  require(extents, function, "extents");
  require(components, function, argument);
  require(strides, function, "strides");
  for (std::size_t i = 0; i < count; ++i) require(components[i], function, argument);
  for (std::size_t k = 0; k < 3; ++k)
    if (strides[k] == 0 && extents[k] > 1)
      throw UsageError("{}: a stride of {} is 0: its elements would be one", function, argument);
  if (extents[0] == 0 || extents[1] == 0 || extents[2] == 0 || extents[0] > columns ||
      extents[1] > columns / extents[0] || extents[2] != columns / extents[0] / extents[1] ||
      extents[0] * extents[1] * extents[2] != columns)
    throw UsageError("{}: a grid of {} x {} x {} is not that of the state's {} columns", function, extents[0],
                     extents[1], extents[2], columns);
}

/// What mac_closure_at and its like refuse.
inline void require_closure_at(const mac_state* state, mac_hold hold, double fraction, const char* function) {
  require(state, function, "state");
  if (hold != MAC_HOLD_ZERO && hold != MAC_HOLD_LINEAR)
    throw UsageError("{}: hold is {}: expected MAC_HOLD_ZERO or MAC_HOLD_LINEAR", function, hold);
  if (!std::isfinite(fraction)) throw UsageError("{}: fraction is {}: expected 0 to 1", function, fraction);
  if (state->own->steps() == 0) throw UsageError("{}: the state has not taken a step yet", function);
}

}  // namespace mac::c_boundary
