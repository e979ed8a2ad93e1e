/* field MODEL SITES STEPS THREADS: a ring of Lorenz '96 with a local closure at every site, on threads of the host.
 *
 *   dX_k/dt = -X_{k-1} (X_{k-2} - X_{k+1}) - X_k + F + C_k,    C_k from X_{k-2}, ..., X_{k+2} and the memory of site k
 *
 * A thread owns a run of sites and the memory of their closures. The field has a halo of two sites; the five inputs of
 * site k lie side by side in it, so that both strides of the input are 1 and nothing is copied. Prints sites per second,
 * memory per site, and a checksum, which is the same for any number of threads. */
#include <mac/mac.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { halo = 2, inputs = 2 * halo + 1 };
static const double F = 10;

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "field: %s\n", error->message);
  exit(1);
}

/* Rates of sites first .. last-1; x and closure point at site 0. */
static void rates(const double* x, const double* closure, long first, long last, double* rate) {
  for (long k = first; k < last; ++k) rate[k] = -x[k - 1] * (x[k - 2] - x[k + 1]) - x[k] + F + closure[k];
}

/* By the thread that owns an end. */
static void fill_halo(double* x, long sites) {
  for (long i = 1; i <= halo; ++i) {
    x[-i] = x[sites - i];
    x[sites + i - 1] = x[i - 1];
  }
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: field MODEL SITES STEPS THREADS\n");
    return 2;
  }
  const long sites = atol(argv[2]), steps = atol(argv[3]);
  const int threads = atoi(argv[4]);
  if (sites < 2 * inputs * threads || steps < 1 || threads < 1) {
    fprintf(stderr, "field: expected at least %d sites a thread, a step and a thread\n", 2 * inputs);
    return 2;
  }
  mac_error error;
  mac_model* model = NULL;
  check(mac_model_open(argv[1], MAC_PRECISION_OF_FILE, &model, &error), &error);
  if (mac_model_inputs(model) != inputs || mac_model_outputs(model) != 1) {
    fprintf(stderr, "field: %s reads %zu numbers, expected a local closure of five sites\n", argv[1],
            mac_model_inputs(model));
    return 1;
  }
  const double dt = mac_model_closure_step(model);
  const size_t room = (size_t)(sites + 2 * halo);
  double* const x = (double*)calloc(room, sizeof(double)) + halo;
  double* const stage = (double*)calloc(room, sizeof(double)) + halo;
  double* const closure = (double*)calloc((size_t)sites, sizeof(double));
  double* const rate = (double*)calloc((size_t)sites, sizeof(double));
  double* const sum = (double*)calloc((size_t)sites, sizeof(double));
  for (long k = 0; k < sites; ++k) x[k] = 3 + 4 * sin(0.7 * (double)k) * cos(0.013 * (double)k * (double)k);
  fill_halo(x, sites);

  double closure_seconds = 0, memory = 0;
  const double begin = omp_get_wtime();
#pragma omp parallel num_threads(threads)
  {
    static const double a[4] = {0, 0.5, 0.5, 1}, b[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    const int me = omp_get_thread_num();
    const long first = sites * me / threads, last = sites * (me + 1) / threads;
    mac_error failure;
    mac_state* state = NULL;
    check(mac_state_create(model, (size_t)(last - first), &state, &failure), &failure);
#pragma omp atomic
    memory += (double)mac_state_bytes(state);
    for (long n = 0; n < steps; ++n) {
      const double from = omp_get_wtime();
      check(mac_step_strided(state, x + first - halo, 1, 1, closure + first, 1, 1, &failure), &failure);
      if (me == 0) closure_seconds += omp_get_wtime() - from;
      for (int i = 0; i < 4; ++i) {
        for (long k = first; k < last; ++k) stage[k] = i == 0 ? x[k] : x[k] + a[i] * dt * rate[k];
#pragma omp barrier
#pragma omp single
        fill_halo(stage, sites);
        rates(stage, closure, first, last, rate);
        for (long k = first; k < last; ++k) sum[k] = (i == 0 ? 0 : sum[k]) + b[i] * rate[k];
#pragma omp barrier
      }
      for (long k = first; k < last; ++k) x[k] += dt * sum[k];
#pragma omp barrier
#pragma omp single
      fill_halo(x, sites);
    }
    mac_state_free(state);
  }
  const double seconds = omp_get_wtime() - begin;
  double total = 0;
  for (long k = 0; k < sites; ++k) total += x[k];
  printf("%ld sites, %ld steps, %d threads: %.3g sites a second (closure alone %.3g), %.0f bytes a site\n",
         sites, steps, threads, (double)sites * (double)steps / seconds,
         (double)sites * (double)steps / closure_seconds, memory / (double)sites);
  printf("checksum %.17g\n", total);
  free(sum);
  free(rate);
  free(closure);
  free(stage - halo);
  free(x - halo);
  mac_model_close(model);
  return isfinite(total) ? 0 : 1;
}
