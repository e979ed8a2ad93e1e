// A loop shared among threads that are good neighbours: a thread without work spins for some microseconds,
// then sleeps, and nobody waits for a thread that has not begun. On a machine with other work the calling
// thread does what the helpers do not get to.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace mac {

namespace parallel {

using Body = void (*)(void* context, std::size_t index, std::size_t worker);

/// The loop behind parallel_for.
void run(std::size_t count, int threads, Body body, void* context);

}  // namespace parallel

/// body(index, worker) for index = 0 .. count-1 on at most `threads` threads, the calling one among them;
/// worker < threads tells them apart, and a thread takes the next index when it has done one. Inside a body
/// it is a plain loop. After the first exception the indices that are left are skipped, and it is rethrown
/// here.
template <class Body>
void parallel_for(std::size_t count, int threads, Body&& body) {
  using Function = std::remove_reference_t<Body>;
  const auto call = [](void* context, std::size_t index, std::size_t worker) {
    (*static_cast<Function*>(context))(index, worker);
  };
  // A lambda's constness says nothing about what it refers to.
  parallel::run(count, threads, call, const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace mac
