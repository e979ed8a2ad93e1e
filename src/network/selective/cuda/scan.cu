// What the scans of all kinds share beside their kernels: how they are cut, and sums over blocks of channels.
#include "network/selective/cuda/scan.cuh"

namespace mac::selective {

namespace {

template <class T>
__global__ void sum_BC_kernel(T* to, std::size_t stride, const T* d_BC, int blocks, std::size_t count,
                              int columns) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  T sum = 0;
  for (int block = 0; block < blocks; ++block) sum += d_BC[block * count + i];
  to[i / columns * stride + i % columns] = sum;
}

}  // namespace

template <class T>
ScanShape scan_shape(const ScanSizes& sizes) {
  ScanShape shape{};
  with_shape<T>(sizes.states, [&](auto of) { shape = {of.states, of.channels}; });
  return shape;
}

template <class T>
ScanSegments scan_segments(const ScanSizes& sizes, std::size_t batch, std::size_t time_points) {
  // Blocks that keep an H200 busy; not asked of the device, so that every device sums in the same order. To scan twice
  // costs two fifths more, and segments of fewer than 256 steps more than that.
  constexpr int busy = 396, shortest = 256, tile = 32;
  const ScanShape shape = scan_shape<T>(sizes);
  const int time = static_cast<int>(time_points),
            blocks =
                static_cast<int>(batch) * ((sizes.inner + shape.block_channels - 1) / shape.block_channels);
  const int most = busy / blocks < time / shortest ? busy / blocks : time / shortest;
  if (most < 3) return {1, time};
  const int of_segment = ((time + most - 1) / most + tile - 1) / tile * tile;
  return {(time + of_segment - 1) / of_segment, of_segment};
}

// Three numbers for each of their states take no more than 96 KiB of shared memory, or there is a warp of them.
template <class T>
int step_block_channels(const ScanSizes& sizes) {
  return static_cast<std::size_t>(sizes.states) * sizeof(T) <= 256 ? most_step_channels : 32;
}

template <class T>
int step_channel_blocks(const ScanSizes& sizes) {
  const int channels = step_block_channels<T>(sizes);
  return (sizes.inner + channels - 1) / channels;
}

template <class T>
void sum_BC(T* to, std::size_t stride, const T* d_BC, int blocks, std::size_t rows, int states,
            cudaStream_t stream) {
  const std::size_t count = rows * 2 * static_cast<std::size_t>(states);
  sum_BC_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(to, stride, d_BC, blocks,
                                                                                count, 2 * states);
}

#define MAC_SCALAR(T)                                                                 \
  template ScanShape scan_shape<T>(const ScanSizes&);                                 \
  template int step_block_channels<T>(const ScanSizes&);                              \
  template int step_channel_blocks<T>(const ScanSizes&);                              \
  template ScanSegments scan_segments<T>(const ScanSizes&, std::size_t, std::size_t); \
  template void sum_BC<T>(T*, std::size_t, const T*, int, std::size_t, int, cudaStream_t);
MAC_SCALAR(float)
MAC_SCALAR(double)
#undef MAC_SCALAR

}  // namespace mac::selective
