! MAC's Fortran interface: a trained closure inside a simulation, one call a time step.
!
!   type(mac_model) :: model
!   type(mac_state) :: state
!   call model%open("closure.safetensors")
!   call state%create(model, columns)
!   call state%step(y, closure)          ! y(inputs, columns) -> closure(outputs, columns), physical units
!
! Arrays are real(real32) or real(real64), of rank 2, or of rank 1 for a single column; array sections are taken
! where they lie, without a copy. As with allocate, a failure sets `stat` (0: success) and `errmsg` where they are
! present, and stops the program with the message where stat is absent. Models and states free themselves when
! they go out of scope; assigning a state clones it. The functions behind are those of mac/mac.h.
module mac
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use mac_c
  implicit none
  private
  public :: mac_version

  integer, parameter, public :: mac_ok = 0, mac_invalid_argument = 1, mac_bad_model = 2, mac_bad_state = 3, &
                                mac_not_finite = 4, mac_out_of_memory = 5, mac_internal_error = 6
  integer, parameter, public :: mac_float32 = 0, mac_float64 = 1, mac_precision_of_file = 2
  integer, parameter, public :: mac_hold_zero = 0, mac_hold_linear = 1, mac_hold_stage = 2
  integer, parameter, public :: mac_target_instant = 0, mac_target_mean = 1
  integer, parameter, public :: mac_limit_count = 0, mac_limit_clip = 1, mac_limit_scale = 2, mac_limit_fade = 3

  !> What happened to a column since its limits were set; the words are those of mac/mac.h.
  type, public :: mac_diagnostics
    integer(int64) :: steps = 0, inputs_outside = 0, closure_outside = 0, changed = 0, replaced = 0
    real(real64) :: input_excess = 0, closure_excess = 0, distance = 0
  end type mac_diagnostics

  type, public :: mac_model
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure :: open => model_open
    procedure :: close => model_close
    procedure :: is_open => model_is_open
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
    procedure :: save => state_save
    procedure :: restore => state_restore
    procedure :: save_columns => state_save_columns
    procedure :: restore_columns => state_restore_columns
    procedure :: reset_columns => state_reset_columns
    procedure :: copy_columns => state_copy_columns
    procedure :: columns => state_columns
    procedure :: steps => state_steps
    procedure, private :: step_double, step_float, step_column_double, step_column_float
    procedure, private :: step_field_double, step_field_float
    generic :: step => step_double, step_float, step_column_double, step_column_float, step_field_double, &
      step_field_float
    procedure, private :: set_active_list, set_active_mask
    generic :: set_active => set_active_list, set_active_mask
    procedure :: active => state_active
    procedure :: set_limits => state_set_limits
    procedure :: clear_limits => state_clear_limits
    procedure :: set_fallback => state_set_fallback
    procedure :: diagnostics => state_diagnostics
    procedure, private :: closure_at_columns, closure_at_column
    generic :: closure_at => closure_at_columns, closure_at_column
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

  interface stride
    procedure :: stride_double, stride_float
  end interface stride

