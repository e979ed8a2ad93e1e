#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <mac/progress.hpp>

#include "base/standard_streams.hpp"

namespace mac {

namespace {

std::atomic<bool> stop_asked{false};

/// The same signal so soon after the first is an echo: timeout(1) and batch systems send it to the process
/// and to its group.
constexpr long echo_milliseconds = 500;
std::atomic<int> first_signal{0};
std::atomic<long> first_time{0};  // milliseconds of the monotonic clock

void on_signal(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long time = 1000L * now.tv_sec + now.tv_nsec / 1000000;
  int first = 0;
  if (first_signal.compare_exchange_strong(first, signal)) {
    first_time = time;
    stop_asked = true;
  } else if (first != signal || (first_time > 0 && time - first_time > echo_milliseconds)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

struct Scopes {
  std::mutex mutex;
  int count = 0;
  struct sigaction former = {};
};

Scopes& scopes() {
  static Scopes the;
  return the;
}

constexpr auto silence = std::chrono::seconds(2);
constexpr auto redraw_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(10);

/// A line that wraps could not be redrawn in place. Cut between characters of UTF-8, each taken as one
/// column.
std::string shortened(std::string line, std::size_t columns) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xc0) == 0x80) continue;  // not the first byte of a character
    if (++characters == columns) return line.substr(0, i);
  }
  return line;
}

}  // namespace

std::string human_duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const long whole = static_cast<long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(std::string label, std::size_t total, bool quiet)
    : label_(std::move(label)),
      total_(total),
      quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_ + silence) {}

Progress::~Progress() {
  if (drawn_ && terminal_) say_as_it_is("\r\033[K");
  if (drawn_ && done_ == total_) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    say("{}: done in {}\n", label_, human_duration(seconds));
  }
}

void Progress::advance(std::size_t count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
  const auto now = Clock::now();
  if (quiet_ || now < next_draw_ || done_ >= total_) return;
  draw(now);
}

void Progress::note(std::string text) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(text);
}

void Progress::expect(double seconds, bool at_least) {
  const std::lock_guard lock(mutex_);
  left_ = (at_least ? "> " : "") + human_duration(seconds);
}

void Progress::draw(Clock::time_point now) {
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double fraction = static_cast<double>(done_) / static_cast<double>(total_);
  const std::string left = !left_.empty() ? left_
                           : done_ > 0    ? human_duration(elapsed * (1 - fraction) / fraction)
                                          : "?";
  std::string line = fmt::format("{}: {}/{} ({:.0f} %), {} left{}{}", label_, done_, total_, 100 * fraction,
                                 left, note_.empty() ? "" : ", ", note_);
  if (terminal_)
    say_as_it_is("\r\033[K" + shortened(printable(line), terminal_width()));
  else
    say("{}\n", line);
  drawn_ = true;
  next_draw_ = now + (terminal_ ? Clock::duration(redraw_interval) : Clock::duration(line_interval));
}

void watch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, on_signal) == SIG_IGN)
      std::signal(signal, SIG_IGN);  // nohup, a job in background
  std::signal(SIGXFSZ, SIG_IGN);     // a write beyond the limit fails, with its reason
}

int interrupt_exit_code() { return 128 + (first_signal != 0 ? first_signal.load() : SIGINT); }

InterruptScope::InterruptScope() {
  const std::lock_guard lock(scopes().mutex);
  if (scopes().count++ > 0) return;
  struct sigaction ours = {};
  ours.sa_handler = [](int) { stop_asked = true; };
  sigaction(SIGINT, &ours, &scopes().former);
}

InterruptScope::~InterruptScope() {
  const std::lock_guard lock(scopes().mutex);
  if (--scopes().count > 0) return;
  sigaction(SIGINT, &scopes().former, nullptr);
  stop_asked = false;
}

bool interrupted() { return stop_asked; }

void throw_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace mac
