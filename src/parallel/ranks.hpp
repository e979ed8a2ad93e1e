// The processes that do one command together: `mpirun -n 8 mac ...`. Process r of n is called rank r.
//
// The library knows ranks by this interface alone. A process that says nothing is alone, rank 0 of 1, and every
// function here costs nothing; the program brings an implementation on MPI (src/cli/ranks_mpi.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <mac/error.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mac {

using Bytes = std::vector<std::byte>;

/// A process, alone. Ranks of more than one override all of it. Only the thread that called use_ranks() talks.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual std::size_t rank() const { return 0; }
  virtual std::size_t size() const { return 1; }
  bool root() const { return rank() == 0; }
  /// "rank 3 of 8 on node17"
  virtual std::string name() const { return "rank 0 of 1"; }

  // Calls of all ranks together.

  /// all: every rank's part one after the other, sizes[r] bytes of rank r; a rank fills its own before.
  virtual void gather(std::byte* all, std::span<const std::size_t> sizes);
  /// `from` holds to_sizes[r] bytes for each rank r, one after the other; `to` gets from_sizes[r] bytes of each.
  virtual void exchange(const std::byte* from, std::span<const std::size_t> to_sizes, std::byte* to,
                        std::span<const std::size_t> from_sizes);
  /// Rank 0's bytes on every rank.
  virtual void broadcast(Bytes& bytes);

  // From one rank to another. Messages of a rank arrive in the order in which they were sent.

  struct Message {
    std::size_t from = 0;
    Bytes bytes;
  };
  virtual void send(std::size_t to, const Bytes& bytes);
  /// A message that has come, if there is one.
  virtual std::optional<Message> receive();
};

/// The ranks of this thread: alone, unless use_ranks() said otherwise.
Ranks& ranks();
/// For the calling thread; others stay alone. The object outlives its use.
void use_ranks(Ranks& these);

/// As long as this lives, the calling thread is alone: what rank 0 does while the others wait or go on.
class Alone {
 public:
  Alone();
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  Ranks* before_;
};

/// What a rank throws when another one has failed: that one says why.
class FailedElsewhere : public Error {
 public:
  FailedElsewhere() : Error("another rank failed") {}
};

/// Goes on when all ranks have come here.
void wait_for_all_ranks();

/// Rank 0 alone does it; the others wait. When it throws there, the others throw FailedElsewhere.
void on_root(const std::function<void()>& work);

/// Lists of numbers that rank 0 works out as on_root() does, and all get: one of them reads a file, not each.
using NumberLists = std::vector<std::vector<double>>;
NumberLists numbers_of_root(const std::function<NumberLists()>& work);

}  // namespace mac
