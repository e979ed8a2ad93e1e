! Burgers' equation reduced to three Fourier modes, for any number of columns:
!
!   d theta_k/dt = -ik/2 sum_{p+q=k, |p|,|q|<=3} theta_p theta_q - nu k^2 theta_k,   theta = phi + i psi
!
! y(:, column) = phi_1 phi_2 phi_3 psi_1 psi_2 psi_3.
module burgers
  use, intrinsic :: iso_fortran_env, only: real64
  use mac
  implicit none
  private
  public :: modes, variables, advance, check_model

  integer, parameter :: modes = 3, variables = 2*modes
  real(real64), parameter :: nu = 0.1_real64

contains

  pure function reduced_rhs(y) result(rate)
    real(real64), intent(in) :: y(variables)
    real(real64) :: rate(variables)
    complex(real64) :: theta(-2*modes:2*modes), rate_k
    integer :: k
    theta = 0
    theta(1:modes) = cmplx(y(:modes), y(modes + 1:), real64)
    theta(-modes:-1) = conjg(theta(modes:1:-1))
    do k = 1, modes
      rate_k = cmplx(0, -0.5_real64*k, real64)*sum(theta(-modes:modes)*theta(k + modes:k - modes:-1)) &
               - nu*k**2*theta(k)
      rate(k) = rate_k%re
      rate(modes + k) = rate_k%im
    end do
  end function reduced_rhs

  !> One closure step of all columns by classical RK4: the state predicts the closure once, from y, and gives it
  !> at the stages as the model's hold asks.
  subroutine advance(state, hold, dt, y)
    type(mac_state), intent(inout) :: state
    integer, intent(in) :: hold
    real(real64), intent(in) :: dt
    real(real64), intent(inout) :: y(:, :)
    real(real64), parameter :: a(4) = [0.0_real64, 0.5_real64, 0.5_real64, 1.0_real64], &
                               b(4) = [1/6.0_real64, 1/3.0_real64, 1/3.0_real64, 1/6.0_real64]
    real(real64), dimension(variables, size(y, 2)) :: stage, rate, closure, total
    integer :: i, column
    call state%step(y, closure)
    total = 0
    stage = y
    do i = 1, 4
      if (i > 1) stage = y + a(i)*dt*rate
      call state%closure_at(hold, a(i), closure)
      do column = 1, size(y, 2)
        rate(:, column) = reduced_rhs(stage(:, column)) + closure(:, column)
      end do
      total = total + b(i)*rate
    end do
    y = y + dt*total
  end subroutine advance

  subroutine check_model(model)
    type(mac_model), intent(in) :: model
    if (model%system() /= "burgers" .or. model%inputs() /= variables) &
      error stop "the model is not a closure for three modes of Burgers' equation"
  end subroutine check_model

end module burgers
