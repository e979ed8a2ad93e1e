// What `mac new-system` writes: the same system four times, an oscillator of two wells that pulls at a hidden one,
//
//   dx = v,   dv = x - x^3 - d v + k p,   dp = q,   dq = x - 2.25 p - q/2          resolved: x, v
//
// @NAME@ stands for the system's name, @HEADERS@ for the folder of MAC's headers, @SYSTEM@ for the experiment's [system].
#pragma once

namespace mac::cli {

inline constexpr const char* skeleton_equations = R"toml(kind = "equations"
name = "@NAME@"
parameters = { d = 0.2, k = 0.8 }
resolved = ["x", "v"]
hidden = ["p", "q"]
reduced = { p = 0, q = 0 }
equations = """
dx = v
dv = x - x^3 - d*v + k*p
dp = q
dq = x - 2.25*p - q/2
"""
initial = { x = "uniform(-1.5, 1.5)", v = "uniform(-1, 1)", p = 0, q = 0 }
)toml";

inline constexpr const char* skeleton_plugged = R"toml(name = "@NAME@"
plugin = "lib@NAME@.so"
d = 0.2
k = 0.8
)toml";

inline constexpr const char* skeleton_experiment = R"toml(# A study of @NAME@: mac run @NAME@.toml -o run

[system]
@SYSTEM@
[data]
dt = 0.01
stride = 10
seed = 1

[data.train]
trajectories = 40
horizon = 10.0

[data.validation]
trajectories = 8
horizon = 10.0

[data.test]
trajectories = 8
horizon = 10.0

[[models]]
name = "mac"
kind = "gru"
d_model = 12
blocks = 1

[[models]]
name = "delays"
kind = "regression"
degree = 2
delays = 5

[training]
recipe = "fast"    # leave it out, and the settings are searched for
batch = 16
window = 50
steps = 300
)toml";

inline constexpr const char* skeleton_c =
    R"c(/* @NAME@ as a plug-in. Functions keep no state: they are called from several threads at once. */
#include <mac/plugin.h>

int mac_plugin_version(void) { return MAC_PLUGIN_VERSION; }

const char* mac_plugin_system(void) {
  return "name = '@NAME@'\n"
         "resolved = ['x', 'v']\n"     /* the first variables of the full state */
         "size = 4\n"                  /* numbers of the full state: x, v, p, q */
         "targets = ['v']\n"           /* whose equations have a closure */
         "parameters = ['d', 'k']\n"
         "defaults = [0.2, 0.8]\n"
         "random = 2\n";               /* numbers that mac_sample takes */
}

void mac_reduced_rhs(const double* p, const double* y, double* dydt) {
  dydt[0] = y[1];
  dydt[1] = y[0] - y[0] * y[0] * y[0] - p[0] * y[1];
}

void mac_full_rhs(const double* p, const double* z, double* dzdt) {
  mac_reduced_rhs(p, z, dzdt);
  dzdt[1] += p[1] * z[2];
  dzdt[2] = z[3];
  dzdt[3] = z[0] - 2.25 * z[2] - z[3] / 2;
}

void mac_sample(const double* p, const double* uniform, double* z) {
  (void)p;
  z[0] = 3 * uniform[0] - 1.5;
  z[1] = 2 * uniform[1] - 1;
  z[2] = z[3] = 0;
}

/* The gradient of the reduced model. It may be left out; it is compared with differences when the library is loaded. */
void mac_reduced_vjp(const double* p, const double* y, const double* adjoint, double* gradient) {
  gradient[0] = (1 - 3 * y[0] * y[0]) * adjoint[1];
  gradient[1] = adjoint[0] - p[0] * adjoint[1];
}
)c";

// Another delimiter than cpp: clang-format would take the text for a part of this file.
inline constexpr const char* skeleton_cpp =
    R"plugin(// @NAME@ as a plug-in. mac/own_system.hpp lists what else a system may have: symmetries, time, diagnostics, ...
#include <mac/own_plugin.hpp>

struct Equations {
  double d, k;

  explicit Equations(const mac::ConfigTable& table) : d(table.number_or("d", 0.2)), k(table.number_or("k", 0.8)) {}

  // The first variables of the full state, and whose equations have a closure: v.
  std::vector<std::string> resolved_names() const { return {"x", "v"}; }
  std::vector<std::size_t> closure_targets() const { return {1}; }
  std::size_t full_size() const { return 4; }  // x, v, p, q

