// The C interface to columns that rest, fields on grids, and guards.
#include "runtime/c_boundary.hpp"

namespace {

using namespace mac;
using namespace mac::c_boundary;

template <class U>
mac_status step_fields(const char* function, mac_state* state, const size_t* extents, const U* const* y,
                       const ptrdiff_t* y_strides, U* const* closure, const ptrdiff_t* closure_strides,
                       mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, function, "state");
    const std::size_t columns = state->own->columns();
    require_grid(columns, extents, y, inputs_of(state), y_strides, function, "y");
    require_grid(columns, extents, closure, outputs_of(state), closure_strides, function, "closure");
    state->own->step(GridLayout<const U>{y, extents, y_strides},
                     GridLayout<U>{closure, extents, closure_strides});
  });
}

template <class U>
mac_status closure_at_fields(const char* function, const mac_state* state, mac_hold hold, double fraction,
                             const size_t* extents, U* const* closure, const ptrdiff_t* strides,
                             mac_error* error) noexcept {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require_closure_at(state, hold, fraction, function);
    require_grid(state->own->columns(), extents, closure, outputs_of(state), strides, function, "closure");
    state->own->closure_at(static_cast<Hold>(hold), fraction, GridLayout<U>{closure, extents, strides});
  });
}

/// The host's ranges, or those of the training data.
TrainingRange range_from(const mac_limits& limits, const RuntimeModel& model) {
  const std::optional<TrainingRange>& of_training = model.model.training_range;
  const int given = (limits.input_low != nullptr) + (limits.input_high != nullptr) +
                    (limits.output_low != nullptr) + (limits.output_high != nullptr);
  if (given == 0) {
    if (!of_training)
      throw UsageError(
          "mac_state_set_limits: {} does not say the range of its training data: give input_low, input_high, "
          "output_low and output_high",
          model.file);
    return *of_training;
  }
  if (given != 4)
    throw UsageError(
        "mac_state_set_limits: of input_low, input_high, output_low and output_high some are null: give all, "
        "or "
        "none for the range of the training data");
  const std::size_t inputs = model.model.input_size(), outputs = model.model.shape.d_out;
  TrainingRange range{{limits.input_low, limits.input_low + inputs},
                      {limits.input_high, limits.input_high + inputs},
                      {limits.output_low, limits.output_low + outputs},
                      {limits.output_high, limits.output_high + outputs},
                      {},
                      {}};
  const auto check = [](const std::vector<double>& low, const std::vector<double>& high, const char* what) {
    for (std::size_t i = 0; i < low.size(); ++i)
      if (!std::isfinite(low[i]) || !std::isfinite(high[i]) || low[i] > high[i])
        throw UsageError("mac_state_set_limits: the range of {} {} is {} to {}", what, i, low[i], high[i]);
  };
  check(range.input_low, range.input_high, "input");
  check(range.output_low, range.output_high, "output");
  if (of_training) {
    range.input_average = of_training->input_average;
    range.input_covariance = of_training->input_covariance;
  }
  return range;
}

GuardSettings settings_from(const mac_limits& limits, const RuntimeModel& model) {
  if (limits.inputs != MAC_LIMIT_COUNT && limits.inputs != MAC_LIMIT_CLIP)
    throw UsageError("mac_state_set_limits: inputs is {}: expected MAC_LIMIT_COUNT or MAC_LIMIT_CLIP",
                     limits.inputs);
  if (limits.closure < MAC_LIMIT_COUNT || limits.closure > MAC_LIMIT_FADE)
    throw UsageError("mac_state_set_limits: closure is {}: expected one of MAC_LIMIT_COUNT to MAC_LIMIT_FADE",
                     limits.closure);
  if (!(limits.margin >= 0) || !std::isfinite(limits.margin))
    throw UsageError("mac_state_set_limits: margin is {}: expected 0 or more", limits.margin);
  const bool fades = limits.closure == MAC_LIMIT_FADE;
  if (fades && (!(limits.fade > 0) || !std::isfinite(limits.fade)))
    throw UsageError("mac_state_set_limits: fade is {}: expected more than 0", limits.fade);
  return {static_cast<GuardSettings::Inputs>(limits.inputs),
          static_cast<GuardSettings::Closure>(limits.closure), limits.margin, fades ? limits.fade : 1,
          range_from(limits, model)};
}
static_assert(static_cast<int>(GuardSettings::Inputs::clip) == MAC_LIMIT_CLIP &&
              static_cast<int>(GuardSettings::Closure::clip) == MAC_LIMIT_CLIP &&
              static_cast<int>(GuardSettings::Closure::scale) == MAC_LIMIT_SCALE &&
              static_cast<int>(GuardSettings::Closure::fade) == MAC_LIMIT_FADE);

