// Work on the threads of all ranks, results in order on rank 0.
#pragma once

#include <array>
#include <cstring>

#include "parallel/in_order.hpp"
#include "parallel/ranks.hpp"

namespace mac {

/// How far ahead a rank is given work. `prefetch`: something is waiting for a thread when it is done, worth it where
/// work is short; `one_by_one`: where it takes long, so that no rank sits on work while another has none.
enum class Supply { prefetch, one_by_one };

/// Calls compute(worker, i), i = 0 .. count-1, on up to `threads` threads of every rank, each index once, whoever is
/// free; finish(i, bytes) gets what they return on rank 0, in the order of i, on the calling thread. All ranks call
/// this; threads that compute are alone (ranks()). The first exception anywhere stops the rest: rank 0 throws it,
/// saying whose it was, the others FailedElsewhere.
void bytes_in_order(std::size_t count, int threads, Supply supply,
                    const std::function<Bytes(std::size_t worker, std::size_t i)>& compute,
                    const std::function<void(std::size_t i, Bytes bytes)>& finish);

/// The arrays one after the other, each after its length.
Bytes packed(std::span<std::vector<double>* const> arrays);
void unpack(const Bytes& bytes, std::span<std::vector<double>* const> arrays);

/// The same for results that are arrays of numbers; finish is called on rank 0 alone. Result has a function
/// arrays(Result&), which names all of its members.
template <class Compute, class Finish>
void ranks_in_order(std::size_t count, int threads, const Compute& compute, const Finish& finish) {
  if (ranks().size() == 1) {
    parallel_in_order(count, threads, compute, finish);
    return;
  }
  using Result = std::invoke_result_t<const Compute&, std::size_t, std::size_t>;
  static_assert(sizeof(Result) == std::tuple_size_v<decltype(arrays(std::declval<Result&>()))> *
                                      sizeof(std::vector<double>),
                "arrays(Result&) leaves out a member, which other ranks would not send");
  bytes_in_order(
      count, threads, Supply::prefetch,
      [&](std::size_t worker, std::size_t i) {
        Result result = compute(worker, i);
        return packed(arrays(result));
      },
      [&](std::size_t i, const Bytes& bytes) {
        Result result;
        unpack(bytes, arrays(result));
        finish(i, std::move(result));
      });
}

}  // namespace mac
