/* steps_c MODEL INPUT OUTPUT COLUMNS STOP: one step for every (columns, inputs) of INPUT, raw doubles; the
 * closures go to OUTPUT. After STOP steps the state is saved, and another one goes on from there. */
#include <mac/mac.h>
#include <stdio.h>
#include <stdlib.h>

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "%s: %s\n", mac_status_name(status), error->message);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  mac_error error;
  mac_model* model = NULL;
  mac_state* state = NULL;
  const size_t columns = (size_t)atol(argv[4]), stop = (size_t)atol(argv[5]);
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), &error);
  check(mac_state_create(model, columns, &state, &error), &error);
  if (mac_model_noise(model) > 0) check(mac_state_seed(state, 17, NULL, &error), &error);
  const size_t inputs = columns * mac_model_inputs(model), outputs = columns * mac_model_outputs(model);
  double* y = malloc(inputs * sizeof *y);
  double* closure = malloc(outputs * sizeof *closure);
  FILE* in = fopen(argv[2], "rb");
  FILE* out = fopen(argv[3], "wb");
  if (!in || !out || !y || !closure) return 3;
  for (size_t n = 0;; ++n) {
    if (n == stop) {
      const size_t size = mac_state_bytes(state);
      void* saved = malloc(size);
      check(mac_state_save(state, saved, size, &error), &error);
      mac_state_free(state);
      check(mac_state_create(model, columns, &state, &error), &error);
      check(mac_state_restore(state, saved, size, &error), &error);
      free(saved);
    }
    if (fread(y, sizeof *y, inputs, in) != inputs) break;
    check(mac_step(state, y, closure, &error), &error);
    fwrite(closure, sizeof *closure, outputs, out);
  }
  fclose(in);
  fclose(out);
  free(y);
  free(closure);
  mac_state_free(state);
  mac_model_close(model);
  return 0;
}
