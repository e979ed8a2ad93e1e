// The sequence engine with its inner settings, for tests; everyone else takes make_cpu_engine of
// <mac/network.hpp>.
#pragma once

#include <mac/network.hpp>

#include "network/gradient_share.hpp"

namespace mac::cpu {

/// Slots that gradients are summed in, at most.
inline constexpr std::size_t largest_slot_count = 16;

struct EngineOptions {
  /// A tape keeps the records of whole sequences up to this much memory; beyond, only states at intervals.
  std::size_t record_bytes = std::size_t{128} << 20;
};

/// `share`: gradients are those of all ranks; it outlives the engine.
template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, int threads, EngineOptions options,
                                               GradientShare<T>* share = nullptr);

/// As make_cpu_engine.
template <class T>
std::unique_ptr<SequenceEngine<T>> make_shared_engine(const NetworkShape& shape, int threads,
                                                      GradientShare<T>& share);

}  // namespace mac::cpu
