/* no_allocation MODEL: prints how often the heap was asked for memory during steps, derivatives,
 * copies, saves, restores and resets, and refuses a precision that does not exist. glibc's allocator is counted by standing in front of
 * it. */
#include <errno.h>
#include <mac/mac.h>
#include <stdio.h>
#include <stdlib.h>

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static long requests = 0;

void* malloc(size_t size) { return ++requests, __libc_malloc(size); }
void* calloc(size_t count, size_t size) { return ++requests, __libc_calloc(count, size); }
void* realloc(void* memory, size_t size) { return ++requests, __libc_realloc(memory, size); }
void* memalign(size_t alignment, size_t size) { return ++requests, __libc_memalign(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory ? 0 : ENOMEM;
}

static void check(mac_status status, const mac_error* error) {
  if (status == MAC_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

int main(int argc, char** argv) {
  enum { columns = 9 };
  static double y[columns * 64], closure[columns * 64];
  static float y_float[columns * 64], closure_float[columns * 64];
  static char saved[1 << 20];
  mac_error error;
  mac_model* model = NULL;
  mac_state *state = NULL, *other = NULL;
  mac_tape* tape = NULL;
  mac_coupler* coupler = NULL;
  static const size_t listed[2] = {1, 4};
  static double memory[1 << 16], jacobian[columns * 64 * 64];
  if (argc != 2) return 2;
  if (mac_model_open(argv[1], (mac_precision)7, &model, &error) != MAC_INVALID_ARGUMENT) return 3;
  check(mac_model_open(argv[1], MAC_FLOAT32, &model, &error), &error);
  check(mac_state_create(model, columns, &state, &error), &error);
  check(mac_state_create(model, columns, &other, &error), &error);
  check(mac_tape_create(model, columns, 3, &tape, &error), &error);
  if (columns * mac_state_memory_size(state) > sizeof memory / sizeof memory[0]) return 4;
  check(mac_step_tangent(state, y, y, memory, closure, &error), &error); /* makes room, once a state */
  check(mac_coupler_create(other, 3, 1, MAC_HOLD_LINEAR, &coupler, &error), &error);
  const size_t extents[3] = {columns, 1, 1};
  const ptrdiff_t along[3] = {1, 0, 0};
  const double* fields[64];
  double* closure_fields[64];
  for (size_t i = 0; i < 64; ++i) {
    fields[i] = y + i * columns;
    closure_fields[i] = closure + i * columns;
  }
  const long before = requests;
  for (int n = 0; n < 3; ++n) {
    check(mac_step(state, y, closure, &error), &error);
    check(mac_step_float(state, y_float, closure_float, &error), &error);
    check(mac_step_strided(state, y, columns, 1, closure, columns, 1, &error), &error);
    check(mac_closure_at(state, MAC_HOLD_LINEAR, 0.5, closure, &error), &error);
    check(mac_step_tangent(state, y, y, memory, closure, &error), &error);
    check(mac_step_adjoint(state, y, closure, memory, y, &error), &error);
    check(mac_step_jacobian(state, y, jacobian, &error), &error);
    check(mac_tape_step(tape, state, y, closure, &error), &error);
    check(mac_tape_tangent(tape, (size_t)n, y, memory, closure, &error), &error);
    check(mac_tape_adjoint(tape, (size_t)n, closure, memory, y, &error), &error);
    check(mac_state_set_active(state, listed, 2, &error), &error);
    check(mac_step(state, y, closure, &error), &error);
    check(mac_state_set_mask(state, NULL, &error), &error);
    check(mac_coupler_begin(coupler, y, &error), &error);
    check(mac_coupler_closure(coupler, 0.5, closure, &error), &error);
    check(mac_coupler_begin_strided_float(coupler, y_float, columns, 1, &error), &error);
    check(mac_coupler_closure_strided_float(coupler, 0.5, closure_float, columns, 1, &error), &error);
    check(mac_coupler_begin_fields(coupler, extents, fields, along, &error), &error);
    check(mac_coupler_closure_fields(coupler, 0.5, extents, closure_fields, along, &error), &error);
    check(mac_closure_at_fields(state, MAC_HOLD_ZERO, 0.5, extents, closure_fields, along, &error), &error);
    check(mac_state_copy(state, other, &error), &error);
    check(mac_state_save(state, saved, sizeof saved, &error), &error);
    check(mac_state_restore(state, saved, sizeof saved, &error), &error);
    check(mac_state_save_columns(state, NULL, 2, saved, sizeof saved, &error), &error);
    check(mac_state_restore_columns(other, saved, sizeof saved, NULL, NULL, 2, &error), &error);
    check(mac_state_copy_columns(state, NULL, other, NULL, 2, &error), &error);
    check(mac_state_reset_columns(state, NULL, 2, &error), &error);
    check(mac_state_reset(state, &error), &error);
  }
  const long during = requests - before;
  printf("%ld requests before, %ld during\n", before, during);
  mac_coupler_free(coupler);
  mac_state_free(state);
  mac_state_free(other);
  mac_tape_free(tape);
  mac_model_close(model);
  return 0;
}
