// Rank 0 hands out indices and takes results, beside threads of its own that compute; the other ranks have threads
// that compute and one, the caller's, that talks.
//
//   rank r > 0              rank 0
//   credit n           →    so many indices at once are welcome
//                      ←    index i                    (or none yet: results would pile up before their turn)
//   result i, bytes    →    kept until its turn; one more index is welcome
//   failed, why        →    nothing more is handed out
//                      ←    stop                       nothing comes after this
//   done               →    when all that was taken is sent
//                      ←    good or failed             the end for everybody
#include "parallel/ranks_in_order.hpp"

#include <chrono>
#include <deque>
#include <mac/progress.hpp>
#include <map>

namespace mac {

namespace {

enum class Word : std::uint64_t {
  credit,
  index,
  result,
  failed,
  usage,
  interrupted,
  stop,
  drop,
  done,
  good,
  bad
};

// How long a talker that has nothing to do sleeps: much shorter than any work worth sharing, and long enough that it
// takes no core from those who compute.
constexpr auto nap = std::chrono::microseconds(200);

struct Letter {
  Word word;
  std::uint64_t number = 0;
  std::span<const std::byte> rest = {};
};

Bytes written(Word word, std::uint64_t number = 0, std::span<const std::byte> rest = {}) {
  Bytes bytes(16 + rest.size());
  std::memcpy(bytes.data(), &word, 8);
  std::memcpy(bytes.data() + 8, &number, 8);
  if (!rest.empty()) std::memcpy(bytes.data() + 16, rest.data(), rest.size());
  return bytes;
}

Letter read(const Bytes& bytes) {
  Letter letter{};
  std::memcpy(&letter.word, bytes.data(), 8);
  std::memcpy(&letter.number, bytes.data() + 8, 8);
  letter.rest = std::span(bytes).subspan(16);
  return letter;
}

/// Threads that take indices from a queue and leave results: of one rank.
class Workers {
 public:
  using Compute = std::function<Bytes(std::size_t, std::size_t)>;

  Workers(int threads, const Compute& compute) {
    for (std::size_t w = 0; w < static_cast<std::size_t>(threads); ++w)
      threads_.emplace_back([this, w, &compute] { work(w, compute); });
  }
  ~Workers() { close(true); }

  void give(std::size_t index) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(index);
    changed_.notify_one();
  }
  /// Nothing more is given; `drop`: what nobody has begun is left.
  void close(bool drop) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (drop) queue_.clear();
    changed_.notify_all();
  }

