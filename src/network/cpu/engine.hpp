// The sequence engine with its inner settings, for tests; everyone else takes make_cpu_engine of
// <mac/network.hpp>.
#pragma once

#include <mac/network.hpp>

namespace mac::cpu {

struct EngineOptions {
  /// A tape keeps the records of whole sequences up to this much memory; beyond, only states at intervals.
  std::size_t record_bytes = std::size_t{128} << 20;
};

template <class T>
std::unique_ptr<SequenceEngine<T>> make_engine(const NetworkShape& shape, int threads, EngineOptions options);

}  // namespace mac::cpu
