/* step_time_c MODEL: nanoseconds of a step at 1, 50 and 1000 columns, the smallest of many short rounds. */
#define _POSIX_C_SOURCE 199309L
#include <mac/mac.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  static const size_t batches[] = {1, 50, 1000};
  mac_error error;
  mac_model* model = NULL;
  if (argc != 2 || mac_model_open(argv[1], MAC_FLOAT32, &model, &error) != MAC_OK) return 1;
  for (int b = 0; b < 3; ++b) {
    const size_t columns = batches[b], inputs = columns * mac_model_inputs(model);
    const int repeats = columns < 50 ? 50 : 1, rounds = columns < 1000 ? 3000 : 200;
    double* y = malloc(inputs * sizeof *y);
    double* closure = malloc(columns * mac_model_outputs(model) * sizeof *closure);
    double best = 1e300;
    mac_state* state = NULL;
    if (mac_state_create(model, columns, &state, &error) != MAC_OK || !y || !closure) return 1;
    for (size_t i = 0; i < inputs; ++i) y[i] = 0.3;
    for (int round = 0; round < rounds; ++round) {
      const double begin = now();
      for (int i = 0; i < repeats; ++i)
        if (mac_step(state, y, closure, &error) != MAC_OK) return 1;
      const double elapsed = (now() - begin) / repeats;
      if (elapsed < best) best = elapsed;
    }
    printf("C       %7zu columns %12.0f ns\n", columns, best);
    mac_state_free(state);
    free(y);
    free(closure);
  }
  mac_model_close(model);
  return 0;
}
