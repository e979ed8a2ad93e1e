#include <Random123/philox.h>

#include <cmath>
#include <mac/random.hpp>
#include <numbers>

namespace mac {

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint32_t index)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{0, 0, index, static_cast<std::uint32_t>(purpose)} {}

std::uint32_t RandomStream::bits() {
  if (used_ == 4) {
    const r123::Philox4x32::ctr_type counter{{counter_[0], counter_[1], counter_[2], counter_[3]}};
    const r123::Philox4x32::key_type key{{key_[0], key_[1]}};
    const auto words = r123::Philox4x32()(counter, key);
    for (unsigned i = 0; i < 4; ++i) block_[i] = words[i];
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

double RandomStream::uniform() {
  const std::uint64_t high = bits() >> 5;  // 27 bits
  const std::uint64_t low = bits() >> 6;   // 26 bits
  return static_cast<double>((high << 26) | low) * 0x1p-53;
}

double RandomStream::uniform(double low, double high) { return low + (high - low) * uniform(); }

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2 * std::log1p(-uniform()));  // 1 - u is in (0, 1]
  const double angle = 2 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  const std::uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  for (;;) {
    const std::uint64_t high = bits();
    const std::uint64_t value = (high << 32) | bits();
    if (value < limit) return value % bound;
  }
}

}  // namespace mac
