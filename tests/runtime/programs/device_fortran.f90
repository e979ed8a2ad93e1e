! device_fortran MODEL COLUMNS: 20 steps on the device, through addresses that C gave, and on the CPU; then the state goes
! from one to the other. Prints the largest difference.
program device_fortran
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int8, real32, real64
  use mac
  use mac_device
  implicit none

  interface
    integer(c_int) function cuda_malloc(pointer, bytes) bind(c, name="cudaMalloc")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(inout) :: pointer
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function cuda_memcpy(to, from, bytes, kind) bind(c, name="cudaMemcpy")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_int), value :: kind
    end function
  end interface
  call run()  ! a subroutine, so that models and states go out of scope

contains

  subroutine run()
    type(mac_model) :: model
    type(mac_state) :: on_cpu
    type(mac_device_state) :: state, turned, single
    integer(int8), allocatable :: saved(:), of_cpu(:)
    real(real64), allocatable, target :: y(:, :), expected(:, :), closure(:, :), fields(:, :), middle(:, :)
    real(real32), allocatable, target :: y_single(:, :), closure_single(:, :)
    type(c_ptr) :: at, out
    character(300) :: word, message
    integer :: columns, n, i, status
    real(real64) :: largest

    call mac_cuda_available(stat=status, errmsg=message)
    if (status /= mac_ok) then
      if (status /= mac_device_error) error stop "code"
      write (error_unit, "(a)") trim(message)
      call exit_with(1)
    end if
    call get_command_argument(2, word)
    read (word, *) columns
    call get_command_argument(1, word)
    call model%open(word, precision=mac_float32)
    call on_cpu%create(model, columns)
    call state%create(model, columns)
    call turned%create(model, columns)
    call single%create(model, columns)
    allocate (y(model%inputs(), columns), expected(model%outputs(), columns), closure(model%outputs(), columns))
    allocate (fields(columns, model%inputs()), middle(model%outputs(), columns))
    allocate (y_single(model%inputs(), columns), closure_single(model%outputs(), columns))
    if (cuda_malloc(at, int(8*size(y), c_size_t)) /= 0 .or. cuda_malloc(out, int(8*size(closure), c_size_t)) /= 0) &
      error stop "cudaMalloc"
    largest = 0
    do n = 1, 20
      y = 0.3_real64*sin(1.7_real64*reshape([(real(i, real64), i=1, size(y))], shape(y)) + 0.4_real64*n)
      call on_cpu%step(y, expected)
      call to_device(at, c_loc(y), 8*size(y))
      call state%step(at, out)
      call to_host(c_loc(closure), out, 8*size(closure))
      largest = max(largest, maxval(abs(closure - expected)))

      fields = transpose(y)  ! fields(column, variable)
      call to_device(at, c_loc(fields), 8*size(fields))
      call turned%step(at, out, y_strides=[columns, 1], stream=c_null_ptr)
      call to_host(c_loc(middle), out, 8*size(closure))
      if (any(middle /= closure)) error stop "strides"

      y_single = real(y, real32)
      call to_device(at, c_loc(y_single), 4*size(y))
      call single%step_float(at, out)
      call to_host(c_loc(closure_single), out, 4*size(closure))
      if (maxval(abs(closure_single - expected)) > 1e-4) error stop "single"
      if (n == 10) then
        call state%save(saved)
        call on_cpu%save(of_cpu)
        call on_cpu%restore(saved)
        call turned%restore(of_cpu)
        call state%restore(of_cpu)
      end if
    end do
    call on_cpu%closure_at(mac_hold_linear, 0.5_real64, expected)
    call state%closure_at(mac_hold_linear, 0.5_real64, out)
    call to_host(c_loc(closure), out, 8*size(closure))
    largest = max(largest, maxval(abs(closure - expected)))
    call state%check()

    call state%step(c_loc(y), out, stat=status, errmsg=message)
    if (status /= mac_invalid_argument .or. index(message, "y is a pointer to host memory") == 0) error stop "host pointer"
    call state%set_mask(c_null_ptr)
    call state%reset()
    if (state%columns() /= columns) error stop "columns"
    print "(es10.2)", largest
  end subroutine run

  subroutine exit_with(code)
    integer, intent(in) :: code
    stop code, quiet=.true.
  end subroutine exit_with

  subroutine to_device(to, from, bytes)
    type(c_ptr), intent(in) :: to, from
    integer, intent(in) :: bytes
    if (cuda_memcpy(to, from, int(bytes, c_size_t), 1_c_int) /= 0) error stop "cudaMemcpy"
  end subroutine to_device

  subroutine to_host(to, from, bytes)
    type(c_ptr), intent(in) :: to, from
    integer, intent(in) :: bytes
    if (cuda_memcpy(to, from, int(bytes, c_size_t), 2_c_int) /= 0) error stop "cudaMemcpy"
  end subroutine to_host

end program device_fortran
