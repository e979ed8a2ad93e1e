/* The two-scale Lorenz '96 system of src/systems/lorenz96.cpp as a plug-in in C, for equations_bench.cpp. */
#include <mac/plugin.h>

enum { n = 8, j = 32, m = n * j };
static const double f = 10, h = 1, c = 10, b = 10;

int mac_plugin_version(void) { return MAC_PLUGIN_VERSION; }

const char* mac_plugin_system(void) {
  return "name = 'lorenz96_plugin'\n"
         "resolved = ['X1', 'X2', 'X3', 'X4', 'X5', 'X6', 'X7', 'X8']\n"
         "size = 264\n"
         "random = 264\n";
}

void mac_reduced_rhs(const double* p, const double* x, double* dxdt) {
  (void)p;
  for (int k = 0; k < n; ++k)
    dxdt[k] =
        f - x[k] - x[k == 0 ? n - 1 : k - 1] * (x[k < 2 ? k + n - 2 : k - 2] - x[k + 1 == n ? 0 : k + 1]);
}

static double fast(double before, double here, double after, double two_after) {
  return -c * b * after * (two_after - before) - c * here;
}

void mac_full_rhs(const double* p, const double* z, double* dzdt) {
  const double* y = z + n;
  double* dydt = dzdt + n;
  mac_reduced_rhs(p, z, dzdt);
  dydt[0] = fast(y[m - 1], y[0], y[1], y[2]);
  for (int i = 1; i + 2 < m; ++i) dydt[i] = fast(y[i - 1], y[i], y[i + 1], y[i + 2]);
  dydt[m - 2] = fast(y[m - 3], y[m - 2], y[m - 1], y[0]);
  dydt[m - 1] = fast(y[m - 2], y[m - 1], y[0], y[1]);
  for (int k = 0; k < n; ++k) {
    double sum = 0;
    for (int i = k * j; i < (k + 1) * j; ++i) {
      sum += y[i];
      dydt[i] += h * c / b * z[k];
    }
    dzdt[k] -= h * c / b * sum;
  }
}

void mac_sample(const double* p, const double* uniform, double* z) {
  (void)p;
  for (int i = 0; i < n + m; ++i) z[i] = i < n ? uniform[i] : (uniform[i] - 0.5) / 100;
}

/* d(dX_k): -dX_k - dX_{k-1} (X_{k-2} - X_{k+1}) - X_{k-1} (dX_{k-2} - dX_{k+1}) */
void mac_reduced_vjp(const double* p, const double* x, const double* adjoint, double* gradient) {
  (void)p;
  for (int k = 0; k < n; ++k) gradient[k] = 0;
  for (int k = 0; k < n; ++k) {
    const int before = (k + n - 1) % n, two_before = (k + n - 2) % n, after = (k + 1) % n;
    gradient[k] -= adjoint[k];
    gradient[before] -= adjoint[k] * (x[two_before] - x[after]);
    gradient[two_before] -= adjoint[k] * x[before];
    gradient[after] += adjoint[k] * x[before];
  }
}
