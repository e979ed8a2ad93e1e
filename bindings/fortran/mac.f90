! MAC's Fortran interface: a trained closure inside a simulation, one call a time step.
!
!   type(mac_model) :: model
!   type(mac_state) :: state
!   call model%open("closure.safetensors")
!   call state%create(model, columns)
!   call state%step(y, closure)          ! y(inputs, columns) -> closure(outputs, columns), physical units
!
! Arrays are real(real32) or real(real64), of rank 2, of rank 1 for a single column, of rank 4 for fields
! (nx, ny, nz, variable), or one for each variable; array sections are taken where they lie, without a copy. As with allocate, a failure sets `stat` (0: success) and `errmsg` where they are
! present, and stops the program with the message where stat is absent. Models and states free themselves when
! they go out of scope; assigning a state clones it. The functions behind are those of mac/mac.h. Types are here, what
! they do is in the included files.
module mac
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use mac_c
  implicit none
  private
  public :: mac_version

  integer, parameter, public :: mac_ok = 0, mac_invalid_argument = 1, mac_bad_model = 2, mac_bad_state = 3, &
                                mac_not_finite = 4, mac_out_of_memory = 5, mac_internal_error = 6, &
                                mac_device_error = 7
  integer, parameter, public :: mac_float32 = 0, mac_float64 = 1, mac_precision_of_file = 2
  integer, parameter, public :: mac_hold_zero = 0, mac_hold_linear = 1, mac_hold_stage = 2
  integer, parameter, public :: mac_target_instant = 0, mac_target_mean = 1
  integer, parameter, public :: mac_limit_count = 0, mac_limit_clip = 1, mac_limit_scale = 2, mac_limit_fade = 3

  !> What happened to a column since its limits were set; the words are those of mac/mac.h.
  type, public :: mac_diagnostics
    integer(int64) :: steps = 0, inputs_outside = 0, closure_outside = 0, changed = 0, replaced = 0
    real(real64) :: input_excess = 0, closure_excess = 0, distance = 0
  end type mac_diagnostics

  !> A variable of a host that has an array for each: all of it or a section, where it lies.
  type, public :: mac_field
    real(real64), pointer :: values(:, :, :) => null()
  end type mac_field
  type, public :: mac_field_float
    real(real32), pointer :: values(:, :, :) => null()
  end type mac_field_float

  type, public :: mac_model
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => model_open
    procedure :: close => model_close
    procedure :: is_open => model_is_open
    procedure :: pointer => model_pointer
    procedure :: inputs => model_inputs
    procedure :: noise => model_noise
    procedure :: outputs => model_outputs
    procedure :: parameters => model_parameters
    procedure :: kind => model_kind
    procedure :: system => model_system
    procedure :: input_name => model_input_name
    procedure :: output_name => model_output_name
    procedure :: metadata => model_metadata
    procedure :: closure_target => model_closure_target
    procedure :: closure_step => model_closure_step
    procedure :: hold => model_hold
    procedure :: target => model_target
    procedure :: id => model_id
    procedure :: normalisation => model_normalisation
    procedure :: has_training_range => model_has_training_range
    procedure :: training_range => model_training_range
    procedure, private :: model_assign
    generic :: assignment(=) => model_assign
    final :: model_finalise
  end type mac_model

  type, public :: mac_state
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: n_inputs = 0, n_outputs = 0
  contains
    procedure :: create => state_create
    procedure :: free => state_free
    procedure :: copy => state_copy
    procedure :: reset => state_reset
    procedure :: seed => state_seed
    procedure :: set_noise => state_set_noise
    procedure :: set_frame => state_set_frame
    procedure :: save => state_save
    procedure :: restore => state_restore
    procedure :: save_columns => state_save_columns
    procedure :: restore_columns => state_restore_columns
    procedure :: reset_columns => state_reset_columns
    procedure :: copy_columns => state_copy_columns
    procedure :: columns => state_columns
    procedure :: steps => state_steps
    procedure, private :: step_double, step_float, step_column_double, step_column_float
    procedure, private :: step_field_double, step_field_float, step_fields_double, step_fields_float
    generic :: step => step_double, step_float, step_column_double, step_column_float, step_field_double, &
      step_field_float, step_fields_double, step_fields_float
    procedure, private :: set_active_list, set_active_mask
    generic :: set_active => set_active_list, set_active_mask
    procedure :: active => state_active
    procedure :: set_limits => state_set_limits
    procedure :: clear_limits => state_clear_limits
    procedure :: set_fallback => state_set_fallback
    procedure :: diagnostics => state_diagnostics
    procedure, private :: closure_at_double, closure_at_float, closure_at_column_double, closure_at_column_float
    procedure, private :: closure_at_field_double, closure_at_field_float, closure_at_fields_double, closure_at_fields_float
    generic :: closure_at => closure_at_double, closure_at_float, closure_at_column_double, closure_at_column_float, &
      closure_at_field_double, closure_at_field_float, closure_at_fields_double, closure_at_fields_float
    procedure :: memory_size => state_memory_size
    procedure :: get_memory => state_get_memory
    procedure :: set_memory => state_set_memory
    procedure :: step_tangent => state_step_tangent
    procedure :: step_adjoint => state_step_adjoint
    procedure :: step_jacobian => state_step_jacobian
    procedure, private :: state_assign
    generic :: assignment(=) => state_assign
    final :: state_finalise
  end type mac_state

  !> Steps of a state, recorded for derivatives along the window afterwards.
  type, public :: mac_tape
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: n_inputs = 0, n_outputs = 0, n_columns = 0, n_memory = 0
  contains
    procedure :: create => tape_create
    procedure :: free => tape_free
    procedure :: clear => tape_clear
    procedure :: steps => tape_steps
    procedure :: step => tape_step
    procedure :: tangent => tape_tangent
    procedure :: adjoint => tape_adjoint
    procedure, private :: tape_assign
    generic :: assignment(=) => tape_assign
    final :: tape_finalise
  end type mac_tape

  !> A host step that is not the closure step: one divides the other (docs/hosts.md).
  type, public :: mac_coupler
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: n_inputs = 0, n_outputs = 0, n_columns = 0
  contains
    procedure :: create => coupler_create
    procedure :: free => coupler_free
    procedure :: host_steps => coupler_host_steps
    procedure :: closure_steps => coupler_closure_steps
    procedure, private :: begin_double, begin_float, begin_field_double, begin_field_float, begin_fields_double, &
      begin_fields_float
    generic :: begin => begin_double, begin_float, begin_field_double, begin_field_float, begin_fields_double, &
      begin_fields_float
    procedure, private :: closure_double, closure_float, closure_field_double, closure_field_float, &
      closure_fields_double, closure_fields_float
    generic :: closure => closure_double, closure_float, closure_field_double, closure_field_float, &
      closure_fields_double, closure_fields_float
    procedure :: save => coupler_save
    procedure :: restore => coupler_restore
    procedure, private :: coupler_assign
    generic :: assignment(=) => coupler_assign
    final :: coupler_finalise
  end type mac_coupler

  interface stride
    procedure :: stride_double, stride_float
  end interface stride

  interface locate
    procedure :: locate_double, locate_float
  end interface locate

contains

  function mac_version() result(text)
    character(:), allocatable :: text
    text = to_text(c_mac_version())
  end function mac_version

  include "mac_models.inc"
  include "mac_states.inc"
  include "mac_steps.inc"
  include "mac_fields.inc"
  include "mac_hosts.inc"
  include "mac_derivatives.inc"
  include "mac_helpers.inc"
  include "mac_conclude.inc"

end module mac
