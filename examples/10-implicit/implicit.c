/* A stiff solver with the closure inside Newton's method: Burgers' equation, reduced to three Fourier modes, by
 * backward Euler with the closure at the end of the step:
 *
 *   r(y) = y - y_n - dt (R(y) + C(y, memory_n)) = 0,      r'(y) = 1 - dt (R'(y) + C'(y, memory_n))
 *
 *   d theta_k/dt = -ik/2 sum_{p+q=k, |p|,|q|<=3} theta_p theta_q - nu k^2 theta_k + C_k,   theta = phi + i psi
 *
 * C'(y), the closure's tangent stiffness, is mac_step_jacobian; without it Newton's method converges linearly.
 * Each iteration predicts from a copy of the memory before the step. */
#include <mac/mac.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { modes = 3, n = 2 * modes, most = 60 };

static const double nu = 0.1;

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "implicit: %s\n", error->message);
  exit(1);
}

/* theta_k of y; theta_{-k} is its conjugate */
static void mode(const double* y, int k, double* re, double* im) {
  const int at = abs(k) - 1, resolved = k != 0 && abs(k) <= modes;
  *re = resolved ? y[at] : 0;
  *im = !resolved ? 0 : k > 0 ? y[modes + at] : -y[modes + at];
}

/* the bilinear form behind R: -ik/2 sum_{p+q=k} theta_p eta_q, and the viscous term of theta */
static void bilinear(const double* theta, const double* eta, double* rate) {
  for (int k = 1; k <= modes; ++k) {
    double re = 0, im = 0;
    for (int p = -modes; p <= modes; ++p) {
      double a, b, c, d;
      mode(theta, p, &a, &b);
      mode(eta, k - p, &c, &d);
      re += a * c - b * d;
      im += a * d + b * c;
    }
    rate[k - 1] = 0.5 * k * im;
    rate[k - 1 + modes] = -0.5 * k * re;
  }
}

static void reduced_rhs(const double* y, double* rate) {
  bilinear(y, y, rate);
  for (int v = 0; v < n; ++v) {
    const int k = v % modes + 1;
    rate[v] -= nu * k * k * y[v];
  }
}

/* R'(y), column after column: the derivative of a bilinear form is twice the form with a unit vector */
static void reduced_jacobian(const double* y, double jacobian[n][n]) {
  for (int j = 0; j < n; ++j) {
    double unit[n] = {0}, column[n];
    unit[j] = 1;
    bilinear(y, unit, column);
    for (int i = 0; i < n; ++i) jacobian[i][j] = 2 * column[i];
    jacobian[j][j] -= nu * (j % modes + 1) * (j % modes + 1);
  }
}

/* x <- A^{-1} x by elimination with pivots; A is destroyed */
static void solve(double A[n][n], double* x) {
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int r = c + 1; r < n; ++r)
      if (fabs(A[r][c]) > fabs(A[pivot][c])) pivot = r;
    for (int k = 0; k < n; ++k) {
      const double swap = A[c][k];
      A[c][k] = A[pivot][k], A[pivot][k] = swap;
    }
    const double swap = x[c];
    x[c] = x[pivot], x[pivot] = swap;
    for (int r = c + 1; r < n; ++r) {
      const double factor = A[r][c] / A[c][c];
      for (int k = c; k < n; ++k) A[r][k] -= factor * A[c][k];
      x[r] -= factor * x[c];
    }
  }
  for (int r = n; r-- > 0;) {
    for (int k = r + 1; k < n; ++k) x[r] -= A[r][k] * x[k];
    x[r] /= A[r][r];
  }
}

/* y over one step; `trial` is a state like `state`. Returns the iterations until |r| < 1e-12. */
static int implicit_step(mac_state* state, mac_state* trial, double dt, int tangent, double* y) {
  mac_error error;
  double start[n], closure[n], rate[n], stiffness[n][n], of_closure[n][n], residual[n];
  memcpy(start, y, sizeof start);
  for (int iteration = 1; iteration <= most; ++iteration) {
    check(mac_state_copy(state, trial, &error), &error);
    memset(of_closure, 0, sizeof of_closure);
    if (tangent) check(mac_step_jacobian(trial, y, &of_closure[0][0], &error), &error);
    check(mac_step(trial, y, closure, &error), &error);
    reduced_rhs(y, rate);
    double norm = 0;
    for (int v = 0; v < n; ++v) {
      residual[v] = start[v] + dt * (rate[v] + closure[v]) - y[v];
      norm += residual[v] * residual[v];
    }
    if (sqrt(norm) < 1e-12) {
      check(mac_state_copy(trial, state, &error), &error);
      return iteration;
    }
    reduced_jacobian(y, stiffness);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) stiffness[i][j] = (i == j) - dt * (stiffness[i][j] + of_closure[i][j]);
    solve(stiffness, residual);
    for (int v = 0; v < n; ++v) y[v] += residual[v];
  }
  fprintf(stderr, "implicit: Newton's method did not converge in %d iterations\n", most);
  exit(1);
}

int main(int argc, char** argv) {
  mac_error error;
  mac_model* model = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: implicit MODEL.safetensors\n");
    return 2;
  }
  check(mac_model_open(argv[1], MAC_FLOAT64, &model, &error), &error);
  if (strcmp(mac_model_system(model), "burgers") != 0 || mac_model_inputs(model) != n) {
    fprintf(stderr, "implicit: %s: is not a closure for three modes of Burgers' equation\n", argv[1]);
    return 1;
  }
  const double dt = mac_model_closure_step(model);
  const int steps = (int)lround(2 / dt);
  double per_step[2], end[2][n];
  for (int tangent = 0; tangent < 2; ++tangent) {
    mac_state *state = NULL, *trial = NULL;
    double y[n] = {0, 0, 0, -0.5, 0, 0}; /* sin x */
    int iterations = 0;
    check(mac_state_create(model, 1, &state, &error), &error);
    check(mac_state_create(model, 1, &trial, &error), &error);
    for (int t = 0; t < steps; ++t) iterations += implicit_step(state, trial, dt, tangent, y);
    per_step[tangent] = (double)iterations / steps;
    memcpy(end[tangent], y, sizeof y);
    mac_state_free(state);
    mac_state_free(trial);
  }
  double difference = 0;
  for (int v = 0; v < n; ++v) difference = fmax(difference, fabs(end[0][v] - end[1][v]));
  printf("iterations a step until |r| < 1e-12: %.1f with R' alone, %.1f with R' and the closure's\n",
         per_step[0], per_step[1]);
  printf("psi1 psi2 psi3 at t = 2: %.6f %.6f %.6f; the two ways differ by %.0e\n", end[1][3], end[1][4],
         end[1][5], difference);
  mac_model_close(model);
  return difference < 1e-9 && per_step[1] < per_step[0] ? 0 : 1;
}
