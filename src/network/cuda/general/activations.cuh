// Functions of single numbers that the general path's kernels take in either scalar: those of time_columns.cuh for float,
// and of CUDA's mathematics, correct to a unit or two in the last place, for double.
#pragma once

#include "network/cuda/time_columns.cuh"

namespace mac::cuda {

__device__ inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
__device__ inline double silu(double x) { return x * sigmoid(x); }
__device__ inline double silu_slope(double x, double s) { return s * fma(x, 1 - s, 1.0); }
__device__ inline double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }

/// 2ˣ
__device__ inline float power_of_2(float x) { return exp2_approx(x); }
__device__ inline double power_of_2(double x) { return exp2(x); }

}  // namespace mac::cuda
