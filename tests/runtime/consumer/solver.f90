! The same in Fortran.
program solver
  use, intrinsic :: iso_fortran_env, only: real64
  use mac
  implicit none
  type(mac_model) :: model
  type(mac_state) :: state
  real(real64), allocatable :: y(:), closure(:)
  character(300) :: path
  call get_command_argument(1, path)
  call model%open(path)
  call state%create(model)
  allocate (y(model%inputs()), closure(model%outputs()))
  y = 0
  y(1) = 0.1_real64
  call state%step(y, closure)
  print "(es24.16e3)", closure(1)
end program solver
