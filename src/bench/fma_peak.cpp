// The machine's arithmetic peak: independent chains of fused multiply-adds in registers.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_peak.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/unroll.hpp"
#include "network/cpu/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {
namespace {

/// Floating-point operations done; the sum goes to `sink`, so that they have to be.
template <class T>
double fma_chains(std::size_t rounds, T* sink) {
  const Tag<T> d;
  constexpr std::size_t kChains = 12;  // more than latency times throughput, fewer than registers
  const auto factor = hn::Set(d, T(0.999)), term = hn::Set(d, T(1e-3));
  Vector<T> chain[kChains];
  MAC_UNROLL for (std::size_t k = 0; k < kChains; ++k) chain[k] = hn::Set(d, static_cast<T>(k));
  for (std::size_t i = 0; i < rounds; ++i) {
    MAC_UNROLL for (std::size_t k = 0; k < kChains; ++k) chain[k] = hn::MulAdd(chain[k], factor, term);
  }
  for (std::size_t k = 1; k < kChains; ++k) chain[0] = hn::Add(chain[0], chain[k]);
  *sink = fold_lanes(d, chain[0]);
  return 2.0 * static_cast<double>(rounds * kChains * kLanes<T>);
}

double fma_chains_float(std::size_t rounds, float* sink) { return fma_chains(rounds, sink); }
double fma_chains_double(std::size_t rounds, double* sink) { return fma_chains(rounds, sink); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "bench/benchmark.hpp"

namespace mac {
HWY_EXPORT(fma_chains_float);
HWY_EXPORT(fma_chains_double);

namespace {

double fma_chains(std::size_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(fma_chains_float)(rounds, sink);
}
double fma_chains(std::size_t rounds, double* sink) {
  return HWY_DYNAMIC_DISPATCH(fma_chains_double)(rounds, sink);
}

/// The best of many short runs on this thread, so that an interruption does not count.
template <class T>
double best_rate() {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int run = 0; run < 100; ++run) {
    volatile T kept;
    T sink;
    const auto begin = Clock::now();
    const double operations = fma_chains(100000, &sink);
    best = std::max(best, operations / std::chrono::duration<double>(Clock::now() - begin).count());
    kept = sink;
    static_cast<void>(kept);
  }
  return 1e-9 * best;
}

}  // namespace

template <class T>
double fma_peak_gflops(int threads) {
  if (threads <= 1) return best_rate<T>();
  // All at once, whoever else is there: threads that share a core share its rate.
  std::vector<std::future<double>> rates;
  for (int i = 0; i < threads; ++i) rates.push_back(std::async(std::launch::async, best_rate<T>));
  double total = 0;
  for (std::future<double>& rate : rates) total += rate.get();
  return total;
}

template double fma_peak_gflops<float>(int);
template double fma_peak_gflops<double>(int);

}  // namespace mac
#endif