const Guard& guard_of(const mac_state* state, const char* function) {
  require(state, function, "state");
  if (!state->own->guard()) throw UsageError("{}: the state has no limits", function);
  return *state->own->guard();
}

}  // namespace

mac_status mac_state_set_active(mac_state* state, const size_t* columns, size_t count, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_active", "state");
    state->own->set_active({columns, count});
  });
}

mac_status mac_state_set_mask(mac_state* state, const unsigned char* mask, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_mask", "state");
    if (mask)
      state->own->set_mask(mask);
    else
      state->own->set_active(state->own->all());
  });
}

size_t mac_state_active(const mac_state* state) { return state ? state->own->active() : 0; }

mac_status mac_step_fields(mac_state* state, const size_t extents[3], const double* const* y,
                           const ptrdiff_t y_strides[3], double* const* closure,
                           const ptrdiff_t closure_strides[3], mac_error* error) {
  return step_fields("mac_step_fields", state, extents, y, y_strides, closure, closure_strides, error);
}

mac_status mac_step_fields_float(mac_state* state, const size_t extents[3], const float* const* y,
                                 const ptrdiff_t y_strides[3], float* const* closure,
                                 const ptrdiff_t closure_strides[3], mac_error* error) {
  return step_fields("mac_step_fields_float", state, extents, y, y_strides, closure, closure_strides, error);
}

mac_status mac_closure_at_fields(const mac_state* state, mac_hold hold, double fraction,
                                 const size_t extents[3], double* const* closure,
                                 const ptrdiff_t closure_strides[3], mac_error* error) {
  return closure_at_fields("mac_closure_at_fields", state, hold, fraction, extents, closure, closure_strides,
                           error);
}

mac_status mac_closure_at_fields_float(const mac_state* state, mac_hold hold, double fraction,
                                       const size_t extents[3], float* const* closure,
                                       const ptrdiff_t closure_strides[3], mac_error* error) {
  return closure_at_fields("mac_closure_at_fields_float", state, hold, fraction, extents, closure,
                           closure_strides, error);
}

int mac_model_has_training_range(const mac_model* model) {
  return model && model->shared->model.training_range ? 1 : 0;
}

mac_status mac_model_training_range(const mac_model* model, double* input_low, double* input_high,
                                    double* output_low, double* output_high, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(model, "mac_model_training_range", "model");
    const std::optional<TrainingRange>& range = model->shared->model.training_range;
    if (!range)
      throw UsageError("mac_model_training_range: {} does not say the range of its training data",
                       model->shared->file);
    if (input_low) std::ranges::copy(range->input_low, input_low);
    if (input_high) std::ranges::copy(range->input_high, input_high);
    if (output_low) std::ranges::copy(range->output_low, output_low);
    if (output_high) std::ranges::copy(range->output_high, output_high);
  });
}

mac_status mac_state_set_limits(mac_state* state, const mac_limits* limits, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    require(state, "mac_state_set_limits", "state");
    if (!limits) return state->own->set_guard(nullptr);
    state->own->set_guard(
        std::make_unique<Guard>(settings_from(*limits, state->own->model()), state->own->columns()));
  });
}

mac_status mac_state_set_fallback(mac_state* state, const double* fallback, mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    guard_of(state, "mac_state_set_fallback");
    require(fallback, "mac_state_set_fallback", "fallback");
    state->own->guard()->set_fallback(fallback);
  });
}

mac_status mac_state_diagnostics(const mac_state* state, size_t column, mac_diagnostics* diagnostics,
                                 mac_error* error) {
  return guarded(error, MAC_INTERNAL_ERROR, [&] {
    const Guard& guard = guard_of(state, "mac_state_diagnostics");
    require(diagnostics, "mac_state_diagnostics", "diagnostics");
    if (column >= state->own->columns())
      throw UsageError("column {} is beyond the {} of the state", column, state->own->columns());
    const Guard::Record& r = guard.record(column);
    *diagnostics = {r.steps,    r.inputs_outside, r.closure_outside, r.changed,
                    r.replaced, r.input_excess,   r.closure_excess,  r.distance};
  });
}
