! Closures for Fortran hosts whose fields live on a GPU: the functions of mac/mac_cuda.h.
!
!   type(mac_model) :: model
!   type(mac_device_state) :: state
!   call model%open("closure.safetensors", precision=mac_float32)
!   call state%create(model, columns)
!   !$acc host_data use_device(y, closure)
!   call state%step(c_loc(y), c_loc(closure), stream=stream)     ! y(inputs, columns) -> closure(outputs, columns)
!   !$acc end host_data
!
! y and closure are addresses in device memory, however the host came by them (OpenACC, OpenMP, CUDA Fortran: c_devloc, C). Strides are those of
! the dimensions (component, column), in elements. `stream` is a cudaStream_t as type(c_ptr), by default the default stream
! (OpenACC: acc_get_cuda_stream). stat and errmsg are as in module mac.
module mac_device
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8
  use mac_c, only: c_error
  use mac
  implicit none
  private
  public :: mac_cuda_available

  type, public :: mac_device_state
    private
    type(c_ptr) :: handle = c_null_ptr
    integer :: n_inputs = 0, n_outputs = 0
  contains
    procedure :: create => device_create
    procedure :: free => device_free
    procedure :: columns => device_columns
    procedure :: step => device_step
    procedure :: step_float => device_step_float
    procedure :: closure_at => device_closure_at
    procedure :: set_mask => device_set_mask
    procedure :: reset => device_reset
    procedure :: save => device_save
    procedure :: restore => device_restore
    procedure :: check => device_check
    procedure, private :: device_assign
    generic :: assignment(=) => device_assign
    final :: device_finalise
  end type mac_device_state

  interface
    function c_cuda_available(error) bind(c, name="mac_cuda_available") result(status)
      import :: c_int, c_error
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_create(model, columns, state, error) bind(c, name="mac_device_state_create") result(status)
      import :: c_int, c_ptr, c_size_t, c_error
      type(c_ptr), value :: model
      integer(c_size_t), value :: columns
      type(c_ptr), intent(inout) :: state
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    subroutine c_device_free(state) bind(c, name="mac_device_state_free")
      import :: c_ptr
      type(c_ptr), value :: state
    end subroutine
    pure function c_device_columns(state) bind(c, name="mac_device_state_columns") result(count)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t) :: count
    end function
    pure function c_device_bytes(state, count) bind(c, name="mac_device_state_bytes") result(bytes)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: state
      integer(c_size_t), value :: count
      integer(c_size_t) :: bytes
    end function
    function c_step(state, y, y_component, y_column, closure, closure_component, closure_column, stream, error) &
      bind(c, name="mac_step_device_strided") result(status)
      import :: c_int, c_ptr, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, closure, stream
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_step_float(state, y, y_component, y_column, closure, closure_component, closure_column, stream, error) &
      bind(c, name="mac_step_device_strided_float") result(status)
      import :: c_int, c_ptr, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, y, closure, stream
      integer(c_ptrdiff_t), value :: y_component, y_column, closure_component, closure_column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_closure_at(state, hold, fraction, closure, component, column, stream, error) &
      bind(c, name="mac_closure_at_device_strided") result(status)
      import :: c_double, c_int, c_ptr, c_ptrdiff_t, c_error
      type(c_ptr), value :: state, closure, stream
      integer(c_int), value :: hold
      real(c_double), value :: fraction
      integer(c_ptrdiff_t), value :: component, column
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_mask(state, mask, error) bind(c, name="mac_device_state_set_mask") result(status)
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: state, mask
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_reset(state, stream, error) bind(c, name="mac_device_state_reset") result(status)
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: state, stream
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_save(state, columns, count, buffer, size, stream, error) bind(c, name="mac_device_state_save") &
      result(status)
      import :: c_int, c_int8_t, c_ptr, c_size_t, c_error
      type(c_ptr), value :: state, columns, stream
      integer(c_size_t), value :: count, size
      integer(c_int8_t), intent(inout) :: buffer(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_restore(state, buffer, size, saved_columns, columns, count, stream, error) &
      bind(c, name="mac_device_state_restore") result(status)
      import :: c_int, c_int8_t, c_ptr, c_size_t, c_error
      type(c_ptr), value :: state, saved_columns, columns, stream
      integer(c_int8_t), intent(in) :: buffer(*)
      integer(c_size_t), value :: count, size
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_device_check(state, stream, error) bind(c, name="mac_device_state_check") result(status)
      import :: c_int, c_ptr, c_error
      type(c_ptr), value :: state, stream
      type(c_error), intent(inout) :: error
      integer(c_int) :: status
    end function
  end interface

contains

  !> Whether there is a CUDA device; stat and errmsg say what is missing.
  subroutine mac_cuda_available(stat, errmsg)
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_cuda_available(error)
    call conclude(status, error, stat, errmsg)
  end subroutine mac_cuda_available

  !> The memory of so many columns, at rest, on the current device. The model is open in mac_float32.
  subroutine device_create(self, model, columns, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(mac_model), intent(in) :: model
    integer, intent(in) :: columns
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    type(c_ptr) :: created
    integer(c_int) :: status
    created = c_null_ptr
    status = c_device_create(model%pointer(), int(max(columns, 0), c_size_t), created, error)
    if (status == mac_ok) then
      call self%free()
      self%handle = created
      self%n_inputs = model%inputs()
      self%n_outputs = model%outputs()
    end if
    call conclude(status, error, stat, errmsg)
  end subroutine device_create

  subroutine device_free(self)
    class(mac_device_state), intent(inout) :: self
    call c_device_free(self%handle)
    self%handle = c_null_ptr
  end subroutine device_free

  impure elemental subroutine device_finalise(self)
    type(mac_device_state), intent(inout) :: self
    call self%free()
  end subroutine device_finalise

  !> There are no copies by assignment: what is on a device is large.
  subroutine device_assign(self, other)
    class(mac_device_state), intent(inout) :: self
    class(mac_device_state), intent(in) :: other
    if (c_associated(other%handle) .or. c_associated(self%handle)) &
      error stop "mac: a device state is not assigned: create one, save and restore"
  end subroutine device_assign

  pure integer function device_columns(self)
    class(mac_device_state), intent(in) :: self
    device_columns = int(c_device_columns(self%handle))
  end function device_columns

  !> One closure step: real64 y(inputs, columns) -> closure(outputs, columns), or as the strides (component, column) say.
  subroutine device_step(self, y, closure, y_strides, closure_strides, stream, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(c_ptr), intent(in) :: y, closure
    integer, intent(in), optional :: y_strides(2), closure_strides(2)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    integer(c_ptrdiff_t) :: of_y(2), of_closure(2)
    of_y = strides(self%n_inputs, y_strides)
    of_closure = strides(self%n_outputs, closure_strides)
    status = c_step(self%handle, y, of_y(1), of_y(2), closure, of_closure(1), of_closure(2), given(stream), &
                    error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_step

  !> The same for real32.
  subroutine device_step_float(self, y, closure, y_strides, closure_strides, stream, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(c_ptr), intent(in) :: y, closure
    integer, intent(in), optional :: y_strides(2), closure_strides(2)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    integer(c_ptrdiff_t) :: of_y(2), of_closure(2)
    of_y = strides(self%n_inputs, y_strides)
    of_closure = strides(self%n_outputs, closure_strides)
    status = c_step_float(self%handle, y, of_y(1), of_y(2), closure, of_closure(1), of_closure(2), &
                                   given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_step_float

  !> real64 closure(outputs, columns) at a fraction of the step that the last call of step opened.
  subroutine device_closure_at(self, hold, fraction, closure, closure_strides, stream, stat, errmsg)
    class(mac_device_state), intent(in) :: self
    integer, intent(in) :: hold
    real(c_double), intent(in) :: fraction
    type(c_ptr), intent(in) :: closure
    integer, intent(in), optional :: closure_strides(2)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    integer(c_ptrdiff_t) :: of_closure(2)
    of_closure = strides(self%n_outputs, closure_strides)
    status = c_closure_at(self%handle, int(hold, c_int), fraction, closure, of_closure(1), of_closure(2), &
                                   given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_closure_at

  !> Steps are those of the columns whose byte in mask(columns), in device memory, is not 0; c_null_ptr: of all.
  subroutine device_set_mask(self, mask, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(c_ptr), intent(in) :: mask
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_device_mask(self%handle, mask, error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_set_mask

  subroutine device_reset(self, stream, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_device_reset(self%handle, given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_reset

  !> Everything the next step depends on, as bytes on the host: those that mac_state's restore takes.
  subroutine device_save(self, buffer, stream, stat, errmsg)
    class(mac_device_state), intent(in) :: self
    integer(int8), allocatable, intent(out) :: buffer(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    integer(c_size_t) :: count
    count = c_device_columns(self%handle)
    allocate (buffer(c_device_bytes(self%handle, count)))
    status = c_device_save(self%handle, c_null_ptr, count, buffer, size(buffer, kind=c_size_t), &
                                    given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_save

  !> Takes back what save gave, or mac_state's save.
  subroutine device_restore(self, buffer, stream, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    integer(int8), contiguous, intent(in) :: buffer(:)
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_device_restore(self%handle, buffer, size(buffer, kind=c_size_t), c_null_ptr, c_null_ptr, &
                                       c_device_columns(self%handle), given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_restore

  !> Waits for the stream; mac_not_finite where an input or a closure was not finite since the last check.
  subroutine device_check(self, stream, stat, errmsg)
    class(mac_device_state), intent(inout) :: self
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: status
    status = c_device_check(self%handle, given(stream), error)
    call conclude(status, error, stat, errmsg)
  end subroutine device_check

  type(c_ptr) function given(stream)
    type(c_ptr), intent(in), optional :: stream
    given = c_null_ptr
    if (present(stream)) given = stream
  end function given

  !> (component, column)
  pure function strides(components, chosen)
    integer, intent(in) :: components
    integer, intent(in), optional :: chosen(2)
    integer(c_ptrdiff_t) :: strides(2)
    strides = [1, components]
    if (present(chosen)) strides = chosen
  end function strides

  include "mac_conclude.inc"

end module mac_device
