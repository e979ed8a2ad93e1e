! step_time_fortran MODEL: nanoseconds of a step at 1, 50 and 1000 columns, the smallest of many short rounds.
program step_time
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mac
  implicit none
  integer, parameter :: batches(3) = [1, 50, 1000]
  type(mac_model) :: model
  type(mac_state) :: state
  real(real64), allocatable :: y(:, :), closure(:, :)
  real(real64) :: best
  integer(int64) :: begin, end, rate
  integer :: b, round, rounds, i, repeats, status
  character(300) :: path
  call get_command_argument(1, path)
  call model%open(path)
  call system_clock(count_rate=rate)
  do b = 1, 3
    call state%create(model, batches(b))
    allocate (y(model%inputs(), batches(b)), closure(model%outputs(), batches(b)))
    y = 0.3_real64
    best = huge(best)
    repeats = merge(50, 1, batches(b) < 50)
    rounds = merge(3000, 200, batches(b) < 1000)
    do round = 1, rounds
      call system_clock(begin)
      do i = 1, repeats
        call state%step(y, closure, stat=status)
      end do
      call system_clock(end)
      best = min(best, 1e9_real64*real(end - begin, real64)/real(rate, real64)/repeats)
    end do
    print "('Fortran ', i7, ' columns ', f12.0, ' ns')", batches(b), best
    deallocate (y, closure)
  end do
end program step_time
