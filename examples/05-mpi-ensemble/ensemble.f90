! ensemble MODEL MEMBERS: an ensemble of Burgers' equation with a closure, spread over the ranks of MPI. Every rank
! opens the model for itself and advances its members as the columns of one state; rank 0 gathers them. The output
! does not depend on the number of ranks.
program ensemble
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use burgers, only: advance, check_model, modes, variables
  use mac
  implicit none
  type(mac_model) :: model
  type(mac_state) :: state
  real(real64), allocatable :: y(:, :), all_members(:, :)
  integer, allocatable :: counts(:), starts(:)
  real(real64) :: mean(variables), spread(variables)
  character(508) :: message
  character(300) :: path, text
  integer :: rank, ranks, members, first, last, member, n, status, v

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, path)
  call get_command_argument(2, text)
  read (text, *) members
  if (members < ranks) call give_up("there must be a member for every rank")

  call model%open(path, stat=status, errmsg=message)
  if (status /= mac_ok) call give_up(trim(message))
  call check_model(model)

  ! Members first..last belong to this rank.
  starts = [(members*n/ranks, n=0, ranks - 1)]
  counts = [(members*(n + 1)/ranks, n=0, ranks - 1)] - starts
  first = starts(rank + 1) + 1
  last = starts(rank + 1) + counts(rank + 1)
  allocate (y(variables, first:last))
  do member = first, last
    y(:, member) = 0
    y(modes + 1, member) = -0.5_real64*(1 + 0.2_real64*sin(real(member, real64)))  ! A sin x, A around 1
    y(1, member) = 0.1_real64*cos(3*real(member, real64))
  end do

  call state%create(model, size(y, 2))
  do n = 1, nint(2/model%closure_step())
    call advance(state, model%hold(), model%closure_step(), y)
  end do

  allocate (all_members(variables, merge(members, 0, rank == 0)))
  call MPI_Gatherv(y, size(y), MPI_DOUBLE_PRECISION, all_members, variables*counts, variables*starts, &
                   MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
  if (rank == 0) then
    mean = sum(all_members, dim=2)/members
    spread = sqrt([(sum((all_members(v, :) - mean(v))**2)/members, v=1, variables)])
    print "(i0, ' members at t = 2')", members
    print "(a8, ' mean ', f12.8, '  spread ', f12.8)", (model%input_name(v), mean(v), spread(v), v=1, variables)
  end if
  call MPI_Finalize()

contains

  subroutine give_up(sentence)
    character(*), intent(in) :: sentence
    if (rank == 0) write (error_unit, "(2a)") "ensemble: ", sentence
    call MPI_Finalize()
    stop 1
  end subroutine give_up

end program ensemble
