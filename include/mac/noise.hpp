// The noise that a stochastic closure network reads: the last inputs of every step are red noise of variance 1,
//
//   e_0 = z_0,   e_n = phi e_{n-1} + sqrt(1 - phi^2) z_n,   phi = exp(-step / time),   z ~ N(0, 1)
//
// z_n is a function of (seed, stream, member, n): a trajectory or column is a stream, the runs of an ensemble are its
// members. Nothing depends on the machine's threads, on what else runs, or on where a run was interrupted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mac/random.hpp>
#include <span>
#include <vector>

namespace mac {

/// What a network reads beside the resolved variables.
struct NoiseInputs {
  std::size_t channels = 0;  // none: the network is deterministic
  double time = 0;           // over which the noise is correlated; 0: white

  double phi(double step) const;
  bool operator==(const NoiseInputs&) const = default;
};

/// Whose noise.
struct NoiseStream {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  std::uint32_t member = 0;  // below 2^24
  Purpose purpose = Purpose::stochastic_closure;
};

/// z_n of all channels.
void draw_noise(const NoiseStream& stream, std::uint64_t n, std::span<double> z);

/// e of some columns, step after step.
class RedNoise {
 public:
  RedNoise(const NoiseInputs& inputs, double step, std::size_t columns);

  std::size_t channels() const { return channels_; }
  /// Column j goes from e_{n-1} to e_n.
  void advance(std::size_t j, const NoiseStream& stream, std::uint64_t n);
  double* of(std::size_t j) { return values_.data() + j * channels_; }  // (channels), to save and to restore
  const double* of(std::size_t j) const { return values_.data() + j * channels_; }
  const std::vector<double>& values() const { return values_; }  // (columns, channels)

 private:
  std::size_t channels_;
  double phi_, kick_;
  std::vector<double> values_, z_;
};

}  // namespace mac
