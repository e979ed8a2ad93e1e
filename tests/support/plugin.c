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
#ifdef PLUGIN_forward
  return "name = 'forward_duffing'\n"
#else
  return "name = 'plugged_duffing'\n"
#endif
         "resolved = ['x', 'v']\n"
         "size = 4\n"
         "targets = ['v']\n"
#ifdef PLUGIN_repeats
         "parameters = ['k', 'k']\n"
#else
         "parameters = ['d', 'k']\n"
#endif
         "defaults = [0.2, 0.8]\n"
#ifdef PLUGIN_asymmetric
         "symmetries = ['fourier_reflection']\n"
#else
         "symmetries = ['reflection']\n"
#endif
         "diagnostics = ['energy', 'sum']\n"
#ifdef PLUGIN_undiagnosed
         "conserved = ['entropy']\n"
#else
         "conserved = ['energy']\n"
#endif
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

#ifndef PLUGIN_forward
void mac_reduced_vjp(const double* p, const double* y, const double* adjoint, double* gradient) {
#ifdef PLUGIN_lies
  const double slope = 1 - 2 * y[0] * y[0];
#else
  const double slope = 1 - 3 * y[0] * y[0];
#endif
  gradient[0] = slope * adjoint[1];
  gradient[1] = adjoint[0] - p[0] * adjoint[1];
}
#endif

void mac_reduced_jvp(const double* p, const double* y, const double* direction, double* tangent) {
  tangent[0] = direction[1];
#ifdef PLUGIN_misleads
  tangent[1] = (1 - 3 * y[0] * y[0]) * direction[0] + p[0] * direction[1];
#else
  tangent[1] = (1 - 3 * y[0] * y[0]) * direction[0] - p[0] * direction[1];
#endif
}

void mac_linear_part(const double* p, double* matrix) {
  matrix[0] = 0;
  matrix[1] = 1;
  matrix[2] = 1;
#ifndef PLUGIN_skips
  matrix[3] = -p[0];
#endif
}

void mac_diagnostics(const double* p, const double* z, double* values) {
  (void)p;
  values[0] = z[1] * z[1] / 2 - z[0] * z[0] / 2 + z[0] * z[0] * z[0] * z[0] / 4;
  values[1] = z[0] + z[1] + z[2] + z[3];
#ifdef PLUGIN_exceeds
  values[2] = 0;
#endif
}
