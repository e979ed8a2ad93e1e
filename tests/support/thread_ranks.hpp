// Ranks that are threads of one process: what holds for them holds for MPI, in a thousandth of the time.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/ranks.hpp"

namespace mac::test {

class ThreadRanks final : public Ranks {
 public:
  struct Shared {
    explicit Shared(std::size_t n) : size(n), barrier(static_cast<std::ptrdiff_t>(n)), board(n), mail(n) {}
    std::size_t size;
    std::barrier<> barrier;
    std::vector<const void*> board;
    std::mutex mutex;
    std::vector<std::deque<Message>> mail;
  };

  ThreadRanks(Shared& shared, std::size_t rank) : shared_(shared), rank_(rank) {}
  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return shared_.size; }
  std::string name() const override { return fmt::format("rank {} of {}", rank_, size()); }

  void gather(std::byte* all, std::span<const std::size_t> sizes) override {
    const Posted posted(*this, all);
    for (std::size_t r = 0, at = 0; r < size(); at += sizes[r++])
      if (r != rank_) std::memcpy(all + at, static_cast<const std::byte*>(shared_.board[r]) + at, sizes[r]);
  }
  void exchange(const std::byte* from, std::span<const std::size_t> to_sizes, std::byte* to,
                std::span<const std::size_t> from_sizes) override {
    struct Out {
      const std::byte* from;
      std::span<const std::size_t> sizes;
    };
    const Out mine{from, to_sizes};
    const Posted posted(*this, &mine);
    for (std::size_t r = 0; r < size(); ++r) {
      const Out& other = *static_cast<const Out*>(shared_.board[r]);
      std::size_t at = 0;
      for (std::size_t q = 0; q < rank_; ++q) at += other.sizes[q];
      to = std::copy_n(other.from + at, from_sizes[r], to);
    }
  }
  void broadcast(Bytes& bytes) override {
    const Posted posted(*this, &bytes);
    if (rank_ > 0) bytes = *static_cast<const Bytes*>(shared_.board[0]);
  }
  void send(std::size_t to, const Bytes& bytes) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.mail[to].push_back({rank_, bytes});
  }
  std::optional<Message> receive() override {
    const std::lock_guard lock(shared_.mutex);
    auto& mine = shared_.mail[rank_];
    if (mine.empty()) return std::nullopt;
    Message first = std::move(mine.front());
    mine.pop_front();
    return first;
  }

 private:
  /// Everybody has posted before anybody reads, and has read before anybody goes on.
  struct Posted {
    Posted(ThreadRanks& ranks, const void* what) : shared(ranks.shared_) {
      shared.board[ranks.rank_] = what;
      shared.barrier.arrive_and_wait();
    }
    ~Posted() { shared.barrier.arrive_and_wait(); }
    Shared& shared;
  };
  Shared& shared_;
  std::size_t rank_;
};

/// Runs work() on `count` ranks; what each of them threw, or null.
inline std::vector<std::exception_ptr> on_ranks(std::size_t count, const std::function<void()>& work) {
  ThreadRanks::Shared shared(count);
  std::vector<std::exception_ptr> failures(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < count; ++r)
      threads.emplace_back([&, r] {
        ThreadRanks mine(shared, r);
        use_ranks(mine);
        try {
          work();
        } catch (...) {
          failures[r] = std::current_exception();
        }
      });
  }
  return failures;
}

inline std::string message_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace mac::test
