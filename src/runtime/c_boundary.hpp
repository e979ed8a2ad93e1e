// The C boundary: arguments are checked, exceptions become codes and sentences.
#pragma once

#include <mac/mac.h>

#include <algorithm>
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

}  // namespace mac::c_boundary
