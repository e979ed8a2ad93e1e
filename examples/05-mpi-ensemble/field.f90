! field MODEL NX NY STEPS [RESTART]: one field on a periodic grid of NX x NY sites, cut into blocks, one a rank. At every
! site live three modes of Burgers' equation with their closure, and neighbours exchange them by diffusion:
!
!   dy_ij/dt = R(y_ij) + C_ij + kappa (y_i-1,j + y_i+1,j + y_i,j-1 + y_i,j+1 - 4 y_ij)
!
! After each closure step the ranks send their outermost sites to their neighbours (a halo of one site on every side).
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
  type(MPI_Comm) :: grid
  real(real64), allocatable :: y(:, :, :)  ! (variables, 0:width+1, 0:height+1): this rank's sites and the halo
  real(real64), allocatable :: columns(:, :)  ! (variables, sites of this rank)
  integer, allocatable :: numbers(:)  ! of this rank's sites on the whole grid, in the order of columns
  character(508) :: message
  character(300) :: path, restart
  integer :: rank, ranks, extent(2), steps, blocks(2), place(2), before(2), width, height, i, j, n, status, v

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, path)
  extent = [whole_number(2), whole_number(3)]
  steps = whole_number(4)
  call get_command_argument(5, restart)

  ! Blocks as square as may be: 2 x 2 for 4 ranks, 7 x 1 for 7. This rank's begins behind `before` sites.
  blocks = 0
  call MPI_Dims_create(ranks, 2, blocks)
  if (any(extent < blocks)) call give_up("there must be a site for every rank, along x and along y")
  call MPI_Cart_create(MPI_COMM_WORLD, 2, blocks, [.true., .true.], .false., grid)
  call MPI_Cart_coords(grid, rank, 2, place)
  before = extent*place/blocks
  width = extent(1)*(place(1) + 1)/blocks(1) - before(1)
  height = extent(2)*(place(2) + 1)/blocks(2) - before(2)
  numbers = [((before(1) + i + extent(1)*(before(2) + j - 1), i=1, width), j=1, height)]

  call model%open(path, stat=status, errmsg=message)
  if (status /= mac_ok) call give_up(trim(message))
  call check_model(model)
  allocate (y(variables, 0:width + 1, 0:height + 1), columns(variables, width*height), source=0.0_real64)
  call state%create(model, size(numbers))
  if (restart == "") then
    do n = 1, size(numbers)
      columns(modes + 1, n) = -0.5_real64*(1 + 0.3_real64*sin(real(numbers(n), real64)))  ! A sin x, A around 1
      columns(1, n) = 0.1_real64*cos(3*real(numbers(n), real64))
    end do
  else
    call each_site(restart, reading=.true.)
  end if

  do n = 1, steps
    call advance(state, model%hold(), model%closure_step(), columns)
    y(:, 1:width, 1:height) = reshape(columns, [variables, width, height])
    call exchange_halo()
    do j = 1, height
      do i = 1, width
        columns(:, i + width*(j - 1)) = y(:, i, j) + model%closure_step()*kappa* &
                                        (y(:, i - 1, j) + y(:, i + 1, j) + y(:, i, j - 1) + y(:, i, j + 1) - 4*y(:, i, j))
      end do
    end do
  end do

  call each_site("field.restart", reading=.false.)
  call print_means()
  call MPI_Finalize()

