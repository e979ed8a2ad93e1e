#include "network/engine_table.hpp"

#include <algorithm>
#include <cmath>
#include <mac/cuda.hpp>

#include "network/cuda_engine.hpp"

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

template <class T, bool with_backward>
Result run_cpu(const Problem& problem) {
  return run(*make_cpu_engine<T>(problem.shape, 2), problem, with_backward);
}

template <cuda::Kernels kernels, bool with_backward, class T = float>
Result run_cuda(const Problem& problem) {
  return run(*make_cuda_engine<T>(problem.shape, kernels), problem, with_backward);
}

}  // namespace

const std::vector<EngineRow>& engine_table() {
  // Double: a few hundred roundings of 1e-16, with room for cancellation. Float: what the official float32
  // kernels reach against float64 is 3e-7 on outputs and 1e-6 on gradients; the bounds are those asked of
  // every float engine.
  using enum cuda::Kernels;
  static const std::vector<EngineRow> table{
      {"reference_double", true, 1e-12, 1e-10, run_reference<double, false>, run_reference<double, true>},
      {"reference_float", false, 2e-6, 1e-5, run_reference<float, false>, run_reference<float, true>},
      {"cpu_double", true, 1e-12, 1e-10, run_cpu<double, false>, run_cpu<double, true>},
      {"cpu_float", false, 2e-6, 1e-5, run_cpu<float, false>, run_cpu<float, true>},
      {"cuda", false, 2e-6, 1e-5, run_cuda<fastest, false>, run_cuda<fastest, true>, cuda_unavailable()},
      {"cuda_general", false, 2e-6, 1e-5, run_cuda<general, false>, run_cuda<general, true>,
       cuda_unavailable()},
      {"cuda_double", true, 1e-12, 1e-10, run_cuda<fastest, false, double>, run_cuda<fastest, true, double>,
       cuda_unavailable()},
  };
  return table;
}

NetworkShape shape_of(LayerKind kind, std::size_t d_model, std::size_t n_blocks) {
  return {kind, 3, 2, d_model, n_blocks, has_states(kind) ? 4u : 0u};
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

namespace {

/// Rows [begin, begin + length) of each sample of values (batch, time, channels).
std::vector<double> cut(const std::vector<double>& values, SequenceDims dims, std::size_t begin,
                        std::size_t length) {
  const std::size_t channels = values.size() / (dims.batch * dims.time);
  std::vector<double> piece;
  for (std::size_t b = 0; b < dims.batch; ++b) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>((b * dims.time + begin) * channels);
    piece.insert(piece.end(), first, first + static_cast<std::ptrdiff_t>(length * channels));
  }
  return piece;
}

/// The inverse of cut.
void paste(std::vector<double>& values, SequenceDims dims, std::size_t begin, std::size_t length,
           const std::vector<double>& piece) {
  const std::size_t channels = values.size() / (dims.batch * dims.time);
  for (std::size_t b = 0; b < dims.batch; ++b)
    std::copy_n(piece.begin() + static_cast<std::ptrdiff_t>(b * length * channels), length * channels,
                values.begin() + static_cast<std::ptrdiff_t>((b * dims.time + begin) * channels));
}

}  // namespace

Result run_in_pieces(const EngineRow& row, const Problem& problem, std::size_t length, bool with_backward) {
  const SequenceDims dims = problem.dims;
  const std::size_t rows = dims.batch * dims.time;
  Result whole;
  whole.y.resize(rows * problem.shape.d_out);
  whole.d_x.resize(problem.x.size());
  whole.d_parameters.resize(problem.parameters.size());

  std::vector<Problem> pieces;
  std::vector<std::size_t> begins;
  whole.final_state = problem.initial_state;
  for (std::size_t begin = 0; begin < dims.time; begin += length) {
    const std::size_t count = std::min(length, dims.time - begin);
    Problem piece{problem.shape,
                  problem.parameters,
                  {dims.batch, count},
                  cut(problem.x, dims, begin, count),
                  whole.final_state,
                  {},
                  {}};
    if (with_backward) piece.d_y = cut(problem.d_y, dims, begin, count);
    const Result result = row.forward(piece);
    paste(whole.y, dims, begin, count, result.y);
    whole.final_state = result.final_state;
    pieces.push_back(std::move(piece));
    begins.push_back(begin);
  }
  if (!with_backward) return whole;

  whole.d_initial_state = problem.d_final_state;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    pieces[i].d_final_state = whole.d_initial_state;
    const Result result = row.forward_backward(pieces[i]);
    paste(whole.d_x, dims, begins[i], pieces[i].dims.time, result.d_x);
    for (std::size_t k = 0; k < whole.d_parameters.size(); ++k)
      whole.d_parameters[k] += result.d_parameters[k];
    whole.d_initial_state = result.d_initial_state;
  }
  return whole;
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
