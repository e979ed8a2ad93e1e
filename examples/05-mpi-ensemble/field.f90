! field MODEL SITES STEPS [RESTART]: one field on a ring of sites, cut into sub-domains, one a rank. At every site
! live three modes of Burgers' equation with their closure, and neighbours exchange them by diffusion:
!
!   dy_s/dt = R(y_s) + C_s + kappa (y_{s-1} - 2 y_s + y_{s+1})
!
! After each closure step the ranks send their outermost sites to their neighbours (a halo of one site on either side).
! The field and the memory of every site's closure are written to field.restart; a run from RESTART goes on to the same
! bytes, on any number of ranks.
program field
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, int64, real64
  use mpi_f08
  use burgers, only: advance, check_model, modes, variables
  use mac
  implicit none
  real(real64), parameter :: kappa = 0.5_real64
  type(mac_model) :: model
  type(mac_state) :: state
  real(real64), allocatable :: y(:, :)  ! (variables, first-1:last+1): this rank's sites and the halo
  character(508) :: message
  character(300) :: path, text, restart
  integer :: rank, ranks, sites, steps, first, last, site, n, status, left, right, v

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, path)
  call get_command_argument(2, text)
  read (text, *) sites
  call get_command_argument(3, text)
  read (text, *) steps
  call get_command_argument(4, restart)
  if (sites < ranks) call give_up("there must be a site for every rank")

  call model%open(path, stat=status, errmsg=message)
  if (status /= mac_ok) call give_up(trim(message))
  call check_model(model)

  ! Sites first..last belong to this rank.
  first = sites*rank/ranks + 1
  last = sites*(rank + 1)/ranks
  left = modulo(rank - 1, ranks)
  right = modulo(rank + 1, ranks)
  allocate (y(variables, first - 1:last + 1), source=0.0_real64)
  call state%create(model, last - first + 1)
  if (restart == "") then
    do site = first, last
      y(modes + 1, site) = -0.5_real64*(1 + 0.3_real64*sin(8*atan(1.0_real64)*site/sites))  ! A sin x, A around 1
      y(1, site) = 0.1_real64*cos(3*real(site, real64))
    end do
  else
    call each_site(restart, reading=.true.)
  end if

  do n = 1, steps
    call advance(state, model%hold(), model%closure_step(), y(:, first:last))
    call exchange_halo()
    ! All neighbours are of the same time: a copy of the site on the left is taken before it changes.
    y(:, first:last) = y(:, first:last) + model%closure_step()*kappa* &
                       (y(:, first - 1:last - 1) - 2*y(:, first:last) + y(:, first + 1:last + 1))
  end do

  call each_site("field.restart", reading=.false.)
  call print_means()
  call MPI_Finalize()

contains

  subroutine exchange_halo()
    call MPI_Sendrecv(y(:, last), variables, MPI_DOUBLE_PRECISION, right, 0, &
                      y(:, first - 1), variables, MPI_DOUBLE_PRECISION, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(y(:, first), variables, MPI_DOUBLE_PRECISION, left, 1, &
                      y(:, last + 1), variables, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine exchange_halo

  !> Reads or writes a record of every site: y, then what the state saves of its column. Records lie in the order of
  !> sites, so the file does not know how many ranks wrote it.
  subroutine each_site(name, reading)
    character(*), intent(in) :: name
    logical, intent(in) :: reading
    type(MPI_File) :: file
    integer(int8), allocatable :: memory(:), record(:)
    integer(MPI_OFFSET_KIND) :: at
    integer :: s, column, bytes_of_y, failed
    bytes_of_y = variables*storage_size(1.0_real64)/8
    call MPI_File_open(MPI_COMM_WORLD, trim(name), merge(MPI_MODE_RDONLY, MPI_MODE_WRONLY + MPI_MODE_CREATE, reading), &
                       MPI_INFO_NULL, file, failed)
    if (failed /= MPI_SUCCESS) call give_up(trim(name)//": cannot be opened")
    do s = first, last
      column = s - first + 1
      call state%save_columns([column], memory)
      allocate (record(bytes_of_y + size(memory)))
      at = int(s - 1, MPI_OFFSET_KIND)*size(record)
      if (reading) then
        call MPI_File_read_at(file, at, record, size(record), MPI_BYTE, MPI_STATUS_IGNORE)
        y(:, s) = transfer(record(:bytes_of_y), y(:, s))
        call state%restore_columns(record(bytes_of_y + 1:), [1], [column], stat=status, errmsg=message)
        if (status /= mac_ok) call give_up(trim(name)//": "//trim(message))
      else
        record = [transfer(y(:, s), record), memory]
        call MPI_File_write_at(file, at, record, size(record), MPI_BYTE, MPI_STATUS_IGNORE)
      end if
      deallocate (record)
    end do
    call MPI_File_close(file)
  end subroutine each_site

  !> Rank 0 has all sites in their order, so that the sums have one, too.
  subroutine print_means()
    real(real64), allocatable :: all_sites(:, :)
    integer, allocatable :: starts(:), counts(:)
    starts = [(sites*n/ranks, n=0, ranks - 1)]
    counts = [(sites*(n + 1)/ranks, n=0, ranks - 1)] - starts
    allocate (all_sites(variables, merge(sites, 0, rank == 0)))
    call MPI_Gatherv(y(:, first:last), size(y(:, first:last)), MPI_DOUBLE_PRECISION, all_sites, variables*counts, &
                     variables*starts, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
    if (rank /= 0) return
    print "(i0, ' sites')", sites
    print "(a8, ' mean ', es24.16, '  first ', es24.16)", &
      (model%input_name(v), sum(all_sites(v, :))/sites, all_sites(v, 1), v=1, variables)
  end subroutine print_means

  subroutine give_up(sentence)
    character(*), intent(in) :: sentence
    if (rank == 0) write (error_unit, "(2a)") "field: ", sentence
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine give_up

end program field
