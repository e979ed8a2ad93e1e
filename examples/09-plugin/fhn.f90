! The ring of experiments/equations/fitzhugh_nagumo.toml as a plug-in in Fortran (mac/plugin.h):
!
!   dv_i/dt = v_i - v_i^3/3 - w_i + I + D (v_{i-1} - 2 v_i + v_{i+1})      resolved
!   dw_i/dt = (v_i + a - b w_i)/tau                                        hidden, 0 in the reduced model
module fhn
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 8
  character(len=*), parameter :: lines = 'name = "fhn_fortran"' // c_new_line // &
    'resolved = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"]' // c_new_line // &
    'size = 16' // c_new_line // &
    'parameters = ["D", "I", "a", "b", "tau"]' // c_new_line // &
    'defaults = [0.1, 0.5, 0.7, 0.8, 12.5]' // c_new_line // &
    'random = 16' // c_new_line // 'warmup_steps = 2000' // c_new_line // c_null_char
  character(kind=c_char, len=len(lines)), target :: description = lines
contains
  integer(c_int) function mac_plugin_version() bind(c)
    mac_plugin_version = 1
  end function

  type(c_ptr) function mac_plugin_system() bind(c)
    mac_plugin_system = c_loc(description)
  end function

  subroutine mac_reduced_rhs(p, v, rate) bind(c)
    real(c_double), intent(in) :: p(5), v(n)
    real(c_double), intent(out) :: rate(n)
    rate = v - v**3/3 + p(2) + p(1)*(cshift(v, -1) - 2*v + cshift(v, 1))
  end subroutine

  subroutine mac_full_rhs(p, z, rate) bind(c)
    real(c_double), intent(in) :: p(5), z(2*n)
    real(c_double), intent(out) :: rate(2*n)
    call mac_reduced_rhs(p, z(:n), rate(:n))
    rate(:n) = rate(:n) - z(n+1:)
    rate(n+1:) = (z(:n) + p(3) - p(4)*z(n+1:))/p(5)
  end subroutine

  subroutine mac_sample(p, uniform, z) bind(c)
    real(c_double), intent(in) :: p(5), uniform(2*n)
    real(c_double), intent(out) :: z(2*n)
    z(:n) = -2 + 4*uniform(:n)
    z(n+1:) = -0.5d0 + 2*uniform(n+1:)
  end subroutine
end module
