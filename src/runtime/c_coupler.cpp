// The C interface to couplers.
#include "runtime/c_boundary.hpp"
#include "runtime/coupler.hpp"

struct mac_coupler {
  mac::RuntimeCoupler own;
};

namespace {

using namespace mac;
using namespace mac::c_boundary;

std::size_t inputs_of(const mac_coupler* coupler) {
  return coupler ? coupler->own.model().model.input_size() : 0;
}
std::size_t outputs_of(const mac_coupler* coupler) {
  return coupler ? coupler->own.model().model.shape.d_out : 0;
}

template <class U>
mac_status begin(const char* function, mac_coupler* coupler, const Field<const U>& y,
                 mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(coupler, function, "coupler");
    require_field(y, inputs_of(coupler), coupler->own.columns(), function, "y");
    coupler->own.begin(StridedLayout<const U>{y});
  });
}

template <class U>
mac_status begin_fields(const char* function, mac_coupler* coupler, const size_t* extents, const U* const* y,
                        const ptrdiff_t* strides, mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(coupler, function, "coupler");
    require_grid(coupler->own.columns(), extents, y, inputs_of(coupler), strides, function, "y");
    coupler->own.begin(GridLayout<const U>{y, extents, strides});
  });
}

void require_closure(const mac_coupler* coupler, double fraction, const char* function) {
  require(coupler, function, "coupler");
  if (!std::isfinite(fraction)) throw UsageError("{}: fraction is {}: expected 0 to 1", function, fraction);
}

template <class U>
mac_status closure(const char* function, const mac_coupler* coupler, double fraction, const Field<U>& closure,
                   mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_closure(coupler, fraction, function);
    require_field(closure, outputs_of(coupler), coupler->own.columns(), function, "closure");
    coupler->own.closure_at(fraction, StridedLayout<U>{closure});
  });
}

template <class U>
mac_status closure_fields(const char* function, const mac_coupler* coupler, double fraction,
                          const size_t* extents, U* const* closure, const ptrdiff_t* strides,
                          mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_closure(coupler, fraction, function);
    require_grid(coupler->own.columns(), extents, closure, outputs_of(coupler), strides, function, "closure");
    coupler->own.closure_at(fraction, GridLayout<U>{closure, extents, strides});
  });
}

}  // namespace

mac_status mac_coupler_create(mac_state* state, double host_step, double closure_step, mac_hold hold,
                              mac_coupler** coupler, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_coupler_create", "state");
    require(coupler, "mac_coupler_create", "coupler");
    if (hold != MAC_HOLD_ZERO && hold != MAC_HOLD_LINEAR)
      throw UsageError("mac_coupler_create: hold is {}: expected MAC_HOLD_ZERO or MAC_HOLD_LINEAR", hold);
    if (closure_step == 0) closure_step = state->own->model().model.closure_step.value_or(0);
    *coupler = new mac_coupler{RuntimeCoupler(*state->own, host_step, closure_step, static_cast<Hold>(hold))};
  });
}

void mac_coupler_free(mac_coupler* coupler) { delete coupler; }

size_t mac_coupler_host_steps(const mac_coupler* coupler) { return coupler ? coupler->own.host_steps() : 0; }

size_t mac_coupler_closure_steps(const mac_coupler* coupler) {
  return coupler ? coupler->own.closure_steps() : 0;
}

mac_status mac_coupler_begin(mac_coupler* coupler, const double* y, mac_error* error) {
  return begin("mac_coupler_begin", coupler, rows(y, inputs_of(coupler)), error);
}

mac_status mac_coupler_begin_strided(mac_coupler* coupler, const double* y, ptrdiff_t y_component,
                                     ptrdiff_t y_column, mac_error* error) {
  return begin<double>("mac_coupler_begin_strided", coupler, {y, y_component, y_column}, error);
}

mac_status mac_coupler_begin_strided_float(mac_coupler* coupler, const float* y, ptrdiff_t y_component,
                                           ptrdiff_t y_column, mac_error* error) {
  return begin<float>("mac_coupler_begin_strided_float", coupler, {y, y_component, y_column}, error);
}

mac_status mac_coupler_begin_fields(mac_coupler* coupler, const size_t extents[3], const double* const* y,
                                    const ptrdiff_t y_strides[3], mac_error* error) {
  return begin_fields("mac_coupler_begin_fields", coupler, extents, y, y_strides, error);
}

mac_status mac_coupler_begin_fields_float(mac_coupler* coupler, const size_t extents[3],
                                          const float* const* y, const ptrdiff_t y_strides[3],
                                          mac_error* error) {
  return begin_fields("mac_coupler_begin_fields_float", coupler, extents, y, y_strides, error);
}

mac_status mac_coupler_closure(const mac_coupler* coupler, double fraction, double* closure,
                               mac_error* error) {
  return ::closure("mac_coupler_closure", coupler, fraction, rows(closure, outputs_of(coupler)), error);
}

mac_status mac_coupler_closure_strided(const mac_coupler* coupler, double fraction, double* closure,
                                       ptrdiff_t closure_component, ptrdiff_t closure_column,
                                       mac_error* error) {
  return ::closure<double>("mac_coupler_closure_strided", coupler, fraction,
                           {closure, closure_component, closure_column}, error);
}

mac_status mac_coupler_closure_strided_float(const mac_coupler* coupler, double fraction, float* closure,
                                             ptrdiff_t closure_component, ptrdiff_t closure_column,
                                             mac_error* error) {
  return ::closure<float>("mac_coupler_closure_strided_float", coupler, fraction,
                          {closure, closure_component, closure_column}, error);
}

mac_status mac_coupler_closure_fields(const mac_coupler* coupler, double fraction, const size_t extents[3],
                                      double* const* closure, const ptrdiff_t closure_strides[3],
                                      mac_error* error) {
  return closure_fields("mac_coupler_closure_fields", coupler, fraction, extents, closure, closure_strides,
                        error);
}

mac_status mac_coupler_closure_fields_float(const mac_coupler* coupler, double fraction,
                                            const size_t extents[3], float* const* closure,
                                            const ptrdiff_t closure_strides[3], mac_error* error) {
  return closure_fields("mac_coupler_closure_fields_float", coupler, fraction, extents, closure,
                        closure_strides, error);
}

size_t mac_coupler_numbers(const mac_coupler* coupler) { return coupler ? coupler->own.saved_size() : 0; }

mac_status mac_coupler_save(const mac_coupler* coupler, double* numbers, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(coupler, "mac_coupler_save", "coupler");
    require(numbers, "mac_coupler_save", "numbers");
    coupler->own.save(numbers);
  });
}

mac_status mac_coupler_restore(mac_coupler* coupler, const double* numbers, mac_error* error) {
  return guarded(error, MAC_BAD_STATE, [&] {
    require(coupler, "mac_coupler_restore", "coupler");
    require(numbers, "mac_coupler_restore", "numbers");
    coupler->own.restore(numbers);
  });
}
