/* MAC's C interface: a trained closure inside a simulation, one call a time step.
 *
 *   dy/dt = R(y) + C        C = mac_step(memory, y), held or extrapolated over the step
 *
 * A model is read once and never changes; a state is the memory of a batch of columns (trajectories, grid
 * columns, ensemble members) that step together. Any number of threads may use one model, each with states of
 * its own; one state is used by one thread at a time. There is no global state, no thread is started, and
 * mac_step does not allocate. The reference page is docs/c-api.md.
 *
 * Functions that can fail return a status, and where `error` is not null leave code and sentence in it. No
 * C++ exception leaves this interface. After a failure outputs are untouched, unless said otherwise.
 */
#ifndef MAC_MAC_H
#define MAC_MAC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MAC_API __attribute__((visibility("default")))
#else
#define MAC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mac_model mac_model;
typedef struct mac_state mac_state;
typedef struct mac_tape mac_tape;
typedef struct mac_coupler mac_coupler;

typedef enum mac_status {
  MAC_OK = 0,
  MAC_INVALID_ARGUMENT = 1, /* a null pointer, a size or a stride that cannot be meant */
  MAC_BAD_MODEL = 2,        /* the model file is missing, damaged or not a closure network */
  MAC_BAD_STATE = 3,        /* a saved state that is damaged, or belongs to another model or batch */
  MAC_NOT_FINITE = 4,       /* NaN, infinity or overflow; the message names column and component */
  MAC_OUT_OF_MEMORY = 5,
  MAC_INTERNAL_ERROR = 6,
  MAC_DEVICE_ERROR = 7 /* no CUDA device can be used, or it failed: mac/mac_cuda.h */
} mac_status;

typedef struct mac_error {
  int32_t code;      /* a mac_status */
  char message[508]; /* one sentence, zero-terminated */
} mac_error;

/* Options are plain ints, so that a value that does not exist can be refused. */

/* The scalar the network computes in: one of the two, or what the file stores. States of the two are not
 * interchangeable. */
typedef int mac_precision;
enum { MAC_FLOAT32 = 0, MAC_FLOAT64 = 1, MAC_PRECISION_OF_FILE = 2 };

/* How the closure is meant to be used over a step of the reduced model, and what it is. */
typedef int mac_hold;
enum { MAC_HOLD_ZERO = 0, MAC_HOLD_LINEAR = 1, MAC_HOLD_STAGE = 2 };
typedef int mac_target;
enum { MAC_TARGET_INSTANT = 0, MAC_TARGET_MEAN = 1 };

MAC_API const char* mac_version(void); /* "0.1.0" */
MAC_API const char* mac_status_name(mac_status status);

/* ---- Models ---- */

/* Reads a .safetensors model file. */
MAC_API mac_status mac_model_open(const char* path, mac_precision precision, mac_model** model,
                                  mac_error* error);
/* The same from the file's bytes; they may go afterwards. `name` stands for the file in messages. */
MAC_API mac_status mac_model_open_memory(const void* bytes, size_t size, const char* name,
                                         mac_precision precision, mac_model** model, mac_error* error);
/* Another handle to the same weights, closed on its own. */
MAC_API mac_status mac_model_clone(const mac_model* model, mac_model** clone, mac_error* error);
/* Null is allowed. Its states and clones live on: the last one to go takes the weights with it. */
MAC_API void mac_model_close(mac_model* model);

/* Queries. A null model answers 0 or "". Text belongs to the model. */
MAC_API size_t mac_model_inputs(const mac_model* model);  /* numbers a column reads: docs/inputs.md */
MAC_API size_t mac_model_outputs(const mac_model* model); /* closure components of a column */
MAC_API size_t mac_model_parameters(const mac_model* model);
MAC_API mac_precision mac_model_precision(const mac_model* model); /* MAC_FLOAT32 or MAC_FLOAT64 */
MAC_API const char* mac_model_kind(const mac_model* model);        /* "mamba", "gru", .. */
MAC_API const char* mac_model_system(const mac_model* model);      /* "" where the file does not say */
/* Names of what a column reads, in the order of y (features of the state, then what comes from outside), and of closure
 * components; "" where the file does not say. Of a local closure a column is a site, and "X[-1]" its neighbour. */
