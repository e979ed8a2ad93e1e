/* Opens a model, takes one step of one column, prints the first closure component. */
#include <mac/mac.h>
#include <stdio.h>

int main(int argc, char** argv) {
  mac_error error;
  mac_model* model = NULL;
  mac_state* state = NULL;
  double y[64] = {0.1}, closure[64];
  if (argc != 2 || mac_model_open(argv[1], MAC_FLOAT32, &model, &error) != MAC_OK ||
      mac_state_create(model, 1, &state, &error) != MAC_OK || mac_step(state, y, closure, &error) != MAC_OK) {
    fprintf(stderr, "%s\n", argc == 2 ? error.message : "usage: solver MODEL");
    return 1;
  }
  printf("%.17g\n", closure[0]);
  mac_state_free(state);
  mac_model_close(model);
  return 0;
}
