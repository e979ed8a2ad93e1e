// A team of helpers belongs to the thread that calls parallel_for; it is made when first needed and ends with
// that thread. One loop:
//
//   caller   writes body, context and count; sets `open` = (workers, count); wakes the helpers
//   all      take an index by counting `open` down; the index is theirs until they have counted `unfinished`
//   down caller   when no index is left, waits until `unfinished` is 0
//
// A helper that comes too late finds nothing to take and touches nothing of the loop: it is only waited for
// while it has an index. `open` holds the number of workers beside that of indices so that both are of the
// same loop.
#include "parallel/parallel_for.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace mac::parallel {

namespace {

// Longer than what lies between two loops of a training iteration, shorter than what the system's scheduler
// or a neighbour would notice.
constexpr auto longest_spin = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns when value() is no longer `old`: after a short spin the thread sleeps.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + longest_spin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

thread_local bool inside_loop = false;

class Team {
 public:
  Team() : process_(::getpid()) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  ~Team() {
    if (!is_alive()) {  // can be neither joined nor detached, only forgotten
      static_cast<void>(helpers_.release());
      return;
    }
    stopping_ = true;
    wake();
    for (std::thread& helper : *helpers_) helper.join();
  }

  /// Threads do not live on in a forked process.
  bool is_alive() const { return process_ == ::getpid(); }

  void run(std::uint32_t count, std::uint32_t workers, Body body, void* context) {
    while (helpers_->size() + 1 < workers)
      helpers_->emplace_back([this, w = helpers_->size() + 1] { help(w); });
    body_ = body;
    context_ = context;
    count_ = count;
    failed_ = false;
    unfinished_.store(count, std::memory_order_relaxed);
    open_.store(std::uint64_t{workers} << 32 | count, std::memory_order_release);
    wake();
    take_indices(0);
    for (std::uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;)
      wait_while(unfinished_, left);
    if (failed_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void wake() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  void help(std::size_t worker) {
    for (std::uint32_t seen = 0;;) {
      wait_while(epoch_, seen);
      seen = epoch_.load(std::memory_order_acquire);
      if (stopping_) return;
      take_indices(worker);
    }
  }

  void take_indices(std::size_t worker) {
    inside_loop = true;
    std::uint64_t open = open_.load(std::memory_order_acquire);
    while ((open & 0xffffffff) != 0 && worker < open >> 32) {
      if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel)) continue;
      do_index(count_ - (open & 0xffffffff), worker);
      open = open_.load(std::memory_order_acquire);
    }
    inside_loop = false;
  }

  void do_index(std::size_t index, std::size_t worker) {
    try {
      if (!failed_) body_(context_, index, worker);
    } catch (...) {
      if (!failed_.exchange(true)) failure_ = std::current_exception();
    }
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }

  const pid_t process_;
  std::unique_ptr<std::vector<std::thread>> helpers_ = std::make_unique<std::vector<std::thread>>();
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint64_t> open_{0};  // workers << 32 | indices left
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};

  // Of the loop under way; stable for whoever has an index.
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

Team& team() {
  thread_local std::optional<Team> mine;
  if (mine && !mine->is_alive()) mine.reset();
  return mine ? *mine : mine.emplace();
}

}  // namespace

void run(std::size_t count, int threads, Body body, void* context) {
  const std::size_t workers = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  constexpr std::size_t most = 0x7fffffff;  // the counters have 32 bits
  if (workers <= 1 || inside_loop || count > most) {
    for (std::size_t i = 0; i < count; ++i) body(context, i, 0);
    return;
  }
  team().run(static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(workers), body, context);
}

}  // namespace mac::parallel
