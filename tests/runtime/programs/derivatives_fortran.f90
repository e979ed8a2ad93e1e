! derivatives_fortran MODEL: the dot-product test of a step and of a window, and a Taylor test, from Fortran. Prints the
! relative differences; stops with 1 where one is too large.
program derivatives_fortran
  use, intrinsic :: iso_fortran_env, only: real64, error_unit
  use mac
  implicit none
  integer, parameter :: columns = 3, window = 8
  type(mac_model) :: model
  type(mac_state) :: state, moved
  type(mac_tape) :: tape
  character(1000) :: path
  character(200) :: message
  integer :: d, m, t, stat
  real(real64), allocatable :: y(:, :), dy(:, :), gclosure(:, :), gy(:, :), dclosure(:, :), closure(:, :), wide(:, :)
  real(real64), allocatable :: memory(:, :), dmemory(:, :), gmemory(:, :), d_first(:, :), g_last(:, :), jacobian(:, :, :)
  real(real64) :: left, right, slope, up, down
  real(real64), parameter :: h = 1e-5_real64

  call get_command_argument(1, path)
  call model%open(trim(path), precision=mac_float64)
  call state%create(model, columns)
  d = model%inputs()
  m = state%memory_size()
  allocate (y(d, columns), dy(d, columns), gclosure(d, columns), gy(d, columns), dclosure(d, columns), &
            closure(d, columns), wide(2*d, columns), memory(m, columns), dmemory(m, columns), gmemory(m, columns), &
            d_first(m, columns), g_last(m, columns), jacobian(d, d, columns))
  call fill(y, 1); call fill(dy, 2); call fill(gclosure, 3); call fill(d_first, 4); call fill(g_last, 5)
  do t = 1, 3
    call state%step(y, closure)
  end do
  call state%get_memory(memory)

  ! One step; the tangent in sections of a wider array.
  dmemory = d_first
  wide(::2, :) = dy
  wide(2::2, :) = 0
  call state%step_tangent(y, dy, dmemory, dclosure)
  left = sum(dclosure*gclosure) + sum(dmemory*g_last)
  gmemory = g_last
  call state%step_adjoint(y, gclosure, gmemory, gy)
  right = sum(gy*dy) + sum(gmemory*d_first)
  call verify("dot product", left, right, 1e-12_real64)
  call state%step_tangent(y, wide(::2, :), dmemory, dclosure, stat, message)
  if (stat /= mac_invalid_argument) error stop "strides that differ are not refused"
  write (*, "(a)") trim(message)

  ! Along the direction with differences of steps.
  up = weighed(h)
  down = weighed(-h)
  call verify("differences", (up - down)/(2*h), left, 1e-7_real64)

  ! The Jacobian along dy, no memory moved.
  call state%step_jacobian(y, jacobian)
  dmemory = 0
  call state%step_tangent(y, dy, dmemory, dclosure)
  right = 0
  do t = 1, columns
    right = right + dot_product(matmul(dy(:, t), jacobian(:, :, t)), gclosure(:, t))
  end do
  call verify("jacobian", right, sum(dclosure*gclosure), 1e-12_real64)

  ! A window with y fixed: the memory carries everything.
  call tape%create(model, columns, window)
  moved = state
  do t = 1, window
    call tape%step(moved, y, closure)
  end do
  dmemory = d_first
  left = 0
  do t = 1, tape%steps()
    call tape%tangent(t, dy, dmemory, dclosure)
    left = left + sum(dclosure*gclosure)
  end do
  gmemory = 0
  right = 0
  do t = window, 1, -1
    call tape%adjoint(t, gclosure, gmemory, gy)
    right = right + sum(gy*dy)
  end do
  right = right + sum(gmemory*d_first)
  call verify("window", left, right, 1e-12_real64)
  call tape%adjoint(window + 1, gclosure, gmemory, gy, stat, message)
  if (stat /= mac_invalid_argument) error stop "a step that is not on the tape is not refused"
  write (*, "(a)") trim(message)

contains

  !> gclosure and g_last weighed against a step from a point h along the direction.
  real(real64) function weighed(along)
    real(real64), intent(in) :: along
    real(real64) :: after(m, columns)
    moved = state
    call moved%set_memory(memory + along*d_first)
    call moved%step(y + along*dy, closure)
    call moved%get_memory(after)
    weighed = sum(closure*gclosure) + sum(after*g_last)
  end function weighed

  subroutine verify(name, one, other, tolerance)
    character(*), intent(in) :: name
    real(real64), intent(in) :: one, other, tolerance
    slope = abs(one - other)/(abs(other) + 1)
    write (*, "(a, es10.2)") name, slope
    if (slope > tolerance) then
      write (error_unit, *) name, one, other
      error stop 1
    end if
  end subroutine verify

  subroutine fill(array, seed)
    real(real64), intent(out) :: array(:, :)
    integer, intent(in) :: seed
    integer :: i, j
    do j = 1, size(array, 2)
      do i = 1, size(array, 1)
        array(i, j) = sin(real(seed*7 + i*3 + j*11, real64))
      end do
    end do
  end subroutine fill

end program derivatives_fortran
