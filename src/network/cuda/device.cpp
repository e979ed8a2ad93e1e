#include "network/cuda/device.hpp"

#include <mac/cuda.hpp>

namespace mac {

bool cuda_compiled() { return true; }

std::string cuda_unavailable() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return "";
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver)  // also what the runtime says where there is no driver at all
    return fmt::format("no CUDA device can be used: this machine has no NVIDIA driver for CUDA {} or newer",
                       CUDART_VERSION / 1000);
  return fmt::format("no CUDA device can be used: {}",
                     status == cudaSuccess ? "none was found" : cudaGetErrorString(status));
}

std::string cuda_description() {
  const std::string version = fmt::format("CUDA {}.{}", CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
  if (!cuda_unavailable().empty()) return version + " (no device on this machine)";
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, 0), "asking for its name");
  return fmt::format("{} ({})", version, properties.name);
}

namespace cuda {

const SharedMemory& shared_memory() {
  static const SharedMemory memory = [] {
    if (const std::string reason = cuda_unavailable(); !reason.empty()) throw Error(reason);
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "asking for its properties");
    return SharedMemory{properties.sharedMemPerBlockOptin, properties.sharedMemPerMultiprocessor,
                        properties.reservedSharedMemPerBlock};
  }();
  return memory;
}

void allow_shared_memory(const void* kernel, std::size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "giving a kernel its shared memory");
}

int multiprocessors() {
  static const int count = [] {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0), "asking for its size");
    return value;
  }();
  return count;
}

bool has_clusters() {
  static const bool has = [] {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrClusterLaunch, 0), "asking for its clusters");
    return value != 0;
  }();
  return has;
}

std::size_t device_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for its memory");
  return total;
}

}  // namespace cuda

}  // namespace mac
