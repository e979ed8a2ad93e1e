#include <cmath>
#include <mac/noise.hpp>
#include <mac/random.hpp>

namespace mac {

double NoiseInputs::phi(double step) const { return time > 0 ? std::exp(-step / time) : 0; }

void draw_noise(const NoiseStream& of, std::uint64_t n, std::span<double> z) {
  RandomStream random(of.seed, of.purpose, of.stream, of.member);
  random.skip_blocks(n * ((z.size() + 1) / 2));  // a block gives two numbers
  random.normals(z);
}

RedNoise::RedNoise(const NoiseInputs& inputs, double step, std::size_t columns)
    : channels_(inputs.channels),
      phi_(inputs.phi(step)),
      kick_(std::sqrt(1 - phi_ * phi_)),
      values_(columns * channels_),
      z_(channels_) {}

void RedNoise::advance(std::size_t j, const NoiseStream& stream, std::uint64_t n) {
  draw_noise(stream, n, z_);
  double* const e = of(j);
  for (std::size_t i = 0; i < channels_; ++i) e[i] = n == 0 ? z_[i] : phi_ * e[i] + kick_ * z_[i];
}

}  // namespace mac
