// Random numbers and symmetric images as on the CPU: functions of (seed, purpose, stream, place).
#pragma once

#include <Random123/philox.h>

#include <mac/random.hpp>

#include "training/cuda/kernels.hpp"

namespace mac::cuda {

/// 53 bits in [0, 1), as RandomStream::uniform().
__device__ inline double uniform(unsigned a, unsigned b) {
  const unsigned long long high = a >> 5, low = b >> 6;
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

/// Numbers 2·pair and 2·pair + 1 of RandomStream(seed, Purpose::noise, stream).normal(): each pair takes one
/// block of the generator.
__device__ inline double2 normal_pair(std::uint64_t seed, std::uint32_t stream, std::uint64_t pair) {
  const r123::Philox4x32::ctr_type counter{{static_cast<std::uint32_t>(pair),
                                            static_cast<std::uint32_t>(pair >> 32), stream,
                                            static_cast<std::uint32_t>(Purpose::noise)}};
  const r123::Philox4x32::key_type key{
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counter, key);
  const double radius = ::sqrt(-2 * ::log1p(-uniform(words[0], words[1])));
  double sine, cosine;
  sincos(2 * 3.14159265358979323846 * uniform(words[2], words[3]), &sine, &cosine);
  return {radius * cosine, radius * sine};
}

/// Consecutive numbers of that stream, from any place on.
class NoiseRow {
 public:
  __device__ NoiseRow(std::uint64_t seed, std::uint32_t stream, std::uint64_t first)
      : seed_(seed), stream_(stream), number_(first) {}

  __device__ double next() {
    const bool even = number_ % 2 == 0;
    if (even || !drawn_) pair_ = normal_pair(seed_, stream_, number_ / 2);
    drawn_ = true;
    ++number_;
    return even ? pair_.x : pair_.y;
  }

 private:
  std::uint64_t seed_;
  std::uint32_t stream_;
  std::uint64_t number_;
  bool drawn_ = false;
  double2 pair_{};
};

/// The rotations of a sample's Fourier modes, (cosine, sine) of (k + 1) · angle, for the block that works on
/// it. All threads call it; ends in a barrier.
__device__ inline const double2* rotations_of(const Sample& sample, int modes) {
  __shared__ double2 rotations[most_components / 2];
  for (int k = threadIdx.x; k < modes; k += blockDim.x)
    sincos((k + 1) * sample.angle, &rotations[k].y, &rotations[k].x);
  __syncthreads();
  return rotations;
}

/// Component i of a row's symmetric image: translation, reflection, shift and sign, as Augmentation::apply.
__device__ inline double component_of_image(const double* row, int i, int count, int modes,
                                            const double2* rotations, const Sample& sample) {
  const auto at = [&](int j) { return row[sample.shift == 0 ? j : (j + sample.shift) % count]; };
  if (i >= 2 * modes) return sample.sign * at(i);
  const int k = i < modes ? i : i - modes;
  const auto [cosine, sine] = rotations[k];
  const double phi = at(k), psi = at(modes + k);
  if (i >= modes) return sample.sign * (phi * sine + psi * cosine);
  const double turned = phi * cosine - psi * sine;
  return sample.reflected ? -sample.sign * turned : sample.sign * turned;
}

/// The k-th of the network's inputs from outside at time t of a sample.
__device__ inline float given_input(const BatchSource& source, const Sample& sample, int t, int k) {
  const auto& [rows, reads, size, count] = source.given;
  const double value = rows[sample.given + static_cast<std::size_t>(t) * size + reads[k]];
  return static_cast<float>(source.input.to_network(source.d_in + k, value));
}

}  // namespace mac::cuda
