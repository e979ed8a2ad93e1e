! steps_fortran MODEL INPUT OUTPUT COLUMNS STOP LAYOUT: one step for every (inputs, columns) of INPUT, raw doubles;
! the closures go to OUTPUT. After STOP steps the state is saved, and a copy of one that was restored goes on from
! there. LAYOUT is double, section (an array section that is not contiguous), column (rank 1; one column) or single.
program steps_fortran
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use mac
  implicit none
  call run()  ! a subroutine, so that models and states go out of scope

contains

  subroutine run()
    type(mac_model) :: model
    type(mac_state) :: state, other, copied
    integer(int8), allocatable :: saved(:)
    real(real64), allocatable :: y(:, :), closure(:, :), wide(:, :), wide_closure(:, :)
    real(real32), allocatable :: y_single(:, :), closure_single(:, :)
    character(200) :: path, layout
    integer :: columns, stop_at, in, out, n, k, status

    call get_command_argument(4, path)
    read (path, *) columns
    call get_command_argument(5, path)
    read (path, *) stop_at
    call get_command_argument(6, layout)
    call get_command_argument(2, path)
    open (newunit=in, file=trim(path), access="stream", form="unformatted", status="old")
    call get_command_argument(3, path)
    open (newunit=out, file=trim(path), access="stream", form="unformatted", status="replace")
    call get_command_argument(1, path)
    call model%open(path)
    if (model%closure_target(2) /= 2 .or. model%closure_target(99) /= 0) error stop "closure_target"
    call state%create(model, columns)
    if (model%noise() > 0) call state%seed(17_int64, [(int(k, int64), k=0, columns - 1)])
    allocate (y(model%inputs(), columns), closure(model%outputs(), columns))
    allocate (wide(2*model%inputs(), 3*columns), wide_closure(3*model%outputs(), 2*columns))
    n = 0
    do
      if (n == stop_at) then
        call state%save(saved)
        call state%free()
        call other%create(model, columns)
        call other%restore_columns(saved, [(k, k=1, columns)], [(k, k=1, columns)])
        call copied%create(model, columns)
        call copied%copy(other)
        call copied%reset_columns([columns])
        call copied%copy_columns(other, [columns], [columns])
        state = copied
      end if
      read (in, iostat=status) y
      if (status /= 0) exit
      select case (layout)
      case ("double")
        call state%step(y, closure)
      case ("section")
        wide(2::2, 3*columns:1:-3) = y
        call state%step(wide(2::2, 3*columns:1:-3), wide_closure(3::3, ::2))
        closure = wide_closure(3::3, ::2)
      case ("column")
        call state%step(y(:, 1), closure(:, 1))
      case ("single")
        y_single = real(y, real32)
        closure_single = real(closure, real32)
        call state%step(y_single, closure_single)
        closure = real(closure_single, real64)
      end select
      write (out) closure
      n = n + 1
    end do
  end subroutine run

end program steps_fortran
