! fields_fortran MODEL: fields (nx, ny, nz, variable) with a halo, in both precisions, step as columns do; columns rest;
! limits count; a coupler steps for a host whose step is half of the closure's. Stops with a message where something differs.
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
  real(real64), allocatable :: field(:, :, :, :), out(:, :, :, :), y(:, :), closure(:, :)
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

  call grid%set_limits(inputs=mac_limit_clip, margin=0.1_real64)
  field(1, 1, 1, 2) = 5
  call grid%step(field(1:nx, 1:ny, 1:nz, :), out(1:nx, 1:ny, 1:nz, :))
  seen = grid%diagnostics(1)
  if (seen%inputs_outside /= 1 .or. seen%changed /= 1) error stop "the counters of column 1"
  seen = grid%diagnostics(2)
  if (seen%inputs_outside /= 0 .or. seen%steps /= 1) error stop "the counters of column 2"
  call grid%clear_limits()
  call couple()

contains

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
