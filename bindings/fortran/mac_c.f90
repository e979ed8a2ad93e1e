! The functions of mac/mac.h as Fortran sees them; the module mac is the interface meant for use.
module mac_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  !> Filled by a failure only; without defaults, so that a call does not pay for 512 bytes.
  type, bind(c) :: c_error
    integer(c_int32_t) :: code
    character(kind=c_char) :: message(508)
  end type c_error

  !> mac_limits and mac_diagnostics of mac/mac.h.
  type, bind(c) :: c_limits
    integer(c_int) :: inputs, closure
    real(c_double) :: margin, fade
    type(c_ptr) :: input_low, input_high, output_low, output_high
  end type c_limits
  type, bind(c) :: c_diagnostics
    integer(c_int64_t) :: steps, inputs_outside, closure_outside, changed, replaced
    real(c_double) :: input_excess, closure_excess, distance
  end type c_diagnostics

  interface
    function c_mac_version() bind(c, name="mac_version") result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_model_open(path, precision, model, error) bind(c, name="mac_model_open") result(status)
      import :: c_char, c_int, c_ptr, c_error
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: precision
      type(c_ptr), intent(inout) :: model
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_model_clone(model, clone, error) bind(c, name="mac_model_clone") result(status)
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: model
      type(c_ptr), intent(inout) :: clone
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    subroutine c_model_close(model) bind(c, name="mac_model_close")
      import :: c_ptr
      type(c_ptr), value :: model
    end subroutine
    pure function c_model_inputs(model) bind(c, name="mac_model_inputs") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t) :: count
    end function
    pure function c_model_outputs(model) bind(c, name="mac_model_outputs") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t) :: count
    end function
    pure function c_model_parameters(model) bind(c, name="mac_model_parameters") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t) :: count
    end function
    function c_model_kind(model) bind(c, name="mac_model_kind") result(text)
      import :: c_ptr
      type(c_ptr), value :: model
      type(c_ptr) :: text
    end function
    function c_model_system(model) bind(c, name="mac_model_system") result(text)
      import :: c_ptr
      type(c_ptr), value :: model
      type(c_ptr) :: text
    end function
    function c_model_input_name(model, component) bind(c, name="mac_model_input_name") result(text)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t), value :: component
      type(c_ptr) :: text
    end function
    function c_model_output_name(model, component) bind(c, name="mac_model_output_name") result(text)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t), value :: component
      type(c_ptr) :: text
    end function
    function c_model_metadata(model, key) bind(c, name="mac_model_metadata") result(text)
      import :: c_ptr, c_char
      type(c_ptr), value :: model
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr) :: text
    end function
    pure function c_model_closure_target(model, component) bind(c, name="mac_model_closure_target") result(target)
      import :: c_ptr, c_size_t, c_ptrdiff_t
      type(c_ptr), value :: model
      integer(c_size_t), value :: component
      integer(c_ptrdiff_t) :: target
    end function
    pure function c_model_closure_step(model) bind(c, name="mac_model_closure_step") result(step)
      import :: c_ptr, c_double
      type(c_ptr), value :: model
      real(c_double) :: step
    end function
    pure function c_model_hold(model) bind(c, name="mac_model_hold") result(hold)
      import :: c_ptr, c_int
      type(c_ptr), value :: model
      integer(c_int) :: hold
    end function
    pure function c_model_target(model) bind(c, name="mac_model_target") result(target)
      import :: c_ptr, c_int
      type(c_ptr), value :: model
      integer(c_int) :: target
    end function
    pure function c_model_id(model) bind(c, name="mac_model_id") result(id)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: model
      integer(c_int64_t) :: id
    end function
    function c_model_normalisation(model, input_mean, input_scale, output_mean, output_scale, error) &
        bind(c, name="mac_model_normalisation") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: model
      real(c_double), intent(out) :: input_mean(*), input_scale(*), output_mean(*), output_scale(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_create(model, columns, state, error) bind(c, name="mac_state_create") result(status)
      import :: c_ptr, c_int, c_size_t, c_error
      type(c_ptr), value :: model
      integer(c_size_t), value :: columns
      type(c_ptr), intent(inout) :: state
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_clone(state, clone, error) bind(c, name="mac_state_clone") result(status)
      import :: c_ptr, c_int, c_error
      type(c_ptr), value :: state
      type(c_ptr), intent(inout) :: clone
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    subroutine c_state_free(state) bind(c, name="mac_state_free")
      import :: c_ptr
      type(c_ptr), value :: state
    end subroutine
    function c_state_copy(from, to, error) bind(c, name="mac_state_copy") result(status)
      import :: c_ptr, c_int, c_error
      type(c_ptr), value :: from, to
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_copy_columns(from, from_columns, to, to_columns, count, error) &
        bind(c, name="mac_state_copy_columns") result(status)
      import :: c_ptr, c_int, c_size_t, c_error
      type(c_ptr), value :: from, to
      integer(c_size_t), intent(in) :: from_columns(*), to_columns(*)
      integer(c_size_t), value :: count
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_reset_columns(state, columns, count, error) bind(c, name="mac_state_reset_columns") result(status)
      import :: c_ptr, c_int, c_size_t, c_error
      type(c_ptr), value :: state
      integer(c_size_t), intent(in) :: columns(*)
      integer(c_size_t), value :: count
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_state_columns_bytes(state, count) bind(c, name="mac_state_columns_bytes") result(bytes)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t), value :: count
      integer(c_size_t) :: bytes
    end function
    function c_state_save_columns(state, columns, count, buffer, size, error) &
        bind(c, name="mac_state_save_columns") result(status)
      import :: c_ptr, c_int, c_size_t, c_int8_t, c_error
      type(c_ptr), value :: state
      integer(c_size_t), intent(in) :: columns(*)
      integer(c_size_t), value :: count, size
      integer(c_int8_t), intent(out) :: buffer(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_restore_columns(state, buffer, size, saved_columns, columns, count, error) &
        bind(c, name="mac_state_restore_columns") result(status)
      import :: c_ptr, c_int, c_size_t, c_int8_t, c_error
      type(c_ptr), value :: state
      integer(c_int8_t), intent(in) :: buffer(*)
      integer(c_size_t), value :: size, count
      integer(c_size_t), intent(in) :: saved_columns(*), columns(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_model_noise(model) bind(c, name="mac_model_noise") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: model
      integer(c_size_t) :: count
    end function
    function c_state_seed(state, seed, streams, error) bind(c, name="mac_state_seed") result(status)
      import :: c_ptr, c_int, c_int64_t, c_error
      type(c_ptr), value :: state
      integer(c_int64_t), value :: seed
      type(c_ptr), value :: streams
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_noise(state, on, error) bind(c, name="mac_state_set_noise") result(status)
      import :: c_ptr, c_int, c_error
      type(c_ptr), value :: state
      integer(c_int), value :: on
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_frame(state, y, error) bind(c, name="mac_state_set_frame") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), intent(in) :: y(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_reset(state, error) bind(c, name="mac_state_reset") result(status)
      import :: c_ptr, c_int, c_error
      type(c_ptr), value :: state
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_state_columns(state) bind(c, name="mac_state_columns") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t) :: count
    end function
    pure function c_state_steps(state) bind(c, name="mac_state_steps") result(count)
      import :: c_ptr, c_int64_t
      type(c_ptr), value :: state
      integer(c_int64_t) :: count
    end function
    pure function c_state_bytes(state) bind(c, name="mac_state_bytes") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t) :: count
    end function
    function c_state_save(state, buffer, size, error) bind(c, name="mac_state_save") result(status)
      import :: c_ptr, c_int, c_int8_t, c_size_t, c_error
      type(c_ptr), value :: state
      integer(c_int8_t), intent(out) :: buffer(*)
      integer(c_size_t), value :: size
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_restore(state, buffer, size, error) bind(c, name="mac_state_restore") result(status)
      import :: c_ptr, c_int, c_int8_t, c_size_t, c_error
      type(c_ptr), value :: state
      integer(c_int8_t), intent(in) :: buffer(*)
      integer(c_size_t), value :: size
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_double(state, y, y_component, y_column, closure, closure_component, closure_column, error) &
        bind(c, name="mac_step_strided") result(status)
      import :: c_ptr, c_int, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, closure
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_float(state, y, y_component, y_column, closure, closure_component, closure_column, error) &
        bind(c, name="mac_step_strided_float") result(status)
      import :: c_ptr, c_int, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, closure
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_closure_at(state, hold, fraction, closure, closure_component, closure_column, error) &
        bind(c, name="mac_closure_at_strided") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, closure
      integer(c_int), value :: hold
      real(c_double), value :: fraction
      integer(c_ptrdiff_t), value :: closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_closure_at_float(state, hold, fraction, closure, closure_component, closure_column, error) &
        bind(c, name="mac_closure_at_strided_float") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, closure
      integer(c_int), value :: hold
      real(c_double), value :: fraction
      integer(c_ptrdiff_t), value :: closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_closure_at_fields(state, hold, fraction, extents, closure, closure_strides, error) &
        bind(c, name="mac_closure_at_fields") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: state
      integer(c_int), value :: hold
      real(c_double), value :: fraction
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: closure(*)
      integer(c_ptrdiff_t), intent(in) :: closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_closure_at_fields_float(state, hold, fraction, extents, closure, closure_strides, error) &
        bind(c, name="mac_closure_at_fields_float") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: state
      integer(c_int), value :: hold
      real(c_double), value :: fraction
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: closure(*)
      integer(c_ptrdiff_t), intent(in) :: closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_state_memory_size(state) bind(c, name="mac_state_memory_size") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t) :: count
    end function
    function c_state_get_memory(state, memory, error) bind(c, name="mac_state_get_memory") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), intent(inout) :: memory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_memory(state, memory, error) bind(c, name="mac_state_set_memory") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), intent(in) :: memory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_tangent(state, y, dy, y_component, y_column, dmemory, dclosure, closure_component, &
        closure_column, error) bind(c, name="mac_step_tangent_strided") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, dy, dclosure
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      real(c_double), intent(inout) :: dmemory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_adjoint(state, y, gclosure, closure_component, closure_column, gmemory, gy, y_component, &
        y_column, error) bind(c, name="mac_step_adjoint_strided") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, gclosure, gy
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      real(c_double), intent(inout) :: gmemory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_jacobian(state, y, jacobian, error) bind(c, name="mac_step_jacobian") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), intent(in) :: y(*)
      real(c_double), intent(inout) :: jacobian(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_tape_create(model, columns, steps, tape, error) bind(c, name="mac_tape_create") result(status)
      import :: c_ptr, c_int, c_size_t, c_error
      type(c_ptr), value :: model
      integer(c_size_t), value :: columns, steps
      type(c_ptr), intent(inout) :: tape
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    subroutine c_tape_free(tape) bind(c, name="mac_tape_free")
      import :: c_ptr
      type(c_ptr), value :: tape
    end subroutine
    subroutine c_tape_clear(tape) bind(c, name="mac_tape_clear")
      import :: c_ptr
      type(c_ptr), value :: tape
    end subroutine
    pure function c_tape_steps(tape) bind(c, name="mac_tape_steps") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: tape
      integer(c_size_t) :: count
    end function
    function c_tape_step(tape, state, y, y_component, y_column, closure, closure_component, closure_column, error) &
        bind(c, name="mac_tape_step_strided") result(status)
      import :: c_ptr, c_int, c_ptrdiff_t, c_error
      type(c_ptr), value :: tape, state, y, closure
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_tape_tangent(tape, step, dy, y_component, y_column, dmemory, dclosure, closure_component, &
        closure_column, error) bind(c, name="mac_tape_tangent_strided") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: tape, dy, dclosure
      integer(c_size_t), value :: step
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      real(c_double), intent(inout) :: dmemory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_tape_adjoint(tape, step, gclosure, closure_component, closure_column, gmemory, gy, y_component, &
        y_column, error) bind(c, name="mac_tape_adjoint_strided") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: tape, gclosure, gy
      integer(c_size_t), value :: step
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      real(c_double), intent(inout) :: gmemory(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_active(state, columns, count, error) bind(c, name="mac_state_set_active") result(status)
      import :: c_ptr, c_int, c_size_t, c_error
      type(c_ptr), value :: state
      integer(c_size_t), intent(in) :: columns(*)
      integer(c_size_t), value :: count
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_state_active(state) bind(c, name="mac_state_active") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t) :: count
    end function
    function c_step_fields(state, extents, y, y_strides, closure, closure_strides, error) &
        bind(c, name="mac_step_fields") result(status)
      import :: c_ptr, c_int, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: state
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: y(*), closure(*)
      integer(c_ptrdiff_t), intent(in) :: y_strides(3), closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_fields_float(state, extents, y, y_strides, closure, closure_strides, error) &
        bind(c, name="mac_step_fields_float") result(status)
      import :: c_ptr, c_int, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: state
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: y(*), closure(*)
      integer(c_ptrdiff_t), intent(in) :: y_strides(3), closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_model_has_training_range(model) bind(c, name="mac_model_has_training_range") result(has)
      import :: c_ptr, c_int
      type(c_ptr), value :: model
      integer(c_int) :: has
    end function
    function c_model_training_range(model, input_low, input_high, output_low, output_high, error) &
        bind(c, name="mac_model_training_range") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: model
      real(c_double), intent(inout) :: input_low(*), input_high(*), output_low(*), output_high(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_limits(state, limits, error) bind(c, name="mac_state_set_limits") result(status)
      import :: c_ptr, c_int, c_error
      type(c_ptr), value :: state, limits
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_set_fallback(state, fallback, error) bind(c, name="mac_state_set_fallback") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), intent(in) :: fallback(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_state_diagnostics(state, column, diagnostics, error) bind(c, name="mac_state_diagnostics") result(status)
      import :: c_ptr, c_int, c_size_t, c_error, c_diagnostics
      type(c_ptr), value :: state
      integer(c_size_t), value :: column
      type(c_diagnostics), intent(inout) :: diagnostics
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_create(state, host_step, closure_step, hold, coupler, error) bind(c, name="mac_coupler_create") &
        result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: state
      real(c_double), value :: host_step, closure_step
      integer(c_int), value :: hold
      type(c_ptr), intent(inout) :: coupler
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    subroutine c_coupler_free(coupler) bind(c, name="mac_coupler_free")
      import :: c_ptr
      type(c_ptr), value :: coupler
    end subroutine
    pure function c_coupler_host_steps(coupler) bind(c, name="mac_coupler_host_steps") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: coupler
      integer(c_size_t) :: count
    end function
    pure function c_coupler_closure_steps(coupler) bind(c, name="mac_coupler_closure_steps") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: coupler
      integer(c_size_t) :: count
    end function
    function c_coupler_begin(coupler, y, y_component, y_column, error) &
        bind(c, name="mac_coupler_begin_strided") result(status)
      import :: c_ptr, c_int, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler, y
      integer(c_ptrdiff_t), value :: y_component, y_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_begin_float(coupler, y, y_component, y_column, error) &
        bind(c, name="mac_coupler_begin_strided_float") result(status)
      import :: c_ptr, c_int, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler, y
      integer(c_ptrdiff_t), value :: y_component, y_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_begin_fields(coupler, extents, y, y_strides, error) &
        bind(c, name="mac_coupler_begin_fields") result(status)
      import :: c_ptr, c_int, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: y(*)
      integer(c_ptrdiff_t), intent(in) :: y_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_begin_fields_float(coupler, extents, y, y_strides, error) &
        bind(c, name="mac_coupler_begin_fields_float") result(status)
      import :: c_ptr, c_int, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: y(*)
      integer(c_ptrdiff_t), intent(in) :: y_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_closure(coupler, fraction, closure, closure_component, closure_column, error) &
        bind(c, name="mac_coupler_closure_strided") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler, closure
      real(c_double), value :: fraction
      integer(c_ptrdiff_t), value :: closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_closure_float(coupler, fraction, closure, closure_component, closure_column, error) &
        bind(c, name="mac_coupler_closure_strided_float") result(status)
      import :: c_ptr, c_int, c_double, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler, closure
      real(c_double), value :: fraction
      integer(c_ptrdiff_t), value :: closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_closure_fields(coupler, fraction, extents, closure, closure_strides, error) &
        bind(c, name="mac_coupler_closure_fields") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler
      real(c_double), value :: fraction
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: closure(*)
      integer(c_ptrdiff_t), intent(in) :: closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_closure_fields_float(coupler, fraction, extents, closure, closure_strides, error) &
        bind(c, name="mac_coupler_closure_fields_float") result(status)
      import :: c_ptr, c_int, c_double, c_size_t, c_ptrdiff_t, c_error
      type(c_ptr), value :: coupler
      real(c_double), value :: fraction
      integer(c_size_t), intent(in) :: extents(3)
      type(c_ptr), intent(in) :: closure(*)
      integer(c_ptrdiff_t), intent(in) :: closure_strides(3)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_coupler_numbers(coupler) bind(c, name="mac_coupler_numbers") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: coupler
      integer(c_size_t) :: count
    end function
    function c_coupler_save(coupler, numbers, error) bind(c, name="mac_coupler_save") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: coupler
      real(c_double), intent(inout) :: numbers(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_coupler_restore(coupler, numbers, error) bind(c, name="mac_coupler_restore") result(status)
      import :: c_ptr, c_int, c_double, c_error
      type(c_ptr), value :: coupler
      real(c_double), intent(in) :: numbers(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    pure function c_strlen(text) bind(c, name="strlen") result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

end module mac_c
