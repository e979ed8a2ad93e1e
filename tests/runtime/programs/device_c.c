/* device_c MODEL COLUMNS: 20 steps on the device and on the CPU, from a host in C99 that has no CUDA headers; then the
 * state goes from one to the other. Prints the largest difference. */
#include <mac/mac_cuda.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int cudaMalloc(void** pointer, size_t bytes);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaFree(void* pointer);
enum { to_device = 1, to_host = 2 };

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "%s: %s\n", mac_status_name(status), error->message);
  exit(1);
}

int main(int argc, char** argv) {
  mac_error error;
  mac_model* model = NULL;
  mac_state* host = NULL;
  mac_device_state* device = NULL;
  double largest = 0;
  if (argc != 3) return 2;
  const size_t columns = (size_t)atol(argv[2]);
  check(mac_cuda_available(&error), &error);
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), &error);
  check(mac_state_create(model, columns, &host, &error), &error);
  check(mac_device_state_create(model, columns, &device, &error), &error);
  const size_t inputs = columns * mac_model_inputs(model), outputs = columns * mac_model_outputs(model);
  double* y = malloc(inputs * sizeof *y);
  double* of_host = malloc(outputs * sizeof *of_host);
  double* of_device = malloc(outputs * sizeof *of_device);
  void *at = NULL, *out = NULL;
  if (!y || !of_host || !of_device || cudaMalloc(&at, inputs * sizeof *y) != 0 ||
      cudaMalloc(&out, outputs * sizeof *of_host) != 0)
    return 3;
  for (int n = 0; n < 20; ++n) {
    for (size_t i = 0; i < inputs; ++i) y[i] = 0.3 * sin(1.7 * (double)i + 0.4 * n);
    cudaMemcpy(at, y, inputs * sizeof *y, to_device);
    check(mac_step(host, y, of_host, &error), &error);
    check(mac_step_device(device, at, out, NULL, &error), &error);
    cudaMemcpy(of_device, out, outputs * sizeof *of_device, to_host);
    for (size_t i = 0; i < outputs; ++i) largest = fmax(largest, fabs(of_device[i] - of_host[i]));
    if (n == 9) { /* each goes on from the other's memory */
      const size_t size = mac_state_bytes(host);
      void* saved = malloc(2 * size);
      char* second = (char*)saved + size;
      if (!saved || mac_device_state_bytes(device, columns) != size) return 4;
      check(mac_state_save(host, saved, size, &error), &error);
      check(mac_device_state_save(device, NULL, columns, second, size, NULL, &error), &error);
      check(mac_device_state_restore(device, saved, size, NULL, NULL, columns, NULL, &error), &error);
      check(mac_state_restore(host, second, size, &error), &error);
      free(saved);
    }
  }
  check(mac_device_state_check(device, NULL, &error), &error);
  printf("%g\n", largest);
  cudaFree(at);
  cudaFree(out);
  free(y);
  free(of_host);
  free(of_device);
  mac_device_state_free(device);
  mac_state_free(host);
  mac_model_close(model);
  return 0;
}