MAC_API const char* mac_model_input_name(const mac_model* model, size_t component);
MAC_API const char* mac_model_output_name(const mac_model* model, size_t component);
/* The input, counted from 0, to whose equation a closure component is added: as the file says; else by names, where
 * C_x belongs to the equation of x; else in order, where there are as many components as variables. -1 where
 * none of that tells, and for a component that does not exist. */
MAC_API ptrdiff_t mac_model_closure_target(const mac_model* model, size_t component);
/* Time between two calls of mac_step; 0 where the file does not say. */
MAC_API double mac_model_closure_step(const mac_model* model);
MAC_API mac_hold mac_model_hold(const mac_model* model);
MAC_API mac_target mac_model_target(const mac_model* model);
/* Any of the file's metadata by key, null where it has none. */
MAC_API const char* mac_model_metadata(const mac_model* model, const char* key);
/* A hash of sizes, weights and normalisation: equal for two files exactly if their closures are. */
MAC_API uint64_t mac_model_id(const mac_model* model);
/* The network sees (y - input_mean)/input_scale, C = output_mean + output_scale * its output. Arrays of
 * `inputs` and `outputs` numbers; a null one is not wanted. */
MAC_API mac_status mac_model_normalisation(const mac_model* model, double* input_mean, double* input_scale,
                                           double* output_mean, double* output_scale, mac_error* error);

/* ---- States ---- */

/* The memory of `columns` columns, at rest. */
MAC_API mac_status mac_state_create(const mac_model* model, size_t columns, mac_state** state,
                                    mac_error* error);
MAC_API mac_status mac_state_clone(const mac_state* state, mac_state** clone, mac_error* error);
/* Makes `to` what `from` is, without an allocation; both are of one model, precision and number of columns.
 */
MAC_API mac_status mac_state_copy(const mac_state* from, mac_state* to, mac_error* error);
MAC_API void mac_state_free(mac_state* state);                          /* null is allowed */
MAC_API mac_status mac_state_reset(mac_state* state, mac_error* error); /* as newly created */
MAC_API size_t mac_state_columns(const mac_state* state);               /* 0 for null */
/* Steps taken since it was at rest, by the column with most and by one column; 0 for null. */
MAC_API uint64_t mac_state_steps(const mac_state* state);
MAC_API uint64_t mac_state_column_steps(const mac_state* state, size_t column);

/* A stochastic closure reads random numbers at every step, mac_model_noise of them a column; of a deterministic one
 * that is 0 and the calls below are refused. The numbers of a column are a function of seed, stream and the steps it has
 * taken: the same on every machine, in every decomposition and after a restart (all three are in the saved state). Column
 * j reads stream streams[j], below 2^32, such as its number in the whole grid; null: j. A new state has the seed 0. */
MAC_API size_t mac_model_noise(const mac_model* model);
MAC_API mac_status mac_state_seed(mac_state* state, uint64_t seed, const uint64_t* streams, mac_error* error);
/* on = 0: without noise, the closure is deterministic. Not part of what is saved. */
MAC_API mac_status mac_state_set_noise(mac_state* state, int on, mac_error* error);

/* A closure of Fourier modes may see its states in a frame (mac_model_metadata "frame" is "initial"): turned back by the
 * phase of the first state of a column, its closure turned as far. The angle is part of the memory: saved, restored and
 * copied with it, set anew by the first step after a reset. mac_state_set_frame gives the columns that have none yet the
 * frame of y (columns, inputs) before that step, for whoever steps copies of a state at rest; other closures ignore it. */
MAC_API mac_status mac_state_set_frame(mac_state* state, const double* y, mac_error* error);

/* Saving writes mac_state_bytes bytes: a header with the model's id, and all that the next step depends on.
 * Restoring takes them back bit for bit, and refuses, leaving the state as it was, what is damaged or belongs
 * to another model, precision or number of columns. `size` is that of the buffer. */
MAC_API size_t mac_state_bytes(const mac_state* state);
MAC_API mac_status mac_state_save(const mac_state* state, void* buffer, size_t size, mac_error* error);
MAC_API mac_status mac_state_restore(mac_state* state, const void* buffer, size_t size, mac_error* error);

