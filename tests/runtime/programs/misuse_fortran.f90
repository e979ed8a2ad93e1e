! misuse_fortran MODEL OTHER TEXT: every wrong use prints its status and message. MODEL and OTHER are two models
! of six variables, TEXT is a file that is no model.
program misuse_fortran
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_fortran_env, only: int8, real64
  use mac
  implicit none
  type(mac_model) :: model, other, none
  type(mac_state) :: state, foreign, empty
  integer(int8), allocatable :: saved(:)
  real(real64) :: y(6, 3), closure(6, 3)
  character(508) :: message
  character(300) :: argument(3)
  integer :: status, i

  do i = 1, 3
    call get_command_argument(i, argument(i))
  end do
  call none%open("missing.safetensors", stat=status, errmsg=message)
  call show("missing")
  call none%open(argument(3), stat=status, errmsg=message)
  call show("foreign")
  call none%open(argument(1), precision=7, stat=status, errmsg=message)
  call show("precision")
  call state%create(none, 3, stat=status, errmsg=message)
  call show("null model")
  call empty%step(y, closure, stat=status, errmsg=message)
  call show("null state")
  call empty%save(saved, stat=status, errmsg=message)
  call show("null save")

  call model%open(argument(1))
  call other%open(argument(2))
  call state%create(model, -1, stat=status, errmsg=message)
  call show("columns")
  call state%create(model, 3)
  y = 0
  call state%step(y(:, 1:2), closure, stat=status, errmsg=message)
  call show("shape")
  call state%step(y, closure(1:5, :), stat=status, errmsg=message)
  call show("closure shape")
  y(2, 3) = ieee_value(y(2, 3), ieee_quiet_nan)
  call state%step(y, closure, stat=status, errmsg=message)
  call show("nan")
  call foreign%create(other, 3)
  call foreign%save(saved)
  call state%restore(saved, stat=status, errmsg=message)
  call show("another model")
  call state%restore(saved(1:20), stat=status, errmsg=message)
  call show("short")
  call state%step(y, closure)  ! without stat the program stops with the message

contains

  subroutine show(case)
    character(*), intent(in) :: case
    print "(a, ' | ', i0, ' | ', a)", case, status, trim(message)
    message = ""
  end subroutine show

end program misuse_fortran
