/* The Duffing oscillator of examples/07-own-system as a plug-in, and what is wrong with others. */
#include <mac/plugin.h>
#include <math.h>
#include <stdlib.h>

int mac_plugin_version(void) {
#ifdef PLUGIN_old
  return MAC_PLUGIN_VERSION - 1;
#else
  return MAC_PLUGIN_VERSION;
#endif
}

const char* mac_plugin_system(void) {
  return "name = 'plugged_duffing'\n"
         "resolved = ['x', 'v']\n"
         "size = 4\n"
         "targets = ['v']\n"
#ifdef PLUGIN_repeats
         "parameters = ['k', 'k']\n"
#else
         "parameters = ['d', 'k']\n"
#endif
         "defaults = [0.2, 0.8]\n"
         "random = 2\n";
}

void mac_reduced_rhs(const double* p, const double* y, double* dydt) {
#ifdef PLUGIN_ends
  exit(0); /* Fortran's stop */
#endif
  dydt[0] = y[1];
  dydt[1] = y[0] - y[0] * y[0] * y[0] - p[0] * y[1];
}

void mac_full_rhs(const double* p, const double* z, double* dzdt) {
  mac_reduced_rhs(p, z, dzdt);
  dzdt[1] += p[1] * z[2];
  dzdt[2] = z[3];
  dzdt[3] = z[0] - 2.25 * z[2] - 0.5 * z[3];
#ifdef PLUGIN_crashes
  *(volatile int*)0 = 1;
#endif
#ifdef PLUGIN_hangs
  for (volatile int k = 0; k == 0;) continue;
#endif
#ifdef PLUGIN_nan
  dzdt[3] = nan("");
#endif
}

void mac_sample(const double* p, const double* uniform, double* z) {
  (void)p;
  z[0] = 3 * uniform[0] - 1.5;
  z[1] = 2 * uniform[1] - 1;
  z[2] = 0;
#ifndef PLUGIN_forgets
  z[3] = 0;
#endif
#ifdef PLUGIN_overruns
  z[4] = 0;
#endif
}

void mac_reduced_vjp(const double* p, const double* y, const double* adjoint, double* gradient) {
#ifdef PLUGIN_lies
  const double slope = 1 - 2 * y[0] * y[0];
#else
  const double slope = 1 - 3 * y[0] * y[0];
#endif
  gradient[0] = slope * adjoint[1];
  gradient[1] = adjoint[0] - p[0] * adjoint[1];
}
