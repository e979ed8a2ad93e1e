// The C interface to couplers.
#include "runtime/c_boundary.hpp"
#include "runtime/coupler.hpp"

struct mac_coupler {
  mac::RuntimeCoupler own;
};

namespace {

using namespace mac;
using namespace mac::c_boundary;

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
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(coupler, "mac_coupler_begin", "coupler");
    require(y, "mac_coupler_begin", "y");
    coupler->own.begin(y);
  });
}

mac_status mac_coupler_closure(const mac_coupler* coupler, double fraction, double* closure,
                               mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(coupler, "mac_coupler_closure", "coupler");
    require(closure, "mac_coupler_closure", "closure");
    if (!std::isfinite(fraction))
      throw UsageError("mac_coupler_closure: fraction is {}: expected 0 to 1", fraction);
    coupler->own.closure_at(fraction, closure);
  });
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
