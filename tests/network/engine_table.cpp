#include "network/engine_table.hpp"

#include <cmath>

namespace mac::test {

namespace {

template <class T>
std::vector<T> cast(const std::vector<double>& values) {
  return std::vector<T>(values.begin(), values.end());
}

template <class T>
std::vector<double> widen(const std::vector<T>& values) {
  return std::vector<double>(values.begin(), values.end());
}

template <class T>
const T* or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

template <class T>
Result run(SequenceEngine<T>& engine, const Problem& problem, bool with_backward) {
  const auto parameters = cast<T>(problem.parameters), x = cast<T>(problem.x);
  const auto initial = cast<T>(problem.initial_state);
  const std::size_t rows = problem.dims.batch * problem.dims.time;
  const std::size_t states = problem.dims.batch * problem.shape.state_size();
  std::vector<T> y(rows * problem.shape.d_out), final_state(states);
  const auto tape = with_backward ? engine.make_tape(problem.dims) : nullptr;
  engine.forward(parameters.data(), problem.dims, x.data(), y.data(), or_null(initial), final_state.data(),
                 tape.get());
  Result result{widen(y), widen(final_state), {}, {}, {}};
  if (!with_backward) return result;

  const auto d_y = cast<T>(problem.d_y), d_final = cast<T>(problem.d_final_state);
  // Garbage where the engine must overwrite, zeros where it must add.
  std::vector<T> d_parameters(parameters.size()), d_x(x.size(), T(7)), d_initial(states, T(7));
  engine.backward(parameters.data(), problem.dims, x.data(), or_null(initial), d_y.data(), *tape,
                  {d_parameters.data(), d_x.data(), d_initial.data(), or_null(d_final)});
  result.d_parameters = widen(d_parameters);
  result.d_x = widen(d_x);
  result.d_initial_state = widen(d_initial);
  return result;
}

template <class T, bool with_backward>
Result run_reference(const Problem& problem) {
  return run(*make_reference_engine<T>(problem.shape), problem, with_backward);
}

}  // namespace

const std::vector<EngineRow>& engine_table() {
  // Double: a few hundred roundings of 1e-16, with room for cancellation. Float: what the official float32
  // kernels reach against float64 is 3e-7 on outputs and 1e-6 on gradients; the bounds are those asked of
  // every float engine.
  static const std::vector<EngineRow> table{
      {"reference_double", true, 1e-12, 1e-10, run_reference<double, false>, run_reference<double, true>},
      {"reference_float", false, 2e-6, 1e-5, run_reference<float, false>, run_reference<float, true>},
  };
  return table;
}

std::vector<double> random_values(std::size_t count, double scale, RandomStream& random) {
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<float>(scale * random.normal());
  return values;
}

Problem random_problem(const NetworkShape& shape, SequenceDims dims, std::uint64_t seed, bool with_states) {
  RandomStream random(seed, Purpose::noise, 0);
  const std::size_t rows = dims.batch * dims.time, states = dims.batch * shape.state_size();
  Problem problem{shape, initial_parameters(shape, seed), dims, {}, {}, {}, {}};
  // Move every parameter off its special value (norm weights of 1, biases of 0, D of 1).
  for (double& parameter : problem.parameters)
    parameter = static_cast<float>(parameter + 0.1 * random.normal());
  problem.x = random_values(rows * shape.d_in, 1, random);
  problem.d_y = random_values(rows * shape.d_out, 1, random);
  if (with_states) {
    problem.initial_state = random_values(states, 0.5, random);
    problem.d_final_state = random_values(states, 0.5, random);
  }
  return problem;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / (norm > 0 ? norm : 1));
}

TensorError worst_tensor(const NetworkShape& shape, const std::vector<double>& d_parameters,
                         const std::vector<double>& expected) {
  const ParameterLayout layout(shape);
  TensorError worst;
  for (const TensorSpec& tensor : layout.tensors()) {
    const auto part = [&](const std::vector<double>& values) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(tensor.offset);
      return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(tensor.size));
    };
    const double error = relative_error(part(d_parameters), part(expected));
    if (!(error <= worst.error)) worst = {error, tensor.name};
  }
  return worst;
}

}  // namespace mac::test
