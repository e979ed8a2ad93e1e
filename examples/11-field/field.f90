! field MODEL SITES STEPS THREADS: field.c in Fortran. A thread owns a run of sites and the memory of their closures; it
! gathers the five inputs of each of them from the field, whose halo has two sites.
program field
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use omp_lib
  use mac
  implicit none
  integer, parameter :: halo = 2, inputs = 2*halo + 1
  real(real64), parameter :: force = 10
  real(real64), parameter :: a(4) = [0.0_real64, 0.5_real64, 0.5_real64, 1.0_real64]
  real(real64), parameter :: b(4) = [1, 2, 2, 1]/6.0_real64
  type(mac_model) :: model
  real(real64), allocatable :: x(:), stage(:), rate(:), total(:), closure(:, :)
  real(real64) :: dt, begin, seconds
  character(300) :: text
  integer :: sites, steps, threads, k

  if (command_argument_count() /= 4) error stop "usage: field MODEL SITES STEPS THREADS"
  call get_command_argument(2, text)
  read (text, *) sites
  call get_command_argument(3, text)
  read (text, *) steps
  call get_command_argument(4, text)
  read (text, *) threads
  if (sites < 2*inputs*threads .or. steps < 1 .or. threads < 1) error stop "field: too few sites, steps or threads"
  call get_command_argument(1, text)
  call model%open(trim(text))
  if (model%inputs() /= inputs .or. model%outputs() /= 1) error stop "field: expected a local closure of five sites"
  dt = model%closure_step()

  allocate (x(1 - halo:sites + halo), stage(1 - halo:sites + halo), rate(sites), total(sites), closure(1, sites))
  do k = 0, sites - 1
    x(k + 1) = 3 + 4*sin(0.7_real64*k)*cos(0.013_real64*real(k, real64)*real(k, real64))
  end do
  call fill_halo(x)
  begin = omp_get_wtime()
  !$omp parallel num_threads(threads)
  call advance(omp_get_thread_num())
  !$omp end parallel
  seconds = omp_get_wtime() - begin
  print "(i0, ' sites, ', i0, ' steps, ', i0, ' threads: ', es9.2, ' sites a second')", sites, steps, threads, &
    real(sites, real64)*steps/seconds
  print "('checksum ', es24.16)", sum(x(1:sites))

contains

  subroutine advance(me)
    integer, intent(in) :: me
    type(mac_state) :: state
    real(real64), allocatable :: y(:, :)
    integer :: first, last, n, i, j
    first = int(int(sites, int64)*me/threads) + 1
    last = int(int(sites, int64)*(me + 1)/threads)
    call state%create(model, last - first + 1)
    allocate (y(inputs, first:last))
    do n = 1, steps
      do j = first, last
        y(:, j) = x(j - halo:j + halo)
      end do
      call state%step(y, closure(:, first:last))
      do i = 1, 4
        if (i == 1) then
          stage(first:last) = x(first:last)
        else
          stage(first:last) = x(first:last) + a(i)*dt*rate(first:last)
        end if
        !$omp barrier
        !$omp single
        call fill_halo(stage)
        !$omp end single
        do j = first, last
          rate(j) = -stage(j - 1)*(stage(j - 2) - stage(j + 1)) - stage(j) + force + closure(1, j)
        end do
        if (i == 1) total(first:last) = 0
        total(first:last) = total(first:last) + b(i)*rate(first:last)
        !$omp barrier
      end do
      x(first:last) = x(first:last) + dt*total(first:last)
      !$omp barrier
      !$omp single
      call fill_halo(x)
      !$omp end single
    end do
  end subroutine advance

  subroutine fill_halo(u)
    real(real64), intent(inout) :: u(1 - halo:)
    u(1 - halo:0) = u(sites + 1 - halo:sites)
    u(sites + 1:sites + halo) = u(1:halo)
  end subroutine fill_halo

end program field