contains

  function mac_version() result(text)
    character(:), allocatable :: text
    text = to_text(c_mac_version())
  end function mac_version

  ! ---- Models ----

  !> Reads a model file; the network computes in mac_float32, mac_float64, or (default) what the file stores.
  subroutine model_open(self, path, precision, stat, errmsg)
    class(mac_model), intent(inout) :: self
    character(*), intent(in) :: path
    integer, intent(in), optional :: precision
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: opened
    integer(c_int) :: status, chosen
    chosen = mac_precision_of_file
    if (present(precision)) chosen = int(precision, c_int)
    opened = c_null_ptr
    status = c_model_open(trim(path)//c_null_char, chosen, opened, error)
    if (status == mac_ok) then
      call self%close()
      self%handle = opened
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine model_open

  !> Does nothing if it is not open. States of the model live on.
  subroutine model_close(self)
    class(mac_model), intent(inout) :: self
    call c_model_close(self%handle)
    self%handle = c_null_ptr
  end subroutine model_close

  subroutine model_finalise(self)
    type(mac_model), intent(inout) :: self
    call self%close()
  end subroutine model_finalise

  !> Another handle to the same weights.
  subroutine model_assign(self, other)
    class(mac_model), intent(inout) :: self
    class(mac_model), intent(in) :: other
    type(c_error) :: error
    type(c_ptr) :: clone
    integer(c_int) :: status
    status = mac_ok
    clone = c_null_ptr
    if (other%is_open()) status = c_model_clone(other%handle, clone, error)
    call self%close()
    self%handle = clone
    call conclude(status, error)
  end subroutine model_assign

  pure logical function model_is_open(self)
    class(mac_model), intent(in) :: self
    model_is_open = c_associated(self%handle)
  end function model_is_open

  !> Random numbers that a column reads at every step; 0: the closure is deterministic.
  pure integer function model_noise(self)
    class(mac_model), intent(in) :: self
    model_noise = int(c_model_noise(self%handle))
  end function model_noise

  pure integer function model_inputs(self)
    class(mac_model), intent(in) :: self
    model_inputs = int(c_model_inputs(self%handle))
  end function model_inputs

  pure integer function model_outputs(self)
    class(mac_model), intent(in) :: self
    model_outputs = int(c_model_outputs(self%handle))
  end function model_outputs

  pure integer function model_parameters(self)
    class(mac_model), intent(in) :: self
    model_parameters = int(c_model_parameters(self%handle))
  end function model_parameters

  function model_kind(self) result(text)
    class(mac_model), intent(in) :: self
    character(:), allocatable :: text
    text = to_text(c_model_kind(self%handle))
  end function model_kind

  function model_system(self) result(text)
    class(mac_model), intent(in) :: self
    character(:), allocatable :: text
    text = to_text(c_model_system(self%handle))
  end function model_system

  !> Components count from 1.
  function model_input_name(self, component) result(text)
    class(mac_model), intent(in) :: self
    integer, intent(in) :: component
    character(:), allocatable :: text
    text = to_text(c_model_input_name(self%handle, int(component - 1, c_size_t)))
  end function model_input_name

  function model_output_name(self, component) result(text)
    class(mac_model), intent(in) :: self
    integer, intent(in) :: component
    character(:), allocatable :: text
    text = to_text(c_model_output_name(self%handle, int(component - 1, c_size_t)))
  end function model_output_name

  !> Empty where the file has no such key.
  function model_metadata(self, key) result(text)
    class(mac_model), intent(in) :: self
    character(*), intent(in) :: key
    character(:), allocatable :: text
    text = to_text(c_model_metadata(self%handle, key//c_null_char))
  end function model_metadata

  !> The equation that a closure component is added to, both counted from 1; 0 where that is not known.
  pure integer function model_closure_target(self, component)
    class(mac_model), intent(in) :: self
    integer, intent(in) :: component
    model_closure_target = int(c_model_closure_target(self%handle, int(component - 1, c_size_t))) + 1
  end function model_closure_target

  !> Time between two steps, 0 where the file does not say.
  pure real(real64) function model_closure_step(self)
    class(mac_model), intent(in) :: self
    model_closure_step = c_model_closure_step(self%handle)
  end function model_closure_step

  pure integer function model_hold(self)
    class(mac_model), intent(in) :: self
    model_hold = int(c_model_hold(self%handle))
  end function model_hold

  pure integer function model_target(self)
    class(mac_model), intent(in) :: self
    model_target = int(c_model_target(self%handle))
  end function model_target

  pure integer(int64) function model_id(self)
    class(mac_model), intent(in) :: self
    model_id = c_model_id(self%handle)
  end function model_id

  subroutine model_normalisation(self, input_mean, input_scale, output_mean, output_scale, stat, errmsg)
    class(mac_model), intent(in) :: self
    real(real64), allocatable, intent(out) :: input_mean(:), input_scale(:), output_mean(:), output_scale(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    allocate (input_mean(self%inputs()), input_scale(self%inputs()))
    allocate (output_mean(self%outputs()), output_scale(self%outputs()))
    status = c_model_normalisation(self%handle, input_mean, input_scale, output_mean, output_scale, error)
    call conclude(status, error, stat, errmsg)
  end subroutine model_normalisation

  ! ---- States ----

  !> The memory of `columns` columns (default 1), at rest.
  subroutine state_create(self, model, columns, stat, errmsg)
    class(mac_state), intent(inout) :: self
    type(mac_model), intent(in) :: model
    integer, intent(in), optional :: columns
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: created
    integer(c_int) :: status
    integer(c_size_t) :: count
    count = 1
    if (present(columns)) count = int(max(columns, 0), c_size_t)
    created = c_null_ptr
    status = c_state_create(model%handle, count, created, error)
    if (status == mac_ok) then
      call self%free()
      self%handle = created
      self%n_inputs = model%inputs()
      self%n_outputs = model%outputs()
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine state_create

  subroutine state_free(self)
    class(mac_state), intent(inout) :: self
    call c_state_free(self%handle)
    self%handle = c_null_ptr
  end subroutine state_free

  subroutine state_finalise(self)
    type(mac_state), intent(inout) :: self
    call self%free()
  end subroutine state_finalise

  !> A clone.
  subroutine state_assign(self, other)
    class(mac_state), intent(inout) :: self
    class(mac_state), intent(in) :: other
    type(c_error) :: error
    type(c_ptr) :: clone
    integer(c_int) :: status
    status = mac_ok
    clone = c_null_ptr
    if (c_associated(other%handle)) status = c_state_clone(other%handle, clone, error)
    call self%free()
    self%handle = clone
    self%n_inputs = other%n_inputs
    self%n_outputs = other%n_outputs
    call conclude(status, error)
  end subroutine state_assign

  !> Becomes what `from`, a state of the same model and as many columns, is, without an allocation.
  subroutine state_copy(self, from, stat, errmsg)
    class(mac_state), intent(inout) :: self
    class(mac_state), intent(in) :: from
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_copy(from%handle, self%handle, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_copy

  subroutine state_reset(self, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_reset(self%handle, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_reset

  !> Of the noise of a stochastic closure: column j reads stream streams(j), such as its number in the whole grid; without
  !> them j - 1.
  subroutine state_seed(self, seed, streams, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer(int64), intent(in) :: seed
    integer(int64), intent(in), optional, target, contiguous :: streams(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    type(c_ptr) :: where
    where = c_null_ptr
    if (present(streams)) then
      if (size(streams) /= self%columns()) error stop "mac: seed: streams has not one number a column"
      where = c_loc(streams)
    end if
    status = c_state_seed(self%handle, seed, where, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_seed

  !> .false.: the closure runs without its noise.
  subroutine state_set_noise(self, on, stat, errmsg)
    class(mac_state), intent(inout) :: self
    logical, intent(in) :: on
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_set_noise(self%handle, merge(1_c_int, 0_c_int, on), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_set_noise

  pure integer function state_columns(self)
    class(mac_state), intent(in) :: self
    state_columns = int(c_state_columns(self%handle))
  end function state_columns

  pure integer(int64) function state_steps(self)
    class(mac_state), intent(in) :: self
    state_steps = c_state_steps(self%handle)
  end function state_steps

  !> Everything the next step depends on, as bytes for a restart file.
  subroutine state_save(self, buffer, stat, errmsg)
    class(mac_state), intent(in) :: self
    integer(int8), allocatable, intent(out) :: buffer(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    allocate (buffer(c_state_bytes(self%handle)))
    status = c_state_save(self%handle, buffer, size(buffer, kind=c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_save

  !> Takes a saved state back bit for bit; refuses one of another model or batch.
  subroutine state_restore(self, buffer, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer(int8), contiguous, intent(in) :: buffer(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_restore(self%handle, buffer, size(buffer, kind=c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_restore

  ! Columns come and go: lists of columns, counted from 1.

  !> Some columns as bytes, to be restored as any columns of any state of the model.
  subroutine state_save_columns(self, columns, buffer, stat, errmsg)
    class(mac_state), intent(in) :: self
    integer, intent(in) :: columns(:)
    integer(int8), allocatable, intent(out) :: buffer(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    allocate (buffer(c_state_columns_bytes(self%handle, size(columns, kind=c_size_t))))
    status = c_state_save_columns(self%handle, int(columns - 1, c_size_t), size(columns, kind=c_size_t), buffer, &
                                  size(buffer, kind=c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_save_columns

  !> Columns from(k) of what was saved to columns to(k).
  subroutine state_restore_columns(self, buffer, from, to, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer(int8), contiguous, intent(in) :: buffer(:)
    integer, intent(in) :: from(:), to(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_restore_columns(self%handle, buffer, size(buffer, kind=c_size_t), int(from - 1, c_size_t), &
                                     int(to - 1, c_size_t), int(min(size(from), size(to)), c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_restore_columns

  !> At rest, as newly created.
  subroutine state_reset_columns(self, columns, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer, intent(in) :: columns(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_reset_columns(self%handle, int(columns - 1, c_size_t), size(columns, kind=c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_reset_columns

  !> Columns from(k) of another state to columns to(k).
  subroutine state_copy_columns(self, other, from, to, stat, errmsg)
    class(mac_state), intent(inout) :: self
    class(mac_state), intent(in) :: other
    integer, intent(in) :: from(:), to(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_copy_columns(other%handle, int(from - 1, c_size_t), self%handle, int(to - 1, c_size_t), &
                                  int(min(size(from), size(to)), c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_copy_columns

  ! ---- Steps ----

  !> y(inputs, columns) -> closure(outputs, columns)
  subroutine step_double(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), target, intent(in) :: y(:, :)
    real(real64), target, intent(inout) :: closure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", self, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("closure", self, shape(closure), self%n_outputs, status, error)
    if (status == mac_ok) status = c_step_double(self%handle, c_loc(y(1, 1)), stride(y, 1), stride(y, 2), &
                                              c_loc(closure(1, 1)), stride(closure, 1), stride(closure, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine step_double

  subroutine step_float(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real32), target, intent(in) :: y(:, :)
    real(real32), target, intent(inout) :: closure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", self, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("closure", self, shape(closure), self%n_outputs, status, error)
    if (status == mac_ok) status = c_step_float(self%handle, c_loc(y(1, 1)), stride(y, 1), stride(y, 2), &
                                              c_loc(closure(1, 1)), stride(closure, 1), stride(closure, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine step_float

  !> A single column: y(inputs) -> closure(outputs)
  subroutine step_column_double(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), target, intent(in) :: y(:)
    real(real64), target, intent(inout) :: closure(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(real64), pointer :: y_column(:, :), closure_column(:, :)
    y_column(1:size(y), 1:1) => y
    closure_column(1:size(closure), 1:1) => closure
    call self%step_double(y_column, closure_column, stat, errmsg)
  end subroutine step_column_double

  subroutine step_column_float(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real32), target, intent(in) :: y(:)
    real(real32), target, intent(inout) :: closure(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(real32), pointer :: y_column(:, :), closure_column(:, :)
    y_column(1:size(y), 1:1) => y
    closure_column(1:size(closure), 1:1) => closure
    call self%step_float(y_column, closure_column, stat, errmsg)
  end subroutine step_column_float

  !> A field y(nx, ny, nz, inputs) -> closure(nx, ny, nz, outputs), sections where they lie; column number
  !> i + nx (j - 1 + ny (k - 1)) is that of the point (i, j, k).
  subroutine step_field_double(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), target, intent(in) :: y(:, :, :, :)
    real(real64), target, intent(inout) :: closure(:, :, :, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: inputs(size(y, 4)), outputs(size(closure, 4))
    integer(c_int) :: status
    integer :: v
    status = mac_ok
    if (any([shape(y), shape(closure)] /= [size(y, 1), size(y, 2), size(y, 3), self%n_inputs, size(y, 1), size(y, 2), &
                                           size(y, 3), self%n_outputs])) then
      call set_error("y and closure are not fields of one grid with the model's inputs and outputs in the last "// &
                     "dimension", status, error)
    else if (size(y) == 0) then
      call set_error("y has no elements", status, error)
    end if
    if (status == mac_ok) then
      do v = 1, size(inputs)
        inputs(v) = c_loc(y(1, 1, 1, v))
      end do
      do v = 1, size(outputs)
        outputs(v) = c_loc(closure(1, 1, 1, v))
      end do
      status = c_step_fields(self%handle, int(shape(y(:, :, :, 1)), c_size_t), inputs, field_strides_double(y), outputs, &
                    field_strides_double(closure), error)
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine step_field_double

  !> A field y(nx, ny, nz, inputs) -> closure(nx, ny, nz, outputs), sections where they lie; column number
  !> i + nx (j - 1 + ny (k - 1)) is that of the point (i, j, k).
  subroutine step_field_float(self, y, closure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real32), target, intent(in) :: y(:, :, :, :)
    real(real32), target, intent(inout) :: closure(:, :, :, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: inputs(size(y, 4)), outputs(size(closure, 4))
    integer(c_int) :: status
    integer :: v
    status = mac_ok
    if (any([shape(y), shape(closure)] /= [size(y, 1), size(y, 2), size(y, 3), self%n_inputs, size(y, 1), size(y, 2), &
                                           size(y, 3), self%n_outputs])) then
      call set_error("y and closure are not fields of one grid with the model's inputs and outputs in the last "// &
                     "dimension", status, error)
    else if (size(y) == 0) then
      call set_error("y has no elements", status, error)
    end if
    if (status == mac_ok) then
      do v = 1, size(inputs)
        inputs(v) = c_loc(y(1, 1, 1, v))
      end do
      do v = 1, size(outputs)
        outputs(v) = c_loc(closure(1, 1, 1, v))
      end do
      status = c_step_fields_float(self%handle, int(shape(y(:, :, :, 1)), c_size_t), inputs, field_strides_float(y), outputs, &
                    field_strides_float(closure), error)
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine step_field_float

  !> The columns listed, in ascending order from 1, take part in steps until they are chosen anew; the others rest.
  subroutine set_active_list(self, columns, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer, intent(in) :: columns(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    integer(c_size_t) :: from_zero(max(size(columns), 1))
    from_zero(:size(columns)) = int(columns - 1, c_size_t)
    status = c_state_set_active(self%handle, from_zero, size(columns, kind=c_size_t), error)
    call conclude(status, error, stat, errmsg)
  end subroutine set_active_list

  !> Those whose element of the mask is true.
  subroutine set_active_mask(self, mask, stat, errmsg)
    class(mac_state), intent(inout) :: self
    logical, intent(in) :: mask(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: j
    call self%set_active_list(pack([(j, j=1, size(mask))], mask), stat, errmsg)
  end subroutine set_active_mask

  pure integer function state_active(self)
    class(mac_state), intent(in) :: self
    state_active = int(c_state_active(self%handle))
  end function state_active

  !> Counts what leaves the range of the training data, and clips, scales back or fades it where asked to.
  subroutine state_set_limits(self, inputs, closure, margin, fade, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer, intent(in), optional :: inputs, closure
    real(real64), intent(in), optional :: margin, fade
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_limits), target :: limits
    type(c_error) :: error
    integer(c_int) :: status
    limits = c_limits(mac_limit_count, mac_limit_count, 0, 1, c_null_ptr, c_null_ptr, c_null_ptr, c_null_ptr)
    if (present(inputs)) limits%inputs = int(inputs, c_int)
    if (present(closure)) limits%closure = int(closure, c_int)
    if (present(margin)) limits%margin = margin
    if (present(fade)) limits%fade = fade
    status = c_state_set_limits(self%handle, c_loc(limits), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_set_limits

  subroutine state_clear_limits(self, stat, errmsg)
    class(mac_state), intent(inout) :: self
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_set_limits(self%handle, c_null_ptr, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_clear_limits

  !> fallback(outputs, columns), which a fading closure fades to.
  subroutine state_set_fallback(self, fallback, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), contiguous, intent(in) :: fallback(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("fallback", self, shape(fallback), self%n_outputs, status, error)
    if (status == mac_ok) status = c_state_set_fallback(self%handle, fallback, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_set_fallback

  !> Of a column, from 1.
  function state_diagnostics(self, column, stat, errmsg) result(of)
    class(mac_state), intent(in) :: self
    integer, intent(in) :: column
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(mac_diagnostics) :: of
    type(c_diagnostics) :: c
    type(c_error) :: error
    integer(c_int) :: status
    status = c_state_diagnostics(self%handle, int(column - 1, c_size_t), c, error)
    if (status == mac_ok) of = mac_diagnostics(c%steps, c%inputs_outside, c%closure_outside, c%changed, c%replaced, &
                                               c%input_excess, c%closure_excess, c%distance)
    call conclude(status, error, stat, errmsg)
  end function state_diagnostics

  !> The closure(outputs, columns) at a fraction of the step that the last call of step opened.
  subroutine closure_at_columns(self, hold, fraction, closure, stat, errmsg)
    class(mac_state), intent(in) :: self
    integer, intent(in) :: hold
    real(real64), intent(in) :: fraction
    real(real64), target, intent(inout) :: closure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("closure", self, shape(closure), self%n_outputs, status, error)
    if (status == mac_ok) status = c_closure_at(self%handle, int(hold, c_int), fraction, c_loc(closure(1, 1)), &
                                                stride(closure, 1), stride(closure, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine closure_at_columns

  subroutine closure_at_column(self, hold, fraction, closure, stat, errmsg)
    class(mac_state), intent(in) :: self
    integer, intent(in) :: hold
    real(real64), intent(in) :: fraction
    real(real64), target, intent(inout) :: closure(:)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    real(real64), pointer :: closure_column(:, :)
    closure_column(1:size(closure), 1:1) => closure
    call self%closure_at_columns(hold, fraction, closure_column, stat, errmsg)
  end subroutine closure_at_column

  ! ---- Derivatives ----
  !
  ! A step maps (y, memory) to (closure, memory after it). Its tangent maps (dy, dmemory) the same way, its adjoint,
  ! the transpose, maps (gclosure, gmemory) back to (gy, gmemory). Memories are (memory_size, columns), contiguous,
  ! and are replaced; other arrays are those of step.

  !> Numbers in the memory of a column.
  pure integer function state_memory_size(self)
    class(mac_state), intent(in) :: self
    state_memory_size = int(c_state_memory_size(self%handle))
  end function state_memory_size

  subroutine state_get_memory(self, memory, stat, errmsg)
    class(mac_state), intent(in) :: self
    real(real64), contiguous, intent(inout) :: memory(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("memory", self, shape(memory), self%memory_size(), status, error)
    if (status == mac_ok) status = c_state_get_memory(self%handle, memory, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_get_memory

  subroutine state_set_memory(self, memory, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), contiguous, intent(in) :: memory(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("memory", self, shape(memory), self%memory_size(), status, error)
    if (status == mac_ok) status = c_state_set_memory(self%handle, memory, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_set_memory

  !> About the step that would come next at y. dy must lie as y does: the same strides.
  subroutine state_step_tangent(self, y, dy, dmemory, dclosure, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), target, intent(in) :: y(:, :), dy(:, :)
    real(real64), contiguous, intent(inout) :: dmemory(:, :)
    real(real64), target, intent(inout) :: dclosure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", self, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("dy", self, shape(dy), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("dmemory", self, shape(dmemory), self%memory_size(), status, error)
    if (status == mac_ok) call check_shape("dclosure", self, shape(dclosure), self%n_outputs, status, error)
    if (status == mac_ok) call check_strides("dy", y, dy, status, error)
    if (status == mac_ok) status = c_step_tangent(self%handle, c_loc(y(1, 1)), c_loc(dy(1, 1)), stride(y, 1), &
        stride(y, 2), dmemory, c_loc(dclosure(1, 1)), stride(dclosure, 1), stride(dclosure, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_step_tangent

  !> The transpose. gy must lie as y does.
  subroutine state_step_adjoint(self, y, gclosure, gmemory, gy, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), target, intent(in) :: y(:, :), gclosure(:, :)
    real(real64), contiguous, intent(inout) :: gmemory(:, :)
    real(real64), target, intent(inout) :: gy(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", self, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("gclosure", self, shape(gclosure), self%n_outputs, status, error)
    if (status == mac_ok) call check_shape("gmemory", self, shape(gmemory), self%memory_size(), status, error)
    if (status == mac_ok) call check_shape("gy", self, shape(gy), self%n_inputs, status, error)
    if (status == mac_ok) call check_strides("gy", y, gy, status, error)
    if (status == mac_ok) status = c_step_adjoint(self%handle, c_loc(y(1, 1)), c_loc(gclosure(1, 1)), &
        stride(gclosure, 1), stride(gclosure, 2), gmemory, c_loc(gy(1, 1)), stride(y, 1), stride(y, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_step_adjoint

  !> jacobian(i, o, j) = d closure(o, j) / d y(i, j)
  subroutine state_step_jacobian(self, y, jacobian, stat, errmsg)
    class(mac_state), intent(inout) :: self
    real(real64), contiguous, intent(in) :: y(:, :)
    real(real64), contiguous, intent(inout) :: jacobian(:, :, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", self, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("jacobian", self, [size(jacobian, 1)*size(jacobian, 2), &
                                            size(jacobian, 3)], self%n_inputs*self%n_outputs, status, error)
    if (status == mac_ok) status = c_step_jacobian(self%handle, y, jacobian, error)
    call conclude(status, error, stat, errmsg)
  end subroutine state_step_jacobian

  !> Room for `steps` steps of a state like this one.
  subroutine tape_create(self, model, columns, steps, stat, errmsg)
    class(mac_tape), intent(inout) :: self
    type(mac_model), intent(in) :: model
    integer, intent(in) :: columns, steps
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: created
    integer(c_int) :: status
    created = c_null_ptr
    status = c_tape_create(model%handle, int(max(columns, 0), c_size_t), int(max(steps, 0), c_size_t), created, error)
    if (status == mac_ok) then
      call self%free()
      self%handle = created
      self%n_inputs = model%inputs()
      self%n_outputs = model%outputs()
      self%n_columns = columns
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine tape_create

  subroutine tape_free(self)
    class(mac_tape), intent(inout) :: self
    call c_tape_free(self%handle)
    self%handle = c_null_ptr
  end subroutine tape_free

  subroutine tape_finalise(self)
    type(mac_tape), intent(inout) :: self
    call self%free()
  end subroutine tape_finalise

  !> A record cannot be copied.
  subroutine tape_assign(self, other)
    class(mac_tape), intent(inout) :: self
    class(mac_tape), intent(in) :: other
    if (c_associated(other%handle)) error stop "mac: a tape cannot be assigned"
    call self%free()
  end subroutine tape_assign

  subroutine tape_clear(self)
    class(mac_tape), intent(inout) :: self
    call c_tape_clear(self%handle)
  end subroutine tape_clear

  pure integer function tape_steps(self)
    class(mac_tape), intent(in) :: self
    tape_steps = int(c_tape_steps(self%handle))
  end function tape_steps

  !> state%step(y, closure), recorded.
  subroutine tape_step(self, state, y, closure, stat, errmsg)
    class(mac_tape), intent(inout) :: self
    class(mac_state), intent(inout) :: state
    real(real64), target, intent(in) :: y(:, :)
    real(real64), target, intent(inout) :: closure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_shape("y", state, shape(y), self%n_inputs, status, error)
    if (status == mac_ok) call check_shape("closure", state, shape(closure), self%n_outputs, status, error)
    if (status == mac_ok) status = c_tape_step(self%handle, state%handle, c_loc(y(1, 1)), stride(y, 1), &
        stride(y, 2), c_loc(closure(1, 1)), stride(closure, 1), stride(closure, 2), error)
    if (status == mac_ok) self%n_memory = state%memory_size()
    call conclude(status, error, stat, errmsg)
  end subroutine tape_step

  !> Of recorded step number `step`, from 1.
  subroutine tape_tangent(self, step, dy, dmemory, dclosure, stat, errmsg)
    class(mac_tape), intent(inout) :: self
    integer, intent(in) :: step
    real(real64), target, intent(in) :: dy(:, :)
    real(real64), contiguous, intent(inout) :: dmemory(:, :)
    real(real64), target, intent(inout) :: dclosure(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_tape(self, step, shape(dy), shape(dmemory), shape(dclosure), status, error)
    if (status == mac_ok) status = c_tape_tangent(self%handle, int(step - 1, c_size_t), c_loc(dy(1, 1)), &
        stride(dy, 1), stride(dy, 2), dmemory, c_loc(dclosure(1, 1)), stride(dclosure, 1), stride(dclosure, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine tape_tangent

  !> The transpose.
  subroutine tape_adjoint(self, step, gclosure, gmemory, gy, stat, errmsg)
    class(mac_tape), intent(inout) :: self
    integer, intent(in) :: step
    real(real64), target, intent(in) :: gclosure(:, :)
    real(real64), contiguous, intent(inout) :: gmemory(:, :)
    real(real64), target, intent(inout) :: gy(:, :)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    call check_tape(self, step, shape(gy), shape(gmemory), shape(gclosure), status, error)
    if (status == mac_ok) status = c_tape_adjoint(self%handle, int(step - 1, c_size_t), c_loc(gclosure(1, 1)), &
        stride(gclosure, 1), stride(gclosure, 2), gmemory, c_loc(gy(1, 1)), stride(gy, 1), stride(gy, 2), error)
    call conclude(status, error, stat, errmsg)
  end subroutine tape_adjoint

  ! ---- Helpers ----

  !> Elements between neighbours along a dimension of an array section.
  integer(c_ptrdiff_t) function stride_double(array, dimension) result(stride)
    real(real64), target, intent(in) :: array(:, :)
    integer, intent(in) :: dimension
    stride = 1
    if (size(array, dimension) < 2) return
    stride = (address(c_loc(array(merge(2, 1, dimension == 1), merge(2, 1, dimension == 2)))) - &
              address(c_loc(array(1, 1))))/(storage_size(array)/8)
  end function stride_double

  integer(c_ptrdiff_t) function stride_float(array, dimension) result(stride)
    real(real32), target, intent(in) :: array(:, :)
    integer, intent(in) :: dimension
    stride = 1
    if (size(array, dimension) < 2) return
    stride = (address(c_loc(array(merge(2, 1, dimension == 1), merge(2, 1, dimension == 2)))) - &
              address(c_loc(array(1, 1))))/(storage_size(array)/8)
  end function stride_float

  !> Elements between neighbours along the first three dimensions of a field.
  function field_strides_double(field) result(strides)
    real(real64), target, intent(in) :: field(:, :, :, :)
    integer(c_ptrdiff_t) :: strides(3)
    integer :: d, at(3)
    strides = 1
    do d = 1, 3
      if (size(field, d) < 2) cycle
      at = 1
      at(d) = 2
      strides(d) = (address(c_loc(field(at(1), at(2), at(3), 1))) - address(c_loc(field(1, 1, 1, 1))))/ &
                   (storage_size(field)/8)
    end do
  end function field_strides_double

  !> Elements between neighbours along the first three dimensions of a field.
  function field_strides_float(field) result(strides)
    real(real32), target, intent(in) :: field(:, :, :, :)
    integer(c_ptrdiff_t) :: strides(3)
    integer :: d, at(3)
    strides = 1
    do d = 1, 3
      if (size(field, d) < 2) cycle
      at = 1
      at(d) = 2
      strides(d) = (address(c_loc(field(at(1), at(2), at(3), 1))) - address(c_loc(field(1, 1, 1, 1))))/ &
                   (storage_size(field)/8)
    end do
  end function field_strides_float

  pure integer(c_ptrdiff_t) function address(pointer)
    type(c_ptr), intent(in) :: pointer
    address = transfer(pointer, address)
  end function address

  !> An array of a state must be (components, columns).
  subroutine check_shape(name, state, extents, components, status, error)
    character(*), intent(in) :: name
    class(mac_state), intent(in) :: state
    integer, intent(in) :: extents(2), components
    integer(c_int), intent(out) :: status
    type(c_error), intent(inout) :: error
    character(200) :: sentence
    status = mac_ok
    if (.not. c_associated(state%handle)) then
      call set_error("the state has not been created", status, error)
    else if (any(extents /= [components, state%columns()])) then
      write (sentence, "(a, ' has the shape (', i0, ', ', i0, '): expected (', i0, ', ', i0, ')')") &
        name, extents, components, state%columns()
      call set_error(trim(sentence), status, error)
    end if
  end subroutine check_shape

  !> Two arrays must have the same strides.
  subroutine check_strides(name, y, other, status, error)
    character(*), intent(in) :: name
    real(real64), target, intent(in) :: y(:, :), other(:, :)
    integer(c_int), intent(out) :: status
    type(c_error), intent(inout) :: error
    status = mac_ok
    if (stride(y, 1) /= stride(other, 1) .or. stride(y, 2) /= stride(other, 2)) &
      call set_error(name//" does not lie in memory as y does: expected the same strides", status, error)
  end subroutine check_strides

  !> Arrays of a tape: (inputs, columns), (memory_size, columns), (outputs, columns).
  subroutine check_tape(tape, step, of_y, of_memory, of_closure, status, error)
    class(mac_tape), intent(in) :: tape
    integer, intent(in) :: step, of_y(2), of_memory(2), of_closure(2)
    integer(c_int), intent(out) :: status
    type(c_error), intent(inout) :: error
    character(200) :: sentence
    status = mac_ok
    if (step < 1 .or. step > tape%steps()) then
      write (sentence, "('step ', i0, ' is not on the tape, which has ', i0)") step, tape%steps()
      call set_error(trim(sentence), status, error)
    else if (any([of_y, of_memory, of_closure] /= [tape%n_inputs, tape%n_columns, tape%n_memory, tape%n_columns, &
                                                   tape%n_outputs, tape%n_columns])) then
      write (sentence, "('arrays like y, memory and closure have the shapes (', i0, ', ', i0, '), (', i0, ', ', i0, " &
             //"'), (', i0, ', ', i0, '): expected (', i0, ', ', i0, '), (', i0, ', ', i0, '), (', i0, ', ', i0, ')')") &
        of_y, of_memory, of_closure, tape%n_inputs, tape%n_columns, tape%n_memory, tape%n_columns, tape%n_outputs, &
        tape%n_columns
      call set_error(trim(sentence), status, error)
    end if
  end subroutine check_tape

  subroutine set_error(text, status, error)
    character(*), intent(in) :: text
    integer(c_int), intent(out) :: status
    type(c_error), intent(inout) :: error
    integer :: i
    status = mac_invalid_argument
    error%code = status
    do i = 1, len(text)
      error%message(i) = text(i:i)
    end do
    error%message(len(text) + 1) = c_null_char
  end subroutine set_error

  !> Hands a failure to the caller, or stops where the caller does not want to know.
  subroutine conclude(status, error, stat, errmsg)
    integer(c_int), intent(in) :: status
    type(c_error), intent(in) :: error
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    integer :: i
    character(size(error%message)) :: sentence
    if (present(stat)) stat = int(status)
    if (status == mac_ok) return
    sentence = ""
    do i = 1, size(error%message)
      if (error%message(i) == c_null_char) exit
      sentence(i:i) = error%message(i)
    end do
    if (present(errmsg)) errmsg = sentence
    if (.not. present(stat)) error stop "mac: "//trim(sentence)
  end subroutine conclude

  !> A zero-terminated text as a Fortran one; null is empty.
  function to_text(pointer) result(text)
    type(c_ptr), intent(in) :: pointer
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    text = ""
    if (.not. c_associated(pointer)) return
    call c_f_pointer(pointer, letters, [c_strlen(pointer)])
    text = repeat(" ", size(letters))
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function to_text

end module mac
