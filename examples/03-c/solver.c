/* Many columns of Burgers' equation, reduced to three Fourier modes, in a C solver with a layout of its own.
 *
 *   d theta_k/dt = -ik/2 sum_{p+q=k, |p|,|q|<=3} theta_p theta_q - nu k^2 theta_k + C_k,   theta = phi + i
 * psi
 *
 * Column j starts from u = A_j sin x. Classical RK4 with the closure as the model asks for it: mac_step
 * predicts once a step, mac_closure_at gives it at the stages. Fields lie one after the other,
 * y[variable][column], and are handed over in place by their strides. */
#include <mac/mac.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { modes = 3, variables = 2 * modes, columns = 8 };
typedef double fields[variables][columns];

static const double nu = 0.1;

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "solver: %s\n", error->message);
  exit(1);
}

/* theta_k of a column; theta_{-k} is its conjugate */
static void mode(fields y, int k, int column, double* re, double* im) {
  const int at = abs(k) - 1;
  const int resolved = k != 0 && abs(k) <= modes;
  *re = resolved ? y[at][column] : 0;
  *im = !resolved ? 0 : k > 0 ? y[modes + at][column] : -y[modes + at][column];
}

static void reduced_rhs(fields y, fields rate) {
  for (int j = 0; j < columns; ++j)
    for (int k = 1; k <= modes; ++k) {
      double square_re = 0, square_im = 0;
      for (int p = -modes; p <= modes; ++p) {
        double a, b, c, d;
        mode(y, p, j, &a, &b);
        mode(y, k - p, j, &c, &d);
        square_re += a * c - b * d;
        square_im += a * d + b * c;
      }
      rate[k - 1][j] = 0.5 * k * square_im - nu * k * k * y[k - 1][j];
      rate[k - 1 + modes][j] = -0.5 * k * square_re - nu * k * k * y[k - 1 + modes][j];
    }
}

/* y from t to t + dt; the closure over the step is what the state predicts from y. */
static void advance(mac_state* state, mac_hold hold, double dt, fields y) {
  static const double a[4] = {0, 0.5, 0.5, 1}, b[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
  mac_error error;
  fields stage, rate, closure, sum;
  memset(sum, 0, sizeof sum);
  check(mac_step_strided(state, &y[0][0], columns, 1, &closure[0][0], columns, 1, &error), &error);
  for (int i = 0; i < 4; ++i) {
    for (int v = 0; v < variables; ++v)
      for (int j = 0; j < columns; ++j) stage[v][j] = i == 0 ? y[v][j] : y[v][j] + a[i] * dt * rate[v][j];
    reduced_rhs(stage, rate);
    check(mac_closure_at_strided(state, hold, a[i], &closure[0][0], columns, 1, &error), &error);
    for (int v = 0; v < variables; ++v)
      for (int j = 0; j < columns; ++j) {
        rate[v][j] += closure[v][j];
        sum[v][j] += b[i] * rate[v][j];
      }
  }
  for (int v = 0; v < variables; ++v)
    for (int j = 0; j < columns; ++j) y[v][j] += dt * sum[v][j];
}

int main(int argc, char** argv) {
  mac_error error;
  mac_model* model = NULL;
  mac_state* state = NULL;
  fields y;
  if (argc != 2) {
    fprintf(stderr, "usage: solver MODEL.safetensors\n");
    return 2;
  }
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), &error);
  if (strcmp(mac_model_system(model), "burgers") != 0 || mac_model_inputs(model) != variables) {
    fprintf(stderr, "solver: %s: is not a closure for three modes of Burgers' equation\n", argv[1]);
    return 1;
  }
  check(mac_state_create(model, columns, &state, &error), &error);

  const double dt = mac_model_closure_step(model);
  const long steps = lround(2 / dt);
  memset(y, 0, sizeof y);
  for (int j = 0; j < columns; ++j) y[modes][j] = -0.5 * (0.4 + 0.1 * j); /* psi_1 of A sin x is -A/2 */
  for (long n = 0; n < steps; ++n) advance(state, mac_model_hold(model), dt, y);

  printf("    A     psi1         psi2         psi3    at t = 2\n");
  for (int j = 0; j < columns; ++j)
    printf("%5.1f %12.8f %12.8f %12.8f\n", 0.4 + 0.1 * j, y[modes][j], y[modes + 1][j], y[modes + 2][j]);
  mac_state_free(state);
  mac_model_close(model);
  return 0;
}
