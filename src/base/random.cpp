#include <Random123/philox.h>

#include <cmath>
#include <mac/random.hpp>
#include <numbers>

namespace mac {

namespace {

/// 27 and 26 bits of two words: in [0, 1).
double fraction(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high >> 5} << 26) | (low >> 6)) * 0x1p-53;
}

/// Box–Muller
struct NormalPair {
  double first, second;
  NormalPair(double u, double v) {
    const double radius = std::sqrt(-2 * std::log1p(-u));  // 1 - u is in (0, 1]
    const double angle = 2 * std::numbers::pi * v;
    first = radius * std::cos(angle);
    second = radius * std::sin(angle);
  }
};

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint32_t index, std::uint32_t member)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      counter_{0, 0, index, static_cast<std::uint32_t>(purpose) | member << 8} {}

void RandomStream::skip_blocks(std::uint64_t blocks) {
  counter_[0] = static_cast<std::uint32_t>(blocks);
  counter_[1] = static_cast<std::uint32_t>(blocks >> 32);
}

std::array<std::uint32_t, 4> RandomStream::next_block() {
  const r123::Philox4x32::ctr_type counter{{counter_[0], counter_[1], counter_[2], counter_[3]}};
  const r123::Philox4x32::key_type key{{key_[0], key_[1]}};
  const auto words = r123::Philox4x32()(counter, key);
  if (++counter_[0] == 0) ++counter_[1];
  return {words[0], words[1], words[2], words[3]};
}

std::uint32_t RandomStream::bits() {
  if (used_ == 4) {
    block_ = next_block();
    used_ = 0;
  }
  return block_[used_++];
}

double RandomStream::uniform() {
  const std::uint32_t high = bits();
  return fraction(high, bits());
}

double RandomStream::uniform(double low, double high) { return low + (high - low) * uniform(); }

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double u = uniform();
  const NormalPair pair(u, uniform());
  spare_normal_ = pair.second;
  has_spare_ = true;
  return pair.first;
}

void RandomStream::normals(std::span<double> values) {
  std::size_t i = 0;
  while (i < values.size() && (has_spare_ || used_ != 4)) values[i++] = normal();
  for (; i + 2 <= values.size(); i += 2) {  // a pair takes a whole block
    const auto words = next_block();
    const NormalPair pair(fraction(words[0], words[1]), fraction(words[2], words[3]));
    values[i] = pair.first;
    values[i + 1] = pair.second;
  }
  if (i < values.size()) values[i] = normal();
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
