/* MAC's C interface for hosts whose fields live on a GPU: the step of mac/mac.h with device pointers, on the host's
 * CUDA stream.
 *
 *   mac_model_open(path, MAC_FLOAT32, &model, &error);
 *   mac_device_state_create(model, columns, &state, &error);
 *   mac_step_device(state, y, closure, stream, &error);             y and closure lie in device memory
 *
 * A step is one kernel, or two of a closure in a frame. It is queued on the stream and does not wait, allocates nothing, and may be captured into a CUDA
 * graph; a replay takes the next step. Its numbers are those of the CPU runtime to the rounding of float32. The memory of
 * the columns stays on the device between steps.
 *
 * `stream` is a cudaStream_t; null: the default stream. The header needs nothing of CUDA. Calls that say so wait for
 * the stream. A state lives on the device that was current when it was created, and is used by one thread at a time, on
 * one stream at a time.
 *
 * libmac_runtime_cuda holds the CPU runtime as well: a host links it alone. Models are those of mac/mac.h, of the
 * kinds mamba and gru, opened in MAC_FLOAT32; ensembles and stochastic closures are refused.
 */
#ifndef MAC_MAC_CUDA_H
#define MAC_MAC_CUDA_H

#include <mac/mac.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mac_device_state mac_device_state;

/* MAC_OK where there is a CUDA device, else MAC_DEVICE_ERROR and a sentence that says what is missing. */
MAC_API mac_status mac_cuda_available(mac_error* error);

/* ---- States ---- */

/* The memory of `columns` columns, at rest, on the current device. Waits for the device. */
MAC_API mac_status mac_device_state_create(const mac_model* model, size_t columns, mac_device_state** state,
                                           mac_error* error);
/* Null is allowed. Steps of it that are still queued must have ended. */
MAC_API void mac_device_state_free(mac_device_state* state);
MAC_API size_t mac_device_state_columns(const mac_device_state* state); /* 0 for null */
MAC_API int mac_device_state_device(const mac_device_state* state);     /* its number; -1 for null */
/* Bytes it takes on the device, with the weights; 0 for null. */
MAC_API size_t mac_device_state_memory(const mac_device_state* state);

/* All columns as newly created. Does not wait, may be captured. */
MAC_API mac_status mac_device_state_reset(mac_device_state* state, void* stream, mac_error* error);

/* What mac_state_save writes, mac_state_restore reads and the other way round: a run moves between CPU and GPU. Lists of
 * columns, and buffers, are on the host, as in mac/mac.h. These wait for the stream. */
MAC_API size_t mac_device_state_bytes(const mac_device_state* state, size_t count);
MAC_API mac_status mac_device_state_save(const mac_device_state* state, const size_t* columns, size_t count,
                                         void* buffer, size_t size, void* stream, mac_error* error);
MAC_API mac_status mac_device_state_restore(mac_device_state* state, const void* buffer, size_t size,
                                            const size_t* saved_columns, const size_t* columns, size_t count,
                                            void* stream, mac_error* error);
MAC_API mac_status mac_device_state_reset_columns(mac_device_state* state, const size_t* columns,
                                                  size_t count, void* stream, mac_error* error);
/* Columns from_columns[k] of `from` to to_columns[k] of `to`, which may be the same state. */
MAC_API mac_status mac_device_state_copy_columns(const mac_device_state* from, const size_t* from_columns,
                                                 mac_device_state* to, const size_t* to_columns, size_t count,
                                                 void* stream, mac_error* error);

/* ---- Steps ---- */

/* One closure step of all columns: y (columns, inputs) -> closure (columns, outputs), in physical units, row-major, in
 * memory that the device can reach. Nobody waits, so nobody can refuse: a column whose y is not finite takes no step,
 * and its closure is NaN; mac_device_state_check tells. */
MAC_API mac_status mac_step_device(mac_device_state* state, const double* y, double* closure, void* stream,
                                   mac_error* error);
MAC_API mac_status mac_step_device_float(mac_device_state* state, const float* y, float* closure,
                                         void* stream, mac_error* error);

/* The same for any layout: component i of column j is y[i*y_component + j*y_column], strides in elements. */
MAC_API mac_status mac_step_device_strided(mac_device_state* state, const double* y, ptrdiff_t y_component,
                                           ptrdiff_t y_column, double* closure, ptrdiff_t closure_component,
                                           ptrdiff_t closure_column, void* stream, mac_error* error);
MAC_API mac_status mac_step_device_strided_float(mac_device_state* state, const float* y,
                                                 ptrdiff_t y_component, ptrdiff_t y_column, float* closure,
                                                 ptrdiff_t closure_component, ptrdiff_t closure_column,
                                                 void* stream, mac_error* error);

/* Columns on a grid of extents[0] x extents[1] x extents[2], as many as the state has: component i of the column at
 * (a, b, c) is y[i*y_component + a*y_strides[0] + b*y_strides[1] + c*y_strides[2]]. So fields (nx, ny, nz, variable),
 * with halos or without, are stepped where they lie. The column is number a + extents[0]*(b + extents[1]*c). */
MAC_API mac_status mac_step_device_field(mac_device_state* state, const size_t extents[3], const double* y,
                                         ptrdiff_t y_component, const ptrdiff_t y_strides[3], double* closure,
                                         ptrdiff_t closure_component, const ptrdiff_t closure_strides[3],
                                         void* stream, mac_error* error);
MAC_API mac_status mac_step_device_field_float(mac_device_state* state, const size_t extents[3],
                                               const float* y, ptrdiff_t y_component,
                                               const ptrdiff_t y_strides[3], float* closure,
                                               ptrdiff_t closure_component,
                                               const ptrdiff_t closure_strides[3], void* stream,
                                               mac_error* error);

/* The closure at `fraction` of the step that the last step opened, as mac_closure_at has it; zeros before the first. */
MAC_API mac_status mac_closure_at_device(const mac_device_state* state, mac_hold hold, double fraction,
                                         double* closure, void* stream, mac_error* error);
MAC_API mac_status mac_closure_at_device_strided(const mac_device_state* state, mac_hold hold,
                                                 double fraction, double* closure,
                                                 ptrdiff_t closure_component, ptrdiff_t closure_column,
                                                 void* stream, mac_error* error);
MAC_API mac_status mac_closure_at_device_strided_float(const mac_device_state* state, mac_hold hold,
                                                       double fraction, float* closure,
                                                       ptrdiff_t closure_component, ptrdiff_t closure_column,
                                                       void* stream, mac_error* error);

/* Until it is chosen anew, steps are those of the columns whose number in mask, (columns) bytes in device memory, is not
 * 0 when the step runs. The others keep memory, predictions and count of steps; their places in the host's arrays are
 * neither read nor written. Null: all columns. A graph keeps the mask it was captured with. */
MAC_API mac_status mac_device_state_set_mask(mac_device_state* state, const unsigned char* mask,
                                             mac_error* error);

/* Waits for the stream. MAC_NOT_FINITE where, since the last check, an input was not finite or a closure came out so: the
 * message names the first such column and its component. After the latter the memory of the column has gone with it. */
MAC_API mac_status mac_device_state_check(mac_device_state* state, void* stream, mac_error* error);

#ifdef __cplusplus
}
#endif

#endif /* MAC_MAC_CUDA_H */
