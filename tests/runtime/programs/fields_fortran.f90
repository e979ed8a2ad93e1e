! fields_fortran MODEL: fields (nx, ny, nz, variable) with a halo, in both precisions, step as columns do; columns rest;
! limits count; a coupler steps for hosts whose step is half or twice the closure's. Stops with a message where something
! differs.
program fields_fortran
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use mac
  implicit none
  integer, parameter :: nx = 3, ny = 4, nz = 2, columns = nx*ny*nz
  type(mac_model) :: model
  type(mac_state) :: grid, list, single
  type(mac_diagnostics) :: seen
  character(1000) :: path
  character(200) :: message
  integer :: d, i, j, k, v, n, stat
  real(real64), allocatable, target :: field(:, :, :, :), out(:, :, :, :), y(:, :), closure(:, :)
  real(real32), allocatable :: field_single(:, :, :, :), out_single(:, :, :, :)
  logical :: mask(columns)

  call get_command_argument(1, path)
  call model%open(trim(path))
  d = model%inputs()
  call grid%create(model, columns)
  call list%create(model, columns)
  call single%create(model, columns)
  allocate (field(0:nx + 1, 0:ny + 1, 0:nz + 1, d), out(0:nx + 1, 0:ny + 1, 0:nz + 1, d), y(d, columns), closure(d, columns))
  do v = 1, d
    do k = 0, nz + 1
      do j = 0, ny + 1
        do i = 0, nx + 1
          field(i, j, k, v) = real(0.3*sin(real(i + 5*j + 11*k + 3*v)), real32)
        end do
      end do
    end do
  end do
  out = -7
  allocate (field_single(0:nx + 1, 0:ny + 1, 0:nz + 1, d), source=real(field, real32))
  allocate (out_single(0:nx + 1, 0:ny + 1, 0:nz + 1, d), source=-7.0_real32)
  do v = 1, d
    y(v, :) = reshape(field(1:nx, 1:ny, 1:nz, v), [columns])
  end do

  call grid%step(field(1:nx, 1:ny, 1:nz, :), out(1:nx, 1:ny, 1:nz, :))
  call single%step(field_single(1:nx, 1:ny, 1:nz, :), out_single(1:nx, 1:ny, 1:nz, :))
  call list%step(y, closure)
  do v = 1, d
    if (any(reshape(out(1:nx, 1:ny, 1:nz, v), [columns]) /= closure(v, :))) error stop "a field differs from its columns"
    if (any(reshape(out_single(1:nx, 1:ny, 1:nz, v), [columns]) /= real(closure(v, :), real32))) &
      error stop "a field of single precision differs"
  end do
  if (count(out == -7) /= size(out) - columns*d) error stop "the halo was written"
  call grid%step(field(1:nx, 1:ny, :, :), out(1:nx, 1:ny, 1:nz, :), stat, message)
  if (stat /= mac_invalid_argument) error stop "another grid is not refused"
  write (*, "(a)") trim(message)

  mask = [(mod(n, 3) == 0, n=1, columns)]
  call grid%set_active(mask)
  if (grid%active() /= count(mask)) error stop "the number of active columns"
  out = -7
  call grid%step(field(1:nx, 1:ny, 1:nz, :), out(1:nx, 1:ny, 1:nz, :))
  call list%step(y, closure)
  do v = 1, d
    if (any(reshape(out(1:nx, 1:ny, 1:nz, v), [columns]) /= merge(closure(v, :), -7.0_real64, mask))) &
      error stop "columns that rest"
  end do
  call grid%set_active([(n, n=1, columns)])

  call grid%set_limits(inputs=mac_limit_clip, margin=0.1_real64, input_low=[(-1.0_real64, v=1, d)], &
                       input_high=[(1.0_real64, v=1, d)], output_low=[(-9.0_real64, v=1, d)], &
                       output_high=[(9.0_real64, v=1, d)])
  field(1, 1, 1, 2) = 5
  call grid%step(field(1:nx, 1:ny, 1:nz, :), out(1:nx, 1:ny, 1:nz, :))
  seen = grid%diagnostics(1)
  if (seen%inputs_outside /= 1 .or. seen%changed /= 1) error stop "the counters of column 1"
  seen = grid%diagnostics(2)
  if (seen%inputs_outside /= 0 .or. seen%steps /= 1) error stop "the counters of column 2"
  call grid%clear_limits()
  call own_ranges()
  call scatter()
  call couple()
  call couple_fields()

