#include "bench/benchmark.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "network/kinds/layer.hpp"

namespace mac {

std::size_t multiply_adds(const NetworkShape& s) {
  const std::size_t d = s.d_model;
  return s.d_in * d + s.n_blocks * layer_of(s.kind).multiply_adds(s) + d * d + d * s.d_out;
}

namespace {

template <class T>
std::vector<T> waves(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(std::sin(0.1 * static_cast<double>(i)));
  return values;
}

template <class T>
std::vector<T> fresh_parameters(const NetworkShape& shape) {
  const std::vector<double> values = initial_parameters(shape, 1);
  return std::vector<T>(values.begin(), values.end());
}

/// Times body() in bursts long enough for the clock, for about half a second and at least three times.
template <class Body>
Timing time(double multiply_adds, const Body& body) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  body();  // warm-up
  const auto first = Clock::now();
  body();
  const double once = std::max(seconds(Clock::now() - first), 1e-9);
  const int burst = std::max(1, static_cast<int>(2e-4 / once));
  std::vector<double> times;
  for (double total = 0; total < 0.5 || times.size() < 3; total += times.back() * burst) {
    const auto begin = Clock::now();
    for (int i = 0; i < burst; ++i) body();
    times.push_back(seconds(Clock::now() - begin) / burst);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return {median, times.front(), 2e-9 * multiply_adds / median};
}

}  // namespace

template <class T>
Timing time_step(const NetworkShape& shape, std::size_t batch, int threads) {
  const StepEngine<T> engine(shape, fresh_parameters<T>(shape));
  const std::vector<T> x = waves<T>(batch * shape.d_in);
  std::vector<T> y(batch * shape.d_out), state(batch * shape.state_size());
  return time(static_cast<double>(multiply_adds(shape) * batch),
              [&] { engine.step(batch, x.data(), y.data(), state.data(), threads); });
}

template <class T>
Timing time_training(const NetworkShape& shape, SequenceDims dims, int threads) {
  const auto engine = make_cpu_engine<T>(shape, threads);
  const auto tape = engine->make_tape(dims);
  const std::vector<T> parameters = fresh_parameters<T>(shape);
  const std::size_t rows = dims.batch * dims.time;
  const std::vector<T> x = waves<T>(rows * shape.d_in), grad_y = waves<T>(rows * shape.d_out);
  std::vector<T> y(rows * shape.d_out), gradient(parameters.size());
  return time(3 * static_cast<double>(multiply_adds(shape) * rows), [&] {
    engine->forward(parameters.data(), dims, x.data(), y.data(), nullptr, nullptr, tape.get());
    engine->backward(parameters.data(), dims, x.data(), nullptr, grad_y.data(), *tape,
                     {gradient.data(), nullptr, nullptr, nullptr});
  });
}

template Timing time_step<float>(const NetworkShape&, std::size_t, int);
template Timing time_step<double>(const NetworkShape&, std::size_t, int);
template Timing time_training<float>(const NetworkShape&, SequenceDims, int);
template Timing time_training<double>(const NetworkShape&, SequenceDims, int);

}  // namespace mac