  struct Done {
    std::size_t index;
    Bytes bytes;
  };
  /// What has been finished since the last call, after a nap if that is nothing.
  std::vector<Done> take() {
    std::unique_lock lock(mutex_);
    if (done_.empty() && !failure_) finished_.wait_for(lock, nap);
    return std::exchange(done_, {});
  }
  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure_, nullptr);
  }
  bool idle() {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && busy_ == 0 && done_.empty() && !failure_;
  }

 private:
  void work(std::size_t worker, const Compute& compute) {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::size_t index = queue_.front();
      queue_.pop_front();
      ++busy_;
      lock.unlock();
      Bytes bytes;
      std::exception_ptr failure;
      try {
        bytes = compute(worker, index);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      --busy_;
      if (failure) {
        if (!failure_) failure_ = failure;
        queue_.clear();
      } else {
        done_.push_back({index, std::move(bytes)});
      }
      finished_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, finished_;
  std::deque<std::size_t> queue_;
  std::vector<Done> done_;
  std::exception_ptr failure_;
  std::size_t busy_ = 0;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  // end before the rest goes
};

std::size_t welcome(int threads, Supply supply) {
  return static_cast<std::size_t>(threads) * (supply == Supply::prefetch ? 2 : 1);
}

class Root {
 public:
  Root(std::size_t count, int threads, Supply supply, const Workers::Compute& compute,
       const std::function<void(std::size_t, Bytes)>& finish)
      : count_(count),
        workers_(threads, compute),
        finish_(finish),
        credit_(ranks().size()),
        done_(ranks().size()) {
    credit_[0] = window_ = welcome(threads, supply);
    done_[0] = true;
  }

  void run() {
    for (; !(turn_ == count_ || failure_); rest()) hand_out();
    // Those who have not said a word yet will, and then hear this.
    for (std::size_t r = 1; r < ranks().size(); ++r)
      ranks().send(r, written(failure_ ? Word::drop : Word::stop));
    workers_.close(failure_ != nullptr);
    while (std::ranges::count(done_, false) > 0 || !workers_.idle()) rest();
    for (std::size_t r = 1; r < ranks().size(); ++r)
      ranks().send(r, written(failure_ ? Word::bad : Word::good));
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void hand_out() {
    for (bool given = true; given;) {
      given = false;
      for (std::size_t r = 0; r < credit_.size();
           ++r) {  // one each, then another: nobody gets all of the first
        // What comes early waits in memory, so nobody runs far ahead of the slowest.
        if (next_ == count_ || next_ >= turn_ + 2 * window_ || credit_[r] == 0) continue;
        --credit_[r];
        given = true;
        if (r == 0)
          workers_.give(next_++);
        else
          ranks().send(r, written(Word::index, next_++));
      }
    }
  }

  void rest() {
    for (auto& [index, bytes] : workers_.take()) take(0, index, std::move(bytes));
    if (auto failure = workers_.failure()) fail(failure);
    while (auto message = ranks().receive()) hear(*message);
    while (!failure_ && early_.contains(turn_)) {
      try {
        auto node = early_.extract(turn_);
        finish_(turn_, std::move(node.mapped()));
        ++turn_;
      } catch (...) {
        fail(std::current_exception());
      }
    }
    if (!failure_ && interrupted()) fail(std::make_exception_ptr(Interrupted()));
  }

  void take(std::size_t from, std::size_t index, Bytes bytes) {
    ++credit_[from];
    early_.emplace(index, std::move(bytes));
  }

  void hear(const Ranks::Message& message) {
    const Letter letter = read(message.bytes);
    const std::string text(reinterpret_cast<const char*>(letter.rest.data()), letter.rest.size());
    switch (letter.word) {
      case Word::credit:
        credit_[message.from] += letter.number;
        window_ += letter.number;
        return;
      case Word::result:
        return take(message.from, letter.number, Bytes(letter.rest.begin(), letter.rest.end()));
      case Word::usage:
        return fail(std::make_exception_ptr(UsageError("{}", text)));
      case Word::interrupted:
        return fail(std::make_exception_ptr(Interrupted()));
      case Word::done:
        done_[message.from] = true;
        return;
      default:
        return fail(std::make_exception_ptr(Error("{}", text)));
    }
  }

  void fail(const std::exception_ptr& why) {
    if (!failure_) failure_ = why;
  }

  std::size_t count_, next_ = 0, turn_ = 0, window_ = 0;
  std::map<std::size_t, Bytes> early_;
  std::exception_ptr failure_;
  Workers workers_;
  const std::function<void(std::size_t, Bytes)>& finish_;
  std::vector<std::size_t> credit_;
  std::vector<bool> done_;
};

/// Tells rank 0 why this one has failed.
void send_failure(const std::exception_ptr& failure) {
  Word word = Word::failed;
  std::string text;
  try {
    std::rethrow_exception(failure);
  } catch (const Interrupted&) {
    word = Word::interrupted;
  } catch (const UsageError& error) {
    word = Word::usage;
    text = error.what();
  } catch (const std::exception& error) {
    text = error.what();
  }
  text = fmt::format("{}: {}", ranks().name(), text);
  ranks().send(0, written(word, 0, std::as_bytes(std::span(text))));
}

void serve(int threads, Supply supply, const Workers::Compute& compute) {
  Workers workers(threads, compute);
  ranks().send(0, written(Word::credit, welcome(threads, supply)));
  for (bool stopped = false, said = false;;) {
    for (const auto& [index, bytes] : workers.take()) ranks().send(0, written(Word::result, index, bytes));
    if (const auto failure = workers.failure()) send_failure(failure);
    while (const auto message = ranks().receive()) {
      const Letter letter = read(message->bytes);
      if (letter.word == Word::index) workers.give(letter.number);
      if (letter.word == Word::stop || letter.word == Word::drop) {
        workers.close(letter.word == Word::drop);
        stopped = true;
      }
      if (letter.word == Word::good) return;
      if (letter.word == Word::bad) throw FailedElsewhere();
    }
    if (stopped && !said && workers.idle()) {
      ranks().send(0, written(Word::done));
      said = true;
    }
  }
}

}  // namespace

void bytes_in_order(std::size_t count, int threads, Supply supply,
                    const std::function<Bytes(std::size_t, std::size_t)>& compute,
                    const std::function<void(std::size_t, Bytes)>& finish) {
  if (ranks().size() == 1)
    parallel_in_order(count, threads, compute, finish);
  else if (ranks().root())
    Root(count, threads, supply, compute, finish).run();
  else
    serve(threads, supply, compute);
}

Bytes packed(std::span<std::vector<double>* const> arrays) {
  std::size_t size = 0;
  for (const auto* array : arrays) size += sizeof(std::uint64_t) + array->size() * sizeof(double);
  Bytes bytes(size);
  std::byte* to = bytes.data();
  for (const auto* array : arrays) {
    const std::uint64_t length = array->size();
    std::memcpy(to, &length, sizeof length);
    if (length > 0) std::memcpy(to + sizeof length, array->data(), length * sizeof(double));
    to += sizeof length + length * sizeof(double);
  }
  return bytes;
}

void unpack(const Bytes& bytes, std::span<std::vector<double>* const> arrays) {
  const std::byte* from = bytes.data();
  for (auto* array : arrays) {
    std::uint64_t length = 0;
    std::memcpy(&length, from, sizeof length);
    array->resize(length);
    if (length > 0) std::memcpy(array->data(), from + sizeof length, length * sizeof(double));
    from += sizeof length + length * sizeof(double);
  }
}

}  // namespace mac