/* Columns come and go. `columns` lists `count` columns, counted from 0; null stands for 0, ..., count - 1.
 * Saved columns are a head of 64 bytes and a record for each (docs/c-api.md): what mac_state_save writes, for
 * some. Restoring takes columns saved_columns[k] of the buffer to columns[k] of the state, whatever else is in
 * either: columns saved on one decomposition go on in another, bit for bit. */
MAC_API size_t mac_state_columns_bytes(const mac_state* state, size_t count);
MAC_API mac_status mac_state_save_columns(const mac_state* state, const size_t* columns, size_t count,
                                          void* buffer, size_t size, mac_error* error);
MAC_API mac_status mac_state_restore_columns(mac_state* state, const void* buffer, size_t size,
                                             const size_t* saved_columns, const size_t* columns, size_t count,
                                             mac_error* error);
/* How many columns a buffer holds; 0 where it holds no saved state. */
MAC_API size_t mac_saved_columns(const mac_state* state, const void* buffer, size_t size);
/* At rest, as newly created. */
MAC_API mac_status mac_state_reset_columns(mac_state* state, const size_t* columns, size_t count,
                                           mac_error* error);
/* Columns from_columns[k] of `from` to to_columns[k] of `to`, which may be the same state. */
MAC_API mac_status mac_state_copy_columns(const mac_state* from, const size_t* from_columns, mac_state* to,
                                          const size_t* to_columns, size_t count, mac_error* error);

/* ---- Steps ---- */

/* One closure step of all columns: y (columns, inputs) -> closure (columns, outputs), both in physical units,
 * row-major. Where a y is not finite nothing happens; where the closure comes out not finite the state has
 * gone with it: restore or reset it. */
MAC_API mac_status mac_step(mac_state* state, const double* y, double* closure, mac_error* error);
MAC_API mac_status mac_step_float(mac_state* state, const float* y, float* closure, mac_error* error);

/* The same for any layout: component i of column j is y[i*y_component + j*y_column], strides in elements. */
MAC_API mac_status mac_step_strided(mac_state* state, const double* y, ptrdiff_t y_component,
                                    ptrdiff_t y_column, double* closure, ptrdiff_t closure_component,
                                    ptrdiff_t closure_column, mac_error* error);
MAC_API mac_status mac_step_strided_float(mac_state* state, const float* y, ptrdiff_t y_component,
                                          ptrdiff_t y_column, float* closure, ptrdiff_t closure_component,
                                          ptrdiff_t closure_column, mac_error* error);

/* The closure at `fraction` of the step that the last mac_step opened, 0 its start and 1 its end: that
 * prediction itself (MAC_HOLD_ZERO), or the straight line through it and the one before (MAC_HOLD_LINEAR),
 * placed as the model's target asks. A saved state remembers both predictions. (columns, outputs) */
MAC_API mac_status mac_closure_at(const mac_state* state, mac_hold hold, double fraction, double* closure,
                                  mac_error* error);
MAC_API mac_status mac_closure_at_strided(const mac_state* state, mac_hold hold, double fraction,
                                          double* closure, ptrdiff_t closure_component,
                                          ptrdiff_t closure_column, mac_error* error);
MAC_API mac_status mac_closure_at_strided_float(const mac_state* state, mac_hold hold, double fraction,
                                                float* closure, ptrdiff_t closure_component,
                                                ptrdiff_t closure_column, mac_error* error);

/* ---- Columns that rest ----
 *
 * Until they are chosen anew, steps are those of the active columns: the others cost nothing, keep memory,
 * predictions and count of steps, and their places in the host's arrays are neither read nor written. A clone has
 * the choice of its original; saving, restoring, resetting and copying know nothing of it. Choosing does not
 * allocate. */

/* The columns listed, in ascending order. Null stands for 0, ..., count - 1; count may be 0. */
MAC_API mac_status mac_state_set_active(mac_state* state, const size_t* columns, size_t count,
                                        mac_error* error);
/* Those whose number in mask, (columns), is not 0; null: all. */
MAC_API mac_status mac_state_set_mask(mac_state* state, const unsigned char* mask, mac_error* error);
MAC_API size_t mac_state_active(const mac_state* state); /* how many; 0 for null */

