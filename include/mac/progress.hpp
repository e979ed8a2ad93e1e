// Progress with an estimate of the time left, and a polite stop on Ctrl-C.
#pragma once

#include <chrono>
#include <cstddef>
#include <mac/error.hpp>
#include <mutex>
#include <string>

namespace mac {

/// One line on standard error: redrawn in place on a terminal, a plain line now and then otherwise. Says
/// nothing during the first two seconds, so short work stays silent. Safe to call from several threads.
class Progress {
 public:
  Progress(std::string label, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(std::size_t count = 1);
  /// Text after the numbers ("loss 1.2e-3").
  void note(std::string text);
  /// Seconds left, for who knows better than the pace so far; `at_least`: and more, nobody knows how much.
  void expect(double seconds, bool at_least);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  std::mutex mutex_;
  std::string label_, note_, left_;
  std::size_t done_ = 0, total_;
  bool quiet_, terminal_, drawn_ = false;
  Clock::time_point start_, next_draw_;
};

/// "1.3 s", "4 min 12 s", "2 h 05 min".
std::string human_duration(double seconds);

/// Thrown by throw_if_interrupted(); the program ends with interrupt_exit_code().
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// From now on SIGINT, SIGTERM and SIGHUP only set a flag that long loops look at; a second one ends the program,
/// if it is of another kind or half a second later. Those that were ignored already (nohup) stay so. SIGXFSZ is
/// ignored: a file that grows beyond the limit is an error like a full disk.
void watch_interrupts();
/// 128 and the number of the signal, as shells have it: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP.
int interrupt_exit_code();
/// The same for SIGINT inside a program that is not ours, as long as one of these exists: the last one puts
/// the former handler back and forgets that a stop was asked for.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};
bool interrupted();
void throw_if_interrupted();

}  // namespace mac
