// Counter-based random numbers (Philox 4x32-10 from Random123).
//
// A stream is named by (seed, purpose, index): trajectory 17 of the test split, tensor 3 of a network, the
// noise of training step 900. Streams are independent of each other and of the order in which they are used,
// so results don't depend on the thread count or on what else is computed.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace mac {

/// What a stream is for. The values are part of the file formats: never renumber.
enum class Purpose : std::uint32_t {
  train_data = 0,
  validation_data = 1,
  test_data = 2,
  ood_data = 3,
  statistics_data = 4,
  weights = 16,
  batches = 17,
  noise = 18,
  augmentation = 19,
  stochastic_closure = 20,
  diagnosis = 21,
  sites = 22,
  training_noise = 23,
  train_parameters = 32,  // of each split's trajectories, in the order of their data
  validation_parameters = 33,
  test_parameters = 34,
  ood_parameters = 35,
  statistics_parameters = 36,
};

/// Seen by plug-ins, though it is compiled with the runtime, which hides what it does not offer.
class [[gnu::visibility("default")]] RandomStream {
 public:
  /// `member` (below 2^24) tells streams of one index apart.
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint32_t index, std::uint32_t member = 0);

  /// Passes over blocks of four words, which are two normal numbers; before anything is drawn.
  void skip_blocks(std::uint64_t blocks);

  std::uint32_t bits();                      // 32 uniform bits
  double uniform();                          // in [0, 1), 53 bits
  double uniform(double low, double high);   // in [low, high)
  double normal();                           // standard normal (Box–Muller)
  std::uint64_t below(std::uint64_t bound);  // in 0..bound-1, unbiased

  /// As many calls of normal(), in less time.
  void normals(std::span<double> values);

 private:
  std::array<std::uint32_t, 4> next_block();

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;  // words of block_ already handed out
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace mac