/* ---- Layouts of real codes ----
 *
 * Columns on a grid of extents[0] x extents[1] x extents[2], as many as the state has, and an array for each
 * variable: y[i] and closure[i] point at component i of the first column; that of the column at (a, b, c) lies
 * a*strides[0] + b*strides[1] + c*strides[2] elements further. So fields with halos, fields (nx, ny, nz, variable)
 * and variables of their own are stepped where they lie. In a state, and in messages, the column is number
 * a + extents[0]*(b + extents[1]*c). */
MAC_API mac_status mac_step_fields(mac_state* state, const size_t extents[3], const double* const* y,
                                   const ptrdiff_t y_strides[3], double* const* closure,
                                   const ptrdiff_t closure_strides[3], mac_error* error);
MAC_API mac_status mac_step_fields_float(mac_state* state, const size_t extents[3], const float* const* y,
                                         const ptrdiff_t y_strides[3], float* const* closure,
                                         const ptrdiff_t closure_strides[3], mac_error* error);
MAC_API mac_status mac_closure_at_fields(const mac_state* state, mac_hold hold, double fraction,
                                         const size_t extents[3], double* const* closure,
                                         const ptrdiff_t closure_strides[3], mac_error* error);
MAC_API mac_status mac_closure_at_fields_float(const mac_state* state, mac_hold hold, double fraction,
                                               const size_t extents[3], float* const* closure,
                                               const ptrdiff_t closure_strides[3], mac_error* error);

/* ---- Couplers: a host step that is not the closure step ----
 *
 * A coupler keeps the books of a host whose step divides the closure step, or is a multiple of it. The host says
 * where each of its steps begins, and asks for the closure at any fraction of it.
 *
 *   closure step = n host steps   the network predicts at every n-th; the closure in between is held as ever
 *   host step = n closure steps   the network takes n steps along the straight line from the state one host step ago
 *                                 to the state now (order 2 in the host step). The closure over the host step is the
 *                                 last prediction (MAC_HOLD_ZERO, order 1), or the line through it and that of the
 *                                 host step before (MAC_HOLD_LINEAR, order 2).
 *
 * It steps `state`, which must live longer and not be stepped by others. closure_step 0: the model's. */
MAC_API mac_status mac_coupler_create(mac_state* state, double host_step, double closure_step, mac_hold hold,
                                      mac_coupler** coupler, mac_error* error);
MAC_API void mac_coupler_free(mac_coupler* coupler); /* null is allowed; the state lives on */
/* n of the two cases; the other one of the two is 1. */
MAC_API size_t mac_coupler_host_steps(const mac_coupler* coupler);
MAC_API size_t mac_coupler_closure_steps(const mac_coupler* coupler);
/* A host step begins at y, (columns, inputs). Where y is not finite nothing happens, unless steps of the line have
 * been taken before: then restore or reset. Does not allocate. */
MAC_API mac_status mac_coupler_begin(mac_coupler* coupler, const double* y, mac_error* error);
/* The closure, (columns, outputs), at a fraction of that host step, 0 its start and 1 its end. */
MAC_API mac_status mac_coupler_closure(const mac_coupler* coupler, double fraction, double* closure,
                                       mac_error* error);
/* The same where the host's numbers lie: strides as those of mac_step_strided, fields as those of mac_step_fields. */
MAC_API mac_status mac_coupler_begin_strided(mac_coupler* coupler, const double* y, ptrdiff_t y_component,
                                             ptrdiff_t y_column, mac_error* error);
MAC_API mac_status mac_coupler_begin_strided_float(mac_coupler* coupler, const float* y,
                                                   ptrdiff_t y_component, ptrdiff_t y_column,
                                                   mac_error* error);
MAC_API mac_status mac_coupler_begin_fields(mac_coupler* coupler, const size_t extents[3],
                                            const double* const* y, const ptrdiff_t y_strides[3],
                                            mac_error* error);
MAC_API mac_status mac_coupler_begin_fields_float(mac_coupler* coupler, const size_t extents[3],
                                                  const float* const* y, const ptrdiff_t y_strides[3],
                                                  mac_error* error);
MAC_API mac_status mac_coupler_closure_strided(const mac_coupler* coupler, double fraction, double* closure,
                                               ptrdiff_t closure_component, ptrdiff_t closure_column,
                                               mac_error* error);