contains

  !> The range of the training data, and one of the host's own that clips.
  subroutine own_ranges()
    type(mac_state) :: limited
    real(real64), allocatable :: low(:), high(:), small(:), large(:)
    if (.not. model%has_training_range()) error stop "the model has no training range"
    call model%training_range(low, high, small, large)
    if (size(low) /= d .or. any(low >= high) .or. any(small >= large)) error stop "the training range"
    call limited%create(model, columns)
    call limited%set_limits(closure=mac_limit_clip, input_low=low, input_high=high, output_low=0*small + 1, &
                            output_high=0*large + 2)
    call limited%step(y, closure)
    if (any(closure < 1 .or. closure > 2)) error stop "a range of the host's own does not clip"
    call limited%set_limits(input_low=low(2:), input_high=high, output_low=small, output_high=large, stat=stat, &
                            errmsg=message)
    write (*, "(a)") trim(message)
    call limited%set_limits(input_low=low, stat=stat, errmsg=message)
    write (*, "(a)") trim(message)
  end subroutine own_ranges

  !> An array for each variable: steps and the closure within one are those of columns.
  subroutine scatter()
    type(mac_state) :: plain, scattered, single
    type(mac_field) :: in(d), to(d)
    type(mac_field_float) :: in_single(d), to_single(d)
    real(real64), target :: arrays(2*nx, ny, nz, d), outputs(2*nx, ny, nz, d)
    real(real32), target :: arrays_single(nx, ny, nz, d), outputs_single(nx, ny, nz, d)
    integer :: v, n
    call plain%create(model, columns)
    call scattered%create(model, columns)
    call single%create(model, columns)
    outputs = -7
    do v = 1, d  ! every other point of an array is a column
      arrays(1::2, :, :, v) = reshape(y(v, :), [nx, ny, nz])
      arrays_single(:, :, :, v) = real(arrays(1::2, :, :, v), real32)
      in(v)%values => arrays(1::2, :, :, v)
      to(v)%values => outputs(1::2, :, :, v)
      in_single(v)%values => arrays_single(:, :, :, v)
      to_single(v)%values => outputs_single(:, :, :, v)
    end do
    do n = 1, 2
      call plain%step(y, closure)
      call scattered%step(in, to)
      call single%step(in_single, to_single)
      call compare(outputs(1::2, :, :, :), outputs_single, "variables in arrays of their own differ from columns")
    end do
    call plain%closure_at(mac_hold_linear, 0.5_real64, closure)
    call scattered%closure_at(mac_hold_linear, 0.5_real64, to)
    call single%closure_at(mac_hold_linear, 0.5_real64, to_single)
    call compare(outputs(1::2, :, :, :), outputs_single, "the closure within a step differs")
    outputs = -7
    outputs_single = -7
    call scattered%closure_at(mac_hold_linear, 0.5_real64, outputs(1::2, :, :, :))
    call single%closure_at(mac_hold_linear, 0.5_real64, outputs_single)
    call compare(outputs(1::2, :, :, :), outputs_single, "the closure within a step differs in a field")
    if (any(outputs(2::2, :, :, :) /= -7)) error stop "the points between columns were written"

    call scattered%step(in(2:), to, stat, message)
    write (*, "(a)") trim(message)
    in(3)%values => arrays(2::2, ::2, :, 3)
    call scattered%step(in, to, stat, message)
    write (*, "(a)") trim(message)
    nullify (in(3)%values)
    call scattered%step(in, to, stat, message)
    write (*, "(a)") trim(message)
  end subroutine scatter

  subroutine compare(outputs, outputs_single, what)
    real(real64), intent(in) :: outputs(:, :, :, :)
    real(real32), intent(in) :: outputs_single(:, :, :, :)
    character(*), intent(in) :: what
    integer :: v
    do v = 1, d
      if (any(reshape(outputs(:, :, :, v), [columns]) /= closure(v, :))) error stop what
      if (any(reshape(outputs_single(:, :, :, v), [columns]) /= real(closure(v, :), real32))) error stop what
    end do
  end subroutine compare

  !> A coupler takes sections of columns, fields and variables of their own, in both precisions.
  subroutine couple_fields()
    type(mac_state) :: states(5)
    type(mac_coupler) :: couplers(5)
    type(mac_field) :: in(d), to(d)
    real(real64) :: wide(2*d, columns)
    real(real64), target :: out(0:nx + 1, 0:ny + 1, 0:nz + 1, d)
    real(real32) :: out_single(nx, ny, nz, d), columns_single(d, columns)
    integer :: k, n, v
    do k = 1, size(couplers)
      call states(k)%create(model, columns)
      call couplers(k)%create(states(k), 2*model%closure_step(), hold=mac_hold_linear)
    end do
    do v = 1, d
      field(1:nx, 1:ny, 1:nz, v) = reshape(y(v, :), [nx, ny, nz])
      in(v)%values => field(1:nx, 1:ny, 1:nz, v)
      to(v)%values => out(1:nx, 1:ny, 1:nz, v)
    end do
    do n = 1, 3
      wide(2::2, :) = y
      call couplers(1)%begin(y)
      call couplers(2)%begin(wide(2::2, :))
      call couplers(3)%begin(field(1:nx, 1:ny, 1:nz, :))
      call couplers(4)%begin(in)
      call couplers(5)%begin(real(field(1:nx, 1:ny, 1:nz, :), real32))
      call couplers(1)%closure(0.3_real64, closure)
      call couplers(2)%closure(0.3_real64, wide(2::2, :))
      if (any(wide(2::2, :) /= closure)) error stop "a coupler of sections differs"
      call couplers(3)%closure(0.3_real64, out(1:nx, 1:ny, 1:nz, :))
      do v = 1, d
        if (any(reshape(out(1:nx, 1:ny, 1:nz, v), [columns]) /= closure(v, :))) error stop "a coupler of fields differs"
      end do
      out = -7
      call couplers(4)%closure(0.3_real64, to)
      call couplers(5)%closure(0.3_real64, out_single)
      call couplers(5)%closure(0.3_real64, columns_single)
      if (any(columns_single /= real(closure, real32))) error stop "a coupler in single precision differs"
      do v = 1, d
        if (any(reshape(out(1:nx, 1:ny, 1:nz, v), [columns]) /= closure(v, :))) &
          error stop "a coupler of variables of their own differs"
        if (any(reshape(out_single(:, :, :, v), [columns]) /= real(closure(v, :), real32))) &
          error stop "a coupler of fields in single precision differs"
      end do
      if (count(out == -7) /= size(out) - columns*d) error stop "a coupler wrote the halo"
    end do
    call couplers(1)%free()
    call couplers(1)%begin(in, stat, message)
    write (*, "(a)") trim(message)
  end subroutine couple_fields

  !> Predictions at every other host step, the line through the last two in between, and a restart.
  subroutine couple()
    type(mac_state) :: plain, coupled, again
    type(mac_coupler) :: coupler, resumed
    real(real64) :: half, expected(d, columns), got(d, columns)
    real(real64), allocatable :: numbers(:)
    integer :: n
    half = model%closure_step()/2
    call plain%create(model, columns)
    call coupled%create(model, columns)
    call again%create(model, columns)
    call coupler%create(coupled, half, hold=mac_hold_linear)
    call resumed%create(again, half, hold=mac_hold_linear)
    if (coupler%host_steps() /= 2 .or. coupler%closure_steps() /= 1) error stop "the steps of a coupler"
    do n = 0, 5
      call coupler%begin(y*cos(0.1_real64*n))
      if (mod(n, 2) == 0) call plain%step(y*cos(0.1_real64*n), expected)
      call plain%closure_at(mac_hold_linear, mod(n, 2)*0.5_real64 + 0.25_real64, expected)
      call coupler%closure(0.5_real64, got)
      if (any(got /= expected)) error stop "a coupler differs from the steps it stands for"
    end do
    call coupler%save(numbers)
    again = coupled  ! another handle: the coupler is made for it anew
    call resumed%create(again, half, hold=mac_hold_linear)
    call resumed%restore(numbers)
    call coupler%begin(y)
    call resumed%begin(y)
    call coupler%closure(0.7_real64, expected)
    call resumed%closure(0.7_real64, got)
    if (any(got /= expected)) error stop "a coupler does not go on from what was saved"
    call resumed%restore(numbers(2:), stat, message)
    write (*, "(a)") trim(message)
    call resumed%begin(y(:, 2:), stat, message)
    write (*, "(a)") trim(message)
    call resumed%create(again, 0.75_real64*half, stat=stat, errmsg=message)
    if (stat /= mac_invalid_argument) error stop "steps that do not fit are not refused"
    write (*, "(a)") trim(message)
    call coupler%free()
    call coupler%begin(y, stat, message)
    write (*, "(a)") trim(message)
  end subroutine couple

end program fields_fortran