contains

  integer function whole_number(argument)
    integer, intent(in) :: argument
    character(20) :: text
    integer :: failed
    call get_command_argument(argument, text)
    read (text, *, iostat=failed) whole_number
    if (failed /= 0) call give_up("expected MODEL NX NY STEPS [RESTART]")
  end function whole_number

  !> The first and last sites along x, then those along y, to the neighbours there. Sections that do not lie in one piece
  !> are copied by the compiler.
  subroutine exchange_halo()
    integer :: lower, upper
    call MPI_Cart_shift(grid, 0, 1, lower, upper)
    call swap(y(:, width, 1:height), upper, y(:, 0, 1:height), lower)
    call swap(y(:, 1, 1:height), lower, y(:, width + 1, 1:height), upper)
    call MPI_Cart_shift(grid, 1, 1, lower, upper)
    call swap(y(:, 1:width, height), upper, y(:, 1:width, 0), lower)
    call swap(y(:, 1:width, 1), lower, y(:, 1:width, height + 1), upper)
  end subroutine exchange_halo

  subroutine swap(to_send, destination, received, source)
    real(real64), contiguous, intent(in) :: to_send(:, :)
    real(real64), contiguous, intent(inout) :: received(:, :)
    integer, intent(in) :: destination, source
    call MPI_Sendrecv(to_send, size(to_send), MPI_DOUBLE_PRECISION, destination, 0, &
                      received, size(received), MPI_DOUBLE_PRECISION, source, 0, grid, MPI_STATUS_IGNORE)
  end subroutine swap

  !> Reads or writes a record of every site: y, then what the state saves of its column. Records lie in the order of
  !> sites, so the file does not know how many ranks wrote it.
  subroutine each_site(name, reading)
    character(*), intent(in) :: name
    logical, intent(in) :: reading
    type(MPI_File) :: file
    integer(int8), allocatable :: memory(:), record(:)
    integer(MPI_OFFSET_KIND) :: at
    integer :: column, bytes_of_y, failed
    bytes_of_y = variables*storage_size(1.0_real64)/8
    call MPI_File_open(MPI_COMM_WORLD, trim(name), merge(MPI_MODE_RDONLY, MPI_MODE_WRONLY + MPI_MODE_CREATE, reading), &
                       MPI_INFO_NULL, file, failed)
    if (failed /= MPI_SUCCESS) call give_up(trim(name)//": cannot be opened")
    do column = 1, size(numbers)
      call state%save_columns([column], memory)
      allocate (record(bytes_of_y + size(memory)))
      at = int(numbers(column) - 1, MPI_OFFSET_KIND)*size(record)
      if (reading) then
        call MPI_File_read_at(file, at, record, size(record), MPI_BYTE, MPI_STATUS_IGNORE)
        columns(:, column) = transfer(record(:bytes_of_y), columns(:, column))
        call state%restore_columns(record(bytes_of_y + 1:), [1], [column], stat=status, errmsg=message)
        if (status /= mac_ok) call give_up(trim(name)//": "//trim(message))
      else
        record = [transfer(columns(:, column), record), memory]
        call MPI_File_write_at(file, at, record, size(record), MPI_BYTE, MPI_STATUS_IGNORE)
      end if
      deallocate (record)
    end do
    call MPI_File_close(file)
  end subroutine each_site

  !> Rank 0 puts all sites in the order of the grid, so that the sums have one, too.
  subroutine print_means()
    real(real64), allocatable :: gathered(:, :), sites(:, :)
    integer, allocatable :: counts(:), starts(:), places(:)
    allocate (counts(ranks), starts(ranks), places(product(extent)), gathered(variables, product(extent)))
    call MPI_Allgather(size(numbers), 1, MPI_INTEGER, counts, 1, MPI_INTEGER, MPI_COMM_WORLD)
    starts = [(sum(counts(:n - 1)), n=1, ranks)]
    call MPI_Gatherv(numbers, size(numbers), MPI_INTEGER, places, counts, starts, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call MPI_Gatherv(columns, size(columns), MPI_DOUBLE_PRECISION, gathered, variables*counts, variables*starts, &
                     MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD)
    if (rank /= 0) return
    allocate (sites, mold=gathered)
    sites(:, places) = gathered
    print "(i0, ' x ', i0, ' sites')", extent
    print "(a8, ' mean ', es24.16, '  first ', es24.16)", &
      (model%input_name(v), sum(sites(v, :))/product(extent), sites(v, 1), v=1, variables)
  end subroutine print_means

  subroutine give_up(sentence)
    character(*), intent(in) :: sentence
    if (rank == 0) write (error_unit, "(2a)") "field: ", sentence
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine give_up

end program field
