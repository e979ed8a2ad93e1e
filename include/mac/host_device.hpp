// Functions that run on the host and, compiled by nvcc, on a CUDA device as well.
#pragma once

#ifdef __CUDACC__
#define MAC_HOST_DEVICE __host__ __device__
#else
#define MAC_HOST_DEVICE
#endif
