#include "evaluation/memory_response.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <mac/network.hpp>
#include <mac/open_model.hpp>

#include "coupling/fourier_frame.hpp"
#include "coupling/input_map.hpp"
#include "network/normaliser.hpp"
#include "parallel/thread_count.hpp"

namespace mac {

namespace {

/// The lags and times at which a split is looked at, in steps.
struct LagSamples {
  std::size_t lags;                // longest lag + 1
  std::vector<std::size_t> times;  // t
};

LagSamples choose_samples(const DataSplit& split, double step, const MemoryOptions& options) {
  const std::size_t last = split.times() - 1;
  std::size_t longest = std::min(last / 2, MemoryOptions::default_lags);
  if (options.longest) longest = static_cast<std::size_t>(std::lround(*options.longest / step));
  if (longest < 1 || longest > last)
    throw UsageError(
        "a longest lag of {:g} is not between the closure step {:g} and the length {:g} of split {}",
        options.longest.value_or(0), step, static_cast<double>(last) * step, split.name());
  LagSamples samples{longest + 1, {}};
  const std::size_t wanted = std::clamp<std::size_t>(options.times, 1, last - longest + 1);
  for (std::size_t i = 0; i < wanted; ++i)
    samples.times.push_back(wanted == 1 ? last : longest + i * (last - longest) / (wanted - 1));
  return samples;
}

/// x (times, inputs) of one site of a trajectory, in its frame where the network has one.
void read_site(const DataSplit& split, const InputMap& inputs, std::size_t trajectory, std::size_t site,
               std::vector<double>& x) {
  const std::size_t times = split.times(), d = split.resolved_size(), e = inputs.given_size();
  std::vector<double> y(times * d), given(times * e);
  split.read_resolved(trajectory, 0, times, y.data());
  if (e > 0) split.read_inputs(trajectory, 0, times, given.data());
  for (std::size_t t = 0; t < times; ++t)
    inputs.read_site(site, y.data() + t * d, given.data() + t * e,
                     [&](std::size_t, std::size_t f, double value) { x[t * inputs.features() + f] = value; });
  if (inputs.frame_modes() > 0)
    enter_frame(inputs.frame_modes(), y.data(), x.data(), times, inputs.features());
}

}  // namespace

std::vector<double> MemoryResponse::lag_times() const {
  std::vector<double> result(lags);
  for (std::size_t l = 0; l < lags; ++l) result[l] = static_cast<double>(l) * step;
  return result;
}

std::vector<double> MemoryResponse::strength(std::size_t j) const {
  const std::size_t c = closure_names.size(), d = resolved_names.size();
  std::vector<double> result(lags);
  for (std::size_t l = 0; l < lags; ++l) {
    double sum = 0;
    for (std::size_t i = 0; i < d; ++i) {
      const double response = rms[(l * c + j) * d + i] * resolved_rms[i];
      sum += response * response;
    }
    result[l] = std::sqrt(sum);
  }
  return result;
}

std::optional<double> MemoryResponse::memory_time(std::size_t j) const {
  const std::vector<double> r = strength(j);
  const double limit = threshold * *std::ranges::max_element(r);
  if (limit == 0) return 0.0;  // it does not respond at all
  std::size_t l = lags;
  while (l > 0 && r[l - 1] < limit) --l;
  if (l == lags) return std::nullopt;
  return static_cast<double>(l - 1) * step;
}

MemoryResponse memory_response(const Model& model, const DataFile& data, const MemoryOptions& options) {
  const System& system = *data.experiment().system;
  check_fits("the model", model, data.experiment(), data.path(), options.allow_other_parameters);
  if (model.noise.channels > 0)
    throw UsageError("the model is stochastic: what it remembers of the past is mixed with its noise");
  const DataSplit split = data.split(options.split);
  const double step = data.experiment().data.closure_step();
  const LagSamples samples = choose_samples(split, step, options);
  const InputMap inputs(model.inputs, system, split.input_names());
  const std::size_t d = model.shape.d_in, c = model.shape.d_out, lags = samples.lags;
  const std::size_t n = std::min(options.trajectories, split.trajectories());
  const Normalisers normalisers(model.normalisation);

  MemoryResponse result{inputs.output_names(),
                        inputs.feature_names(),
                        step,
                        lags,
                        n * samples.times.size(),
                        std::vector<double>(lags * c * d),
                        std::vector<double>(lags * c * d),
                        std::vector<double>(d),
                        options.threshold};

  const int threads = thread_count(options.threads);
  const auto engine = make_cpu_engine<double>(model.shape, threads);
  const auto tape = engine->make_tape({c, lags});
  const std::size_t state = model.shape.state_size(), times = split.times();
  std::vector<double> x(times * d), y(times * c), before(state);
  // One copy of the window for each closure component: sample j of the batch asks for the gradient of C_j.
  std::vector<double> window(c * lags * d), out(c * lags * c), initial(c * state), wanted(c * lags * c),
      gradient(c * lags * d), unused(model.parameters.size());
  for (std::size_t j = 0; j < c; ++j) wanted[(j * lags + lags - 1) * c + j] = 1;

  for (std::size_t trajectory = 0; trajectory < n; ++trajectory) {
    read_site(split, inputs, trajectory, trajectory % inputs.sites(), x);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const std::size_t i = k % d;
      result.resolved_rms[i] += x[k] * x[k] / static_cast<double>(n * times);
      x[k] = normalisers.input.to_network(i, x[k]);
    }
    for (const std::size_t t : samples.times) {
      const std::size_t first = t + 1 - lags;
      std::ranges::fill(before, 0.0);
      if (first > 0)
        engine->forward(model.parameters.data(), {1, first}, x.data(), y.data(), nullptr, before.data());
      for (std::size_t j = 0; j < c; ++j) {
        std::copy_n(x.data() + first * d, lags * d, window.data() + j * lags * d);
        std::copy_n(before.data(), state, initial.data() + j * state);
      }
      engine->forward(model.parameters.data(), {c, lags}, window.data(), out.data(), initial.data(), nullptr,
                      tape.get());
      engine->backward(model.parameters.data(), {c, lags}, window.data(), initial.data(), wanted.data(),
                       *tape, {unused.data(), gradient.data(), nullptr, nullptr});
      for (std::size_t l = 0; l < lags; ++l)
        for (std::size_t j = 0; j < c; ++j)
          for (std::size_t i = 0; i < d; ++i) {
            const double k = gradient[(j * lags + lags - 1 - l) * d + i] * normalisers.output.scale(j) *
                             normalisers.input.factor(i);
            result.mean[(l * c + j) * d + i] += k / static_cast<double>(result.samples);
            result.rms[(l * c + j) * d + i] += k * k / static_cast<double>(result.samples);
          }
    }
  }
  for (double& value : result.rms) value = std::sqrt(value);
  for (double& value : result.resolved_rms) value = std::sqrt(value);
  return result;
}

}  // namespace mac