MAC_API mac_status mac_coupler_closure_strided_float(const mac_coupler* coupler, double fraction,
                                                     float* closure, ptrdiff_t closure_component,
                                                     ptrdiff_t closure_column, mac_error* error);
MAC_API mac_status mac_coupler_closure_fields(const mac_coupler* coupler, double fraction,
                                              const size_t extents[3], double* const* closure,
                                              const ptrdiff_t closure_strides[3], mac_error* error);
MAC_API mac_status mac_coupler_closure_fields_float(const mac_coupler* coupler, double fraction,
                                                    const size_t extents[3], float* const* closure,
                                                    const ptrdiff_t closure_strides[3], mac_error* error);
/* What belongs in a restart file beside the saved state: so many numbers. */
MAC_API size_t mac_coupler_numbers(const mac_coupler* coupler);
MAC_API mac_status mac_coupler_save(const mac_coupler* coupler, double* numbers, mac_error* error);
MAC_API mac_status mac_coupler_restore(mac_coupler* coupler, const double* numbers, mac_error* error);

/* ---- Guards ----
 *
 * A model knows the range of its training data, where its file says. A state with limits compares: a number is
 * outside when it is beyond that range, widened on either side by `margin` times its width. */

/* Whether the file says; then arrays of `inputs` and `outputs` numbers, a null one is not wanted. */
MAC_API int mac_model_has_training_range(const mac_model* model);
MAC_API mac_status mac_model_training_range(const mac_model* model, double* input_low, double* input_high,
                                            double* output_low, double* output_high, mac_error* error);

/* What happens to numbers outside: they are counted; clipped to the range; the closure is scaled back towards the
 * middle of its range until all of it is inside; or it fades to a fallback as the inputs leave their range, and is
 * all fallback where the farthest of them is `fade` widths outside. */
enum { MAC_LIMIT_COUNT = 0, MAC_LIMIT_CLIP = 1, MAC_LIMIT_SCALE = 2, MAC_LIMIT_FADE = 3 };

typedef struct mac_limits {
  int inputs;    /* MAC_LIMIT_COUNT or MAC_LIMIT_CLIP */
  int closure;   /* any of the four */
  double margin; /* share of a range's width, >= 0 */
  double fade;   /* widths, > 0; for MAC_LIMIT_FADE alone */
  /* Ranges of the host's own, all four or none: null stands for those of the training data. */
  const double *input_low, *input_high, *output_low, *output_high;
} mac_limits;

/* What happened to a column since its limits were set. */
typedef struct mac_diagnostics {
  uint64_t steps;           /* under limits */
  uint64_t inputs_outside;  /* of them with an input outside */
  uint64_t closure_outside; /* with a closure outside, before any limit */
  uint64_t changed;         /* with numbers that a limit changed */
  uint64_t replaced;        /* with a closure that was not finite and became the fallback */
  double input_excess;      /* the farthest an input was outside, in widths of its range */
  double closure_excess;
  double
      distance; /* the farthest from the training inputs: Mahalanobis distance / sqrt(inputs); 0: not known */
} mac_diagnostics;

/* Null: no limits. Records start at zero. A clone has the limits and records of its original. */
MAC_API mac_status mac_state_set_limits(mac_state* state, const mac_limits* limits, mac_error* error);
/* What MAC_LIMIT_FADE fades to, (columns, outputs), from the next step on; at first zero. With MAC_LIMIT_FADE a
 * closure that is not finite becomes the fallback as well, and the column's memory goes to rest. */
MAC_API mac_status mac_state_set_fallback(mac_state* state, const double* fallback, mac_error* error);
MAC_API mac_status mac_state_diagnostics(const mac_state* state, size_t column, mac_diagnostics* diagnostics,
                                         mac_error* error);

/* ---- Derivatives ----
 *
 * A step maps (y, memory) to (closure, next memory). Its tangent maps a direction (dy, dmemory) to
 * (dclosure, dnext); its adjoint, the transpose, maps (gclosure, gnext) back to (gy, gmemory): the gradient of
 * whatever gclosure and gnext are the gradients of. They are computed in double precision, also for a network
 * that steps in float32. Memories are (columns, mac_state_memory_size), row-major; they are replaced in place.
 * Other arrays are (columns, inputs) and (columns, outputs), in physical units; those that come out are
 * overwritten, and may be those that go in. The angle of a frame is held fixed: where a column has none yet, it is that
 * of y, and how it depends on y is left out. */

