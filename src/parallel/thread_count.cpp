#include "parallel/thread_count.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

namespace mac {

namespace {

/// OMP_NUM_THREADS as schedulers set it, "8" or "8,1"; 0 where it is absent or means nothing.
int threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (!text) return 0;
  const std::string_view list(text), first = list.substr(0, list.find(','));
  int threads = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), threads);
  return error == std::errc() && end == first.data() + first.size() ? std::max(threads, 0) : 0;
}

int cores_of_process() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// The cores' worth of time that a container may use, rounded up: "max 100000" is no limit, "150000 100000"
/// two.
int cores_of_container(int cores) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || quota <= 0 || period <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(quota / period)), 1, cores);
}

std::atomic<int> share{0};  // 0: all

}  // namespace

int usable_cores() { return cores_of_container(cores_of_process()); }
void share_cores(int most) { share = most; }

int thread_count(int asked) {
  if (asked > 0) return asked;
  if (const int threads = threads_of_environment(); threads > 0) return threads;
  return share > 0 ? std::min(share.load(), usable_cores()) : usable_cores();
}

}  // namespace mac