  // A template: the gradient of the reduced model comes from it.
  template <class Scalar>
  void reduced_rhs(const Scalar* y, Scalar* dydt) const {
    dydt[0] = y[1];
    dydt[1] = y[0] - y[0] * y[0] * y[0] - d * y[1];
  }
  void full_rhs(const double* z, double* dzdt) const {
    reduced_rhs(z, dzdt);
    dzdt[1] += k * z[2];
    dzdt[2] = z[3];
    dzdt[3] = z[0] - 2.25 * z[2] - z[3] / 2;
  }
  void sample(mac::RandomStream& random, std::span<double> z) const {
    z[0] = random.uniform(-1.5, 1.5);
    z[1] = random.uniform(-1, 1);
    z[2] = z[3] = 0;
  }
};

MAC_EXPORT_SYSTEM(Equations, "@NAME@")
)plugin";

inline constexpr const char* skeleton_fortran =
    R"f90(! @NAME@ as a plug-in. Procedures keep no state: they are called from several threads at once.
module system_@NAME@
  use, intrinsic :: iso_c_binding
  implicit none
  private

  character(len=*), parameter :: nl = c_new_line
  character(kind=c_char, len=512), target, save :: description = &
    "name = '@NAME@'" // nl // &
    "resolved = ['x', 'v']" // nl // &      ! the first variables of the full state
    "size = 4" // nl // &                   ! numbers of the full state: x, v, p, q
    "targets = ['v']" // nl // &            ! whose equations have a closure
    "parameters = ['d', 'k']" // nl // &
    "defaults = [0.2, 0.8]" // nl // &
    "random = 2" // nl // c_null_char       ! numbers that mac_sample takes

contains

  integer(c_int) function mac_plugin_version() bind(C)
    mac_plugin_version = 1
  end function

  type(c_ptr) function mac_plugin_system() bind(C)
    mac_plugin_system = c_loc(description)
  end function

  subroutine mac_reduced_rhs(p, y, dydt) bind(C)
    real(c_double), intent(in) :: p(2), y(2)
    real(c_double), intent(out) :: dydt(2)
    dydt(1) = y(2)
    dydt(2) = y(1) - y(1)**3 - p(1)*y(2)
  end subroutine

  subroutine mac_full_rhs(p, z, dzdt) bind(C)
    real(c_double), intent(in) :: p(2), z(4)
    real(c_double), intent(out) :: dzdt(4)
    call mac_reduced_rhs(p, z(1:2), dzdt(1:2))
    dzdt(2) = dzdt(2) + p(2)*z(3)
    dzdt(3) = z(4)
    dzdt(4) = z(1) - 2.25d0*z(3) - z(4)/2
  end subroutine

  subroutine mac_sample(p, uniform, z) bind(C)
    real(c_double), intent(in) :: p(2), uniform(2)
    real(c_double), intent(out) :: z(4)
    z = [3*uniform(1) - 1.5d0, 2*uniform(2) - 1, 0d0, 0*p(1)]
  end subroutine

  ! The gradient of the reduced model. It may be left out; it is compared with differences when the library is loaded.
  subroutine mac_reduced_vjp(p, y, adjoint, gradient) bind(C)
    real(c_double), intent(in) :: p(2), y(2), adjoint(2)
    real(c_double), intent(out) :: gradient(2)
    gradient(1) = (1 - 3*y(1)**2)*adjoint(2)
    gradient(2) = adjoint(1) - p(1)*adjoint(2)
  end subroutine

end module
)f90";

inline constexpr const char* skeleton_makefile =
    R"make(# make: the plug-in; make test: it is loaded, its full model is looked at, and its study runs to a report
MAC ?= mac
MAC_HEADERS ?= @HEADERS@

lib@NAME@.so: @SOURCE@
	@COMPILE@

test: lib@NAME@.so
	MAC="$(MAC)" sh test.sh

clean:
	rm -rf lib@NAME@.so *.mod run

.PHONY: test clean
)make";

inline constexpr const char* skeleton_test = R"sh(#!/bin/sh
# Looks at the full model, then runs the study to its report. MAC is the program.
set -e
cd "$(dirname "$0")"
${MAC:-mac} diagnose @NAME@.toml --only convergence,closure --trajectories 4
${MAC:-mac} run @NAME@.toml -o run
test -s run/report.html
echo "@NAME@: passed"
)sh";

inline constexpr const char* skeleton_readme = R"md(# @NAME@

A system for MAC, made by `mac new-system @NAME@ --@KIND@`: an oscillator with two wells, `x` and `v`, that pulls at a hidden one, `p` and `q`.
Put your own equations in its place.

| File | What is in it |
|---|---|
@FILES@
| `@NAME@.toml` | the study: parameters, data, networks, training |
| `test.sh` | looks at the full model, then runs the study to `run/report.html` |

    @BUILD@
    mac run @NAME@.toml -o run

The manual is docs/your-system.md of MAC.
)md";

}  // namespace mac::cli
