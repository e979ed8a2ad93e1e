// The fuzz targets without libFuzzer: each gets its corpus, then so many mutants of it, always the same ones. Fast
// enough for every test run, with any compiler; `make fuzz` searches where this only looks. Without sanitizers it makes
// some ten times as many executions a second: this is for the hundreds of millions.
//
//   fuzz_replay CORPUS TARGET MUTANTS [SEED]
//
// An input that ends the program is left in fuzz-crash-TARGET. SIGINT and SIGTERM end it earlier, with the count so far.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

using Bytes = std::vector<std::uint8_t>;

#define TARGET(name) extern "C" int name##_fuzz(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef TARGET
extern "C" std::size_t state_mutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                     unsigned seed);

namespace {

namespace fs = std::filesystem;
constexpr std::size_t longest = 1 << 16;

std::mt19937 random_bits(1);
std::size_t below(std::size_t count) { return random_bits() % count; }

Bytes current;
std::string crash_file;
volatile std::sig_atomic_t stopped = 0;

void leave_the_input(int signal) {
  const int fd = ::open(crash_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  static_cast<void>(::write(fd, current.data(), current.size()) < 0);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// One change: a bit, a byte, a number, a piece cut out, doubled, or moved.
std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  static constexpr std::uint64_t numbers[] = {0,      1,          0x7f,       0x80,       0xff, 0x7fff,
                                              0xffff, 0x7fffffff, 0xffffffff, ~0ull >> 1, ~0ull};
  if (size == 0) {
    data[0] = static_cast<std::uint8_t>(random_bits());
    return 1;
  }
  const std::size_t at = below(size), length = 1 + below(std::min<std::size_t>(size - at, 64));
  switch (below(7)) {
    case 0:
      data[at] ^= static_cast<std::uint8_t>(1u << below(8));
      return size;
    case 1:
      data[at] = static_cast<std::uint8_t>(random_bits());
      return size;
    case 2:
      data[at] = static_cast<std::uint8_t>("0123456789-+.eE\"'[]{}()=,:;\n \t\\"[below(31)]);
      return size;
    case 3: {
      const std::uint64_t number = numbers[below(std::size(numbers))];
      std::memcpy(data + at, &number, std::min({size - at, sizeof number, std::size_t{1} << below(4)}));
      return size;
    }
    case 4:
      std::memmove(data + at, data + at + length, size - at - length);
      return size - length;
    case 5:
      if (size + length > max_size) return size;
      std::memmove(data + at + length, data + at, size - at);
      return size + length;
    default:
      std::memmove(data + below(size - length + 1), data + at, length);
      return size;
  }
}

struct Target {
  int (*run)(const std::uint8_t*, std::size_t);
  std::size_t (*mutator)(std::uint8_t*, std::size_t, std::size_t, unsigned) = nullptr;
};

const std::map<std::string, Target> targets = {
#define TARGET(name) {#name, {name##_fuzz, std::string(#name) == "state" ? state_mutator : nullptr}},
#include "targets.inc"
#undef TARGET
};

/// CORPUS/TARGET, or the files of CORPUS itself; those called slow_... last.
struct Corpus {
  std::vector<Bytes> inputs;
  std::size_t mutated = 0;  // so many of the first: thousands of mutants of a slow one would take hours
};

Corpus corpus_of(const fs::path& folder, const std::string& target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::exists(folder / target) ? folder / target : folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  const auto is_slow = [](const fs::path& file) { return file.filename().string().starts_with("slow_"); };
  std::ranges::sort(files);
  std::ranges::stable_partition(files, [&](const fs::path& file) { return !is_slow(file); });
  Corpus corpus;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    corpus.mutated += is_slow(file) ? 0 : 1;
  }
  return corpus;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  return mutate(data, size, max_size);
}

int main(int argc, char** argv) {
  const auto found = argc == 4 || argc == 5 ? targets.find(argv[2]) : targets.end();
  if (found == targets.end()) {
    std::fprintf(stderr, "usage: fuzz_replay CORPUS TARGET MUTANTS [SEED]\n");
    return 2;
  }
  const auto& [name, target] = *found;
  if (argc == 5) random_bits.seed(static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
  crash_file = "fuzz-crash-" + name;
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, leave_the_input);
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stopped = 1; });
  const Corpus corpus = corpus_of(argv[1], name);
  for (const Bytes& input : corpus.inputs) {
    current = input;
    target.run(current.data(), current.size());
  }
  const std::size_t mutants = std::strtoull(argv[3], nullptr, 10);
  std::size_t n = 0;
  for (; n < mutants && corpus.mutated > 0 && !stopped; ++n) {
    current = corpus.inputs[below(corpus.mutated)];
    std::size_t size = std::min(current.size(), longest);
    current.resize(longest);
    for (std::size_t changes = 1 + below(4); changes > 0; --changes)
      size = target.mutator
                 ? target.mutator(current.data(), size, longest, static_cast<unsigned>(random_bits()))
                 : mutate(current.data(), size, longest);
    current.resize(size);
    current.shrink_to_fit();  // a read beyond its end is one beyond an allocation
    target.run(current.data(), current.size());
  }
  std::printf("%s: %zu inputs of the corpus, %zu mutants\n", name.c_str(), corpus.inputs.size(), n);
  return corpus.inputs.empty() ? 1 : 0;
}
