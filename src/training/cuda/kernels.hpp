// Training on the device: batches from data in device memory, the closure loss, AdamW. The same numbers as on
// the CPU (training/batches, closure_loss, adamw) up to rounding: which samples, symmetric images and noise a
// step sees are functions of (seed, step) there and here.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "network/normaliser.hpp"
#include "training/adamw.hpp"

namespace mac::cuda {

/// One sample of a batch: where it starts in the data, and the symmetric image of it that is trained on.
struct Sample {
  std::size_t resolved, closure;  // offsets of its first rows in the data, in numbers
  std::uint64_t seed;             // of the noise, with the index of its stream
  std::uint32_t stream;
  double angle;           // translation: mode k turns by k · angle
  int reflected;          // 1: the real parts change their sign, after the translation
  int shift;              // cyclic shift of the components
  double sign = 1;        // of all of them
  std::size_t given = 0;  // as resolved and closure
};

/// What the network reads from outside, behind the resolved variables: numbers reads[0], reads[1], ... of rows.
struct GivenSource {
  const double* rows = nullptr;  // of `size` numbers
  const int* reads = nullptr;    // (count)
  int size = 0, count = 0;
};

/// Data and scales in device memory, in double as in the data file.
struct BatchSource {
  const double *resolved, *closure;  // rows of d_in and d_out numbers
  NormaliserView input, output;      // input: (d_in + given.count)
  int d_in, d_out;
  int modes;  // Fourier modes that the translation turns: components k and modes + k; 0: none
  GivenSource given = {};
};

/// Largest d_in and d_out of a BatchSource.
inline constexpr int most_components = 64;

/// x (sample, time, d_in + given.count): normalised, the variables with noise of the given standard deviation (0: none);
/// target (sample, time, d_out): normalised.
void launch_make_batch(const BatchSource& source, const Sample* samples, int count, int time, double noise,
                       float* x, float* target, cudaStream_t stream);

/// Blocks a sequence in the closure loss; each leaves its own sum.
inline constexpr int loss_parts = 8;

/// The closures e = y − target of all models, and where a loss of them leaves its value and its gradient.
struct ClosureErrors {
  int models, batch, time, d_out;
  const float *y, *target;  // (model, batch, time, d_out)
  float* d_y;               // likewise
  double* sums;             // (model · batch · loss_parts), working memory
  double* losses;           // (model)
};

/// d_y = 2 w_j e / (batch · time · d_out), and losses[model] the mean of w_j e²; weights (d_out).
void launch_closure_loss(const ClosureErrors& errors, const double* weights, cudaStream_t stream);

/// losses[model] = share · Σ of the model's `batch` sums.
void launch_mean_loss(const double* sums, int models, int batch, double share, double* losses,
                      cudaStream_t stream);

/// sizes (sample, d_in): root mean squares of the resolved variables of each sample in units of their scale,
/// with a floor; variables v of the same groups[v] share one.
void launch_variable_sizes(const BatchSource& source, const Sample* samples, const int* groups, int count,
                           int time, double floor, double* sizes, cudaStream_t stream);

/// What errors are relative to.
struct RelativeSizes {
  const double* sizes;  // (model, batch, d_in), of launch_variable_sizes
  const int* targets;   // (d_out): the variable that each component of the closure drives
  int d_in;
  double floor;  // of an error
};

/// The relative closure loss (training/losses.hpp): Σ_j over the batch of norm_j / sizes[targets[j]] with
/// norm_j² = mean_t e_j² + floor², divided by batch · d_out.
void launch_relative_loss(const ClosureErrors& errors, const RelativeSizes& relative, cudaStream_t stream);

/// norms[model] = ‖gradient of the model‖.
void launch_gradient_norm(const float* gradient, int models, std::size_t parameters, double* norms,
                          cudaStream_t stream);

/// A step of any optimiser, which all models share.
struct DeviceStep {
  AdamStep<float> adam;
  double clip = INFINITY;  // longest gradient; a longer one is scaled down to it
  float newest_share = 0;  // of the new weights in their average
};

/// Arrays (model, parameters) in device memory; no average: null.
struct AdamWArrays {
  float *parameters, *first_moment, *second_moment, *average;
};

/// gradient is (model, parameters) too; norms (model) are those of the gradients.
void launch_adamw(const DeviceStep& step, const AdamWArrays& arrays, const float* gradient,
                  const double* norms, int models, std::size_t count, cudaStream_t stream);

}  // namespace mac::cuda