/* Numbers in the memory of a column; 0 for null, and for a network without one. */
MAC_API size_t mac_state_memory_size(const mac_state* state);
/* The memory as numbers, (columns, memory_size), to be changed by whoever estimates it. Setting it leaves steps
 * and predictions as they are. */
MAC_API mac_status mac_state_get_memory(const mac_state* state, double* memory, mac_error* error);
MAC_API mac_status mac_state_set_memory(mac_state* state, const double* memory, mac_error* error);

/* About the step that mac_step would take from `state` at y; the state does not change. The first call on a
 * state allocates, later ones do not. */
MAC_API mac_status mac_step_tangent(mac_state* state, const double* y, const double* dy, double* dmemory,
                                    double* dclosure, mac_error* error);
MAC_API mac_status mac_step_adjoint(mac_state* state, const double* y, const double* gclosure,
                                    double* gmemory, double* gy, mac_error* error);
/* dclosure/dy of every column, (columns, outputs, inputs). */
MAC_API mac_status mac_step_jacobian(mac_state* state, const double* y, double* jacobian, mac_error* error);
/* Strides as those of mac_step_strided: dy and gy have those of y, dclosure and gclosure those of a closure. */
MAC_API mac_status mac_step_tangent_strided(mac_state* state, const double* y, const double* dy,
                                            ptrdiff_t y_component, ptrdiff_t y_column, double* dmemory,
                                            double* dclosure, ptrdiff_t closure_component,
                                            ptrdiff_t closure_column, mac_error* error);
MAC_API mac_status mac_step_adjoint_strided(mac_state* state, const double* y, const double* gclosure,
                                            ptrdiff_t closure_component, ptrdiff_t closure_column,
                                            double* gmemory, double* gy, ptrdiff_t y_component,
                                            ptrdiff_t y_column, mac_error* error);

/* A tape remembers where up to `steps` steps started from, for derivatives along the window afterwards:
 * tangents from step 0 on, adjoints from the last one back. It belongs to one thread at a time. */
MAC_API mac_status mac_tape_create(const mac_model* model, size_t columns, size_t steps, mac_tape** tape,
                                   mac_error* error);
MAC_API void mac_tape_free(mac_tape* tape);          /* null is allowed */
MAC_API void mac_tape_clear(mac_tape* tape);         /* of all steps; null is allowed */
MAC_API size_t mac_tape_steps(const mac_tape* tape); /* recorded so far; 0 for null */
/* mac_step, recorded. */
MAC_API mac_status mac_tape_step(mac_tape* tape, mac_state* state, const double* y, double* closure,
                                 mac_error* error);
MAC_API mac_status mac_tape_step_strided(mac_tape* tape, mac_state* state, const double* y,
                                         ptrdiff_t y_component, ptrdiff_t y_column, double* closure,
                                         ptrdiff_t closure_component, ptrdiff_t closure_column,
                                         mac_error* error);
/* Of recorded step number `step`, from 0. */
MAC_API mac_status mac_tape_tangent(mac_tape* tape, size_t step, const double* dy, double* dmemory,
                                    double* dclosure, mac_error* error);
MAC_API mac_status mac_tape_adjoint(mac_tape* tape, size_t step, const double* gclosure, double* gmemory,
                                    double* gy, mac_error* error);
MAC_API mac_status mac_tape_tangent_strided(mac_tape* tape, size_t step, const double* dy,
                                            ptrdiff_t y_component, ptrdiff_t y_column, double* dmemory,
                                            double* dclosure, ptrdiff_t closure_component,
                                            ptrdiff_t closure_column, mac_error* error);
MAC_API mac_status mac_tape_adjoint_strided(mac_tape* tape, size_t step, const double* gclosure,
                                            ptrdiff_t closure_component, ptrdiff_t closure_column,
                                            double* gmemory, double* gy, ptrdiff_t y_component,
                                            ptrdiff_t y_column, mac_error* error);

#ifdef __cplusplus
}
#endif

#endif /* MAC_MAC_H */
