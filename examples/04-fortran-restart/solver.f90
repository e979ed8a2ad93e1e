! solver MODEL STEPS RESTART: advances Burgers' equation (burgers.f90) by STEPS closure steps, from sin x, or from
! where the file RESTART says that an earlier run stopped; leaves there where this one stops. A run in pieces gives
! the bits of the run in one.
program solver
  use, intrinsic :: iso_fortran_env, only: int8, real64
  use burgers, only: advance, check_model, modes, variables
  use mac
  implicit none
  type(mac_model) :: model
  type(mac_state) :: state
  real(real64) :: y(variables, 1), time
  character(300) :: model_path, steps_text, restart_path
  integer :: steps, n
  logical :: restarted

  if (command_argument_count() /= 3) error stop "usage: solver MODEL STEPS RESTART"
  call get_command_argument(1, model_path)
  call get_command_argument(2, steps_text)
  call get_command_argument(3, restart_path)
  read (steps_text, *) steps

  call model%open(model_path)
  call check_model(model)
  call state%create(model)
  inquire (file=restart_path, exist=restarted)
  if (restarted) then
    call read_restart()
  else
    y = 0
    y(modes + 1, 1) = -0.5_real64  ! sin x
  end if

  do n = 1, steps
    call advance(state, model%hold(), model%closure_step(), y)
  end do
  time = model%closure_step()*real(state%steps(), real64)
  print "('t = ', f0.4, ', psi = ', 3es25.16)", time, y(modes + 1:, 1)
  call write_restart()

contains

  !> The solver's own state, then the closure's memory.
  subroutine write_restart()
    integer(int8), allocatable :: memory(:)
    integer :: unit
    call state%save(memory)
    open (newunit=unit, file=restart_path, access="stream", form="unformatted", status="replace")
    write (unit) y, size(memory), memory
    close (unit)
  end subroutine write_restart

  subroutine read_restart()
    integer(int8), allocatable :: memory(:)
    integer :: unit, bytes
    open (newunit=unit, file=restart_path, access="stream", form="unformatted", status="old")
    read (unit) y, bytes
    allocate (memory(bytes))
    read (unit) memory
    close (unit)
    call state%restore(memory)  ! refused where it belongs to another model
  end subroutine read_restart

end program solver
