// threads MODEL: 64 threads step on one model at the same time, each with a state of its own; fails unless
// they give the bits of one thread that steps all columns together.
#include <cmath>
#include <cstdio>
#include <mac/runtime.hpp>
#include <thread>

int main(int argc, char** argv) try {
  constexpr std::size_t threads = 64, steps = 40;
  if (argc != 2) throw std::runtime_error("usage: threads MODEL");
  const mac::runtime::Model model(argv[1]);
  const std::size_t inputs = model.inputs(), outputs = model.outputs();
  std::vector<double> y(steps * threads * inputs), closure(steps * threads * outputs),
      serial(threads * outputs);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 0.3 * std::sin(static_cast<double>(i));

  const auto roll = [&](std::size_t thread) {
    mac::runtime::State state = model.state();
    for (std::size_t t = 0; t < steps; ++t)
      state.step(std::span(y).subspan((t * threads + thread) * inputs, inputs),
                 std::span(closure).subspan((t * threads + thread) * outputs, outputs));
  };
  std::vector<std::thread> running;
  for (std::size_t thread = 0; thread < threads; ++thread) running.emplace_back(roll, thread);
  for (std::thread& thread : running) thread.join();

  mac::runtime::State together = model.state(threads);
  for (std::size_t t = 0; t < steps; ++t) {
    together.step(std::span(y).subspan(t * threads * inputs, threads * inputs), serial);
    for (std::size_t i = 0; i < serial.size(); ++i)
      if (serial[i] != closure[t * serial.size() + i])
        throw std::runtime_error("step " + std::to_string(t) + " differs in thread " +
                                 std::to_string(i / outputs));
  }
  std::printf("%zu threads give the serial answer\n", threads);
} catch (const std::exception& error) {
  std::fprintf(stderr, "threads: %s\n", error.what());
  return 1;
}
