// Training on the device: batches from data in device memory, the closure loss, AdamW. The same numbers as on
// the CPU (training/batches, closure_loss, adamw) up to rounding: which samples, symmetric images and noise a
// step sees are functions of (seed, step) there and here.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace mac::cuda {

/// One sample of a batch: where it starts in the data, and the symmetric image of it that is trained on.
struct Sample {
  std::size_t resolved, closure;  // offsets of its first rows in the data, in numbers
  std::uint64_t seed;             // of the noise, with the index of its stream
  std::uint32_t stream;
  double angle;   // translation: mode k turns by k · angle
  int reflected;  // 1: the real parts change their sign, after the translation
  int shift;      // cyclic shift of the components
};

/// Data and scales in device memory, in double as in the data file.
struct BatchSource {
  const double *resolved, *closure;                                     // rows of d_in and d_out numbers
  const double *input_mean, *input_scale, *output_mean, *output_scale;  // (d_in), (d_out)
  int d_in, d_out;
  int modes;  // Fourier modes that the translation turns: components k and modes + k; 0: none
};

/// x (sample, time, d_in): normalised, with noise of the given standard deviation (0: none);
/// target (sample, time, d_out): normalised.
void launch_make_batch(const BatchSource& source, const Sample* samples, int count, int time, double noise,
                       float* x, float* target, cudaStream_t stream);

/// With e = y − target: d_y = 2 w_j e / (batch · time · d_out), and losses[model] the mean of w_j e². y,
/// target and d_y are (model, batch, time, d_out); weights (d_out); sums (model · batch) is working memory.
void launch_closure_loss(const float* y, const float* target, const double* weights, int models, int batch,
                         int time, int d_out, float* d_y, double* sums, double* losses, cudaStream_t stream);

/// norms[model] = ‖gradient of the model‖.
void launch_gradient_norm(const float* gradient, int models, std::size_t parameters, double* norms,
                          cudaStream_t stream);

/// The numbers of one AdamW step, which all models share (see training/adamw.cpp).
struct AdamWStep {
  float keep;             // 1 − lr · weight decay
  float fresh1;           // 1 − beta1
  float rate;             // lr / (1 − beta1ⁿ)
  float root_correction;  // √(1 − beta2ⁿ)
  double clip;            // longest gradient; a longer one is scaled down to it
};
AdamWStep adamw_step(std::size_t steps_taken, double lr, double beta1, double weight_decay, double clip);

/// All arrays are (model, parameters); norms (model) are those of the gradients.
void launch_adamw(const AdamWStep& step, float* parameters, const float* gradient, float* first_moment,
                  float* second_moment, const double* norms, int models, std::size_t count,
                  cudaStream_t stream);

}  // namespace mac::cuda
