// Kernels for equations that came as text: compiled by NVRTC, NVIDIA's compiler at run time, from the same headers as those
// of the built-in systems, which are inside the program (cmake/embed_headers.cmake). The library is opened when it is
// first needed; without it the program does everything else.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>
#include <mac/layer_kinds.hpp>
#include <string>

#include "systems/reduced_equations.hpp"

namespace mac::cuda {

/// A kernel of a header: "mac::cuda::coupled_step_kernel<8, mac::cuda::OwnEquations>" of "training/cuda/coupled_step.cuh".
struct KernelName {
  std::string header, name;
};
/// The kernel of mac::cuda with these template arguments, and OwnEquations as the last one.
KernelName own_kernel(std::string header, const std::string& kernel,
                      std::initializer_list<std::string> arguments);
/// Whether a template's argument holds, and the packed layout of networks of a kind of any sizes.
inline std::string argument(bool holds) { return holds ? "true" : "false"; }
std::string packed_layout(LayerKind kind);

/// Why no kernel can be compiled here; empty where it can.
std::string runtime_compiler_unavailable();

/// Machine code for a device of the given architecture (90: compute capability 9.0) and the name of the kernel in it. Needs
/// no device. Throws Error with the compiler's words.
struct CompiledKernel {
  std::string code, name;
};
CompiledKernel compile_kernel(const WrittenEquations& equations, const KernelName& kernel, int architecture);

/// The kernel on the current device: compiled once in a process, which takes a second or two.
const void* written_kernel(const WrittenEquations& equations, const KernelName& kernel);

/// What kernels take as their equations: they have no numbers of their own.
struct NoNumbers {};

/// Launches it with exactly the parameters that it has.
template <class... Parameters>
void launch_written(const void* kernel, dim3 grid, int threads, std::size_t shared, cudaStream_t stream,
                    const Parameters&... parameters) {
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&parameters))...};
  cudaLaunchKernel(kernel, grid, dim3(static_cast<unsigned>(threads)), pointers, shared, stream);
}

}  // namespace mac::cuda
