// Work on many threads, results in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

namespace mac {

/// Runs compute(worker, i) for i = 0 .. count-1 on up to `threads` threads (worker < threads tells them
/// apart); what each call returns goes to finish(i, result) in the order of i, one at a time. Waiting threads
/// sleep, so a busy machine loses nothing. The first exception stops the rest and is rethrown here.
template <class Compute, class Finish>
void parallel_in_order(std::size_t count, int threads, Compute&& compute, Finish&& finish) {
  using Result = std::invoke_result_t<Compute&, std::size_t, std::size_t>;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  std::mutex mutex;
  std::condition_variable turn_came;
  std::size_t turn = 0;  // whose result is finished next

  const auto fail = [&] {  // call with the mutex held
    if (!failed.exchange(true)) failure = std::current_exception();
  };
  const auto work = [&](std::size_t worker) {
    for (std::size_t i; (i = next++) < count;) {
      std::optional<Result> result;
      try {
        if (!failed) result = compute(worker, i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        fail();
      }
      std::unique_lock lock(mutex);
      turn_came.wait(lock, [&] { return turn == i; });
      try {
        if (!failed) finish(i, std::move(*result));
      } catch (...) {
        fail();
      }
      ++turn;
      turn_came.notify_all();
    }
  };
  {
    std::vector<std::jthread> workers;
    const std::size_t size = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
    for (std::size_t w = 1; w < size; ++w) workers.emplace_back(work, w);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace mac
