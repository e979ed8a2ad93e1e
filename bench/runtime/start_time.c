/* start_time_c MODEL: milliseconds from no model to the first closure of one column, and the memory that took. */
#define _POSIX_C_SOURCE 199309L
#include <mac/mac.h>
#include <stdio.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
  static double y[1024], closure[1024];
  mac_error error;
  mac_model* model = NULL;
  mac_state* state = NULL;
  char line[256];
  const double begin = now();
  if (argc != 2 || mac_model_open(argv[1], MAC_FLOAT32, &model, &error) != MAC_OK ||
      mac_model_inputs(model) > 1024 || mac_model_outputs(model) > 1024 ||
      mac_state_create(model, 1, &state, &error) != MAC_OK || mac_step(state, y, closure, &error) != MAC_OK)
    return 1;
  printf("C: first closure after %.2f ms\n", now() - begin);
  FILE* const status = fopen("/proc/self/status", "r"); /* Linux */
  while (status && fgets(line, sizeof line, status))
    if (line[0] == 'V' && line[1] == 'm' && line[2] == 'R') printf("%s", line);
  if (status) fclose(status);
  mac_state_free(state);
  mac_model_close(model);
  return 0;
}
