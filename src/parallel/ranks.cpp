#include "parallel/ranks.hpp"

#include <algorithm>

namespace mac {

namespace {

Ranks& alone() {
  static Ranks one;
  return one;
}

thread_local Ranks* current = nullptr;

}  // namespace

void Ranks::gather(std::byte*, std::span<const std::size_t>) {}
void Ranks::exchange(const std::byte* from, std::span<const std::size_t> to_sizes, std::byte* to,
                     std::span<const std::size_t>) {
  std::copy_n(from, to_sizes[0], to);
}
void Ranks::broadcast(Bytes&) {}
void Ranks::send(std::size_t, const Bytes&) { throw Error("a process that is alone has nobody to write to"); }
std::optional<Ranks::Message> Ranks::receive() { return std::nullopt; }

Ranks& ranks() { return current ? *current : alone(); }
void use_ranks(Ranks& these) { current = &these; }

Alone::Alone() : before_(current) { current = nullptr; }
Alone::~Alone() { current = before_; }

void wait_for_all_ranks() {
  Bytes signs(ranks().size());
  ranks().gather(signs.data(), std::vector<std::size_t>(signs.size(), 1));
}

void on_root(const std::function<void()>& work) {
  Ranks& all = ranks();
  if (all.size() == 1) return work();
  Bytes failed(1);
  if (!all.root()) {
    all.broadcast(failed);
    if (failed[0] != std::byte{0}) throw FailedElsewhere();
    return;
  }
  try {
    const Alone here;
    work();
  } catch (...) {
    failed[0] = std::byte{1};
    all.broadcast(failed);
    throw;
  }
  all.broadcast(failed);
}

NumberLists numbers_of_root(const std::function<NumberLists()>& work) {
  Ranks& all = ranks();
  NumberLists lists;
  on_root([&] { lists = work(); });
  if (all.size() == 1) return lists;
  Bytes count(lists.size());  // as many bytes as there are lists
  all.broadcast(count);
  lists.resize(count.size());
  for (std::vector<double>& list : lists) {
    Bytes numbers(list.size() * sizeof(double));
    std::ranges::copy(std::as_bytes(std::span(list)), numbers.begin());
    all.broadcast(numbers);
    list.resize(numbers.size() / sizeof(double));
    std::ranges::copy(numbers, std::as_writable_bytes(std::span(list)).begin());
  }
  return lists;
}

}  // namespace mac
