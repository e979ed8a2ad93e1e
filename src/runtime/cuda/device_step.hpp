// Steps of columns whose fields and memory are in device memory: what the kernels take, and how they are launched.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <mac/hold.hpp>
#include <mac/host_device.hpp>
#include <optional>

#include "network/cuda/launch_plan.hpp"
#include "network/cuda/packed_network.hpp"
#include "network/normaliser.hpp"

namespace mac::cuda {

/// A host's array: component i of the column at (a, b, c) of a grid is number
/// i component + a strides[0] + b strides[1] + c strides[2]; it is column a + extents[0] (b + extents[1] c).
struct DeviceField {
  void* data;
  bool is_float;  // else double
  std::ptrdiff_t component;
  unsigned extents[2];
  std::ptrdiff_t strides[3];

  MAC_HOST_DEVICE std::ptrdiff_t place(std::size_t i, unsigned column) const {
    const unsigned b = column / extents[0];
    return static_cast<std::ptrdiff_t>(i) * component +
           static_cast<std::ptrdiff_t>(column % extents[0]) * strides[0] +
           static_cast<std::ptrdiff_t>(b % extents[1]) * strides[1] +
           static_cast<std::ptrdiff_t>(b / extents[1]) * strides[2];
  }
  MAC_HOST_DEVICE double get(std::size_t i, unsigned column) const {
    const std::ptrdiff_t at = place(i, column);
    return is_float ? static_cast<double>(static_cast<const float*>(data)[at])
                    : static_cast<const double*>(data)[at];
  }
  /// What was stored: the number as the host has it.
  MAC_HOST_DEVICE double put(std::size_t i, unsigned column, double value) const {
    const std::ptrdiff_t at = place(i, column);
    if (!is_float) return static_cast<double*>(data)[at] = value;
    return static_cast<float*>(data)[at] = static_cast<float>(value);
  }
};

/// The first thing that was not finite since it was last asked for: an input, else a closure, of the lowest column.
struct Trouble {
  static constexpr unsigned long long none = ~0ull, closure = 1ull << 63;
  static MAC_HOST_DEVICE unsigned long long of(bool in_closure, std::size_t component, unsigned column) {
    return (in_closure ? closure : 0) | static_cast<unsigned long long>(column) << 24 | component;
  }
};

/// What columns remember. Their recurrent states lie in tiles, one after the other, as a block of threads wants them in
/// shared memory: (state_size, group), columns of a group side by side.
struct ColumnMemory {
  int columns, states, outputs;
  int group;  // columns of a tile
  float* recurrent;
  double *closure, *previous;  // (outputs, columns): the last two predictions
  std::uint64_t* steps;        // (columns)
  double* angles;              // (columns), NaN before the first step: of closures in a frame, else null
  unsigned long long* trouble;

  MAC_HOST_DEVICE std::size_t tiles() const {
    return (static_cast<std::size_t>(columns) + static_cast<std::size_t>(group) - 1) /
           static_cast<std::size_t>(group);
  }
  /// Numbers of a tile, whole quads.
  MAC_HOST_DEVICE std::size_t tile_size() const {
    return (static_cast<std::size_t>(states) * static_cast<std::size_t>(group) + 3) / 4 * 4;
  }
  /// The place of state k of a column.
  MAC_HOST_DEVICE std::size_t place(int k, unsigned column) const {
    const unsigned tile = column / static_cast<unsigned>(group), g = column % static_cast<unsigned>(group);
    return tile * tile_size() + static_cast<std::size_t>(k) * static_cast<std::size_t>(group) + g;
  }
};

struct DeviceStep {
  PackedSizes network;
  int modes;  // that the inputs and the closure begin with, in a frame (coupling/fourier_frame.hpp); 0: no frame
  double* chosen;   // (columns): the angle of this step, kept before or that of y
  double* factors;  // (modes, 2, columns): cosine and sine of k times it
  ColumnMemory memory;
  const float* weights;          // packed, whole quads
  NormaliserView input, output;  // in device memory
  const unsigned char* mask;     // (columns), or null
  DeviceField y, closure;
};

struct DeviceStepLaunch {
  int variant;  // place in the table of compiled kernels
  int group;
  int blocks;
  std::size_t bytes;  // of shared memory
};

/// For so many columns, on the current device; none if not even one column fits. The kernels are on the device then, so
/// that a step that is captured loads nothing.
cudaError_t prepare_step(const PackedSizes& network, int columns, const SharedMemory& shared, int processors,
                         std::optional<DeviceStepLaunch>& launch);

cudaError_t launch_step(const DeviceStep& step, const DeviceStepLaunch& launch, cudaStream_t stream);
cudaError_t launch_closure_at(const ColumnMemory& memory, HeldClosure held, double fraction,
                              const DeviceField& out, cudaStream_t stream);

/// Columns taken out of their tiles, on the device.
struct ColumnRecords {
  float* recurrent;            // (count, states)
  double *closure, *previous;  // (count, outputs)
  std::uint64_t* steps;        // (count)
  double* angles;              // (count), or null
};
enum class Exchange { save, restore };
/// Column columns[k] of the memory to or from record k.
cudaError_t launch_exchange(Exchange way, const ColumnMemory& memory, const unsigned* columns, int count,
                            const ColumnRecords& records, cudaStream_t stream);

}  // namespace mac::cuda
