// One table of engines × scalars drives the network tests. A new engine is one more row with its tolerances.
#pragma once

#include <mac/network.hpp>
#include <mac/random.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace mac::test {

/// A forward and backward pass to run, in double; a row in float rounds on the way in.
struct Problem {
  NetworkShape shape;
  std::vector<double> parameters;
  SequenceDims dims;
  std::vector<double> x;              // (batch, time, d_in)
  std::vector<double> initial_state;  // (batch, state_size); empty: zeros
  std::vector<double> d_y;            // (batch, time, d_out): gradient coming in
  std::vector<double> d_final_state;  // (batch, state_size); empty: zeros
};

struct Result {
  std::vector<double> y;
  std::vector<double> final_state;
  std::vector<double> d_parameters;
  std::vector<double> d_x;
  std::vector<double> d_initial_state;
};

struct EngineRow {
  std::string name;
  bool is_double;
  double output_tolerance;    // relative, in the 2-norm of a whole array
  double gradient_tolerance;  // likewise, for each tensor
  Result (*forward)(const Problem&);
  Result (*forward_backward)(const Problem&);
  std::string unavailable = {};  // why this machine cannot run it; its tests then skip
};

inline void PrintTo(const EngineRow& row, std::ostream* out) { *out << row.name; }

const std::vector<EngineRow>& engine_table();

/// A network of some kind, with few states a channel if it has any.
NetworkShape shape_of(LayerKind kind, std::size_t d_model, std::size_t n_blocks = 2);

/// Every value is a float, so that rows in float and double get the same problem.
Problem random_problem(const NetworkShape& shape, SequenceDims dims, std::uint64_t seed,
                       bool with_states = true);

std::vector<double> random_values(std::size_t count, double scale, RandomStream& random);

/// The sequences cut into pieces of `length` steps (the last may be shorter), the state carried from one to
/// the next; with gradients, the backward passes carry the gradient of the state the other way. Put together
/// again.
Result run_in_pieces(const EngineRow& row, const Problem& problem, std::size_t length,
                     bool with_backward = false);

/// ‖a − b‖ / ‖b‖, or ‖a‖ where b is zero.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

/// The largest relative error over the tensors of a parameter gradient; prints as the tensor's name.
struct TensorError {
  double error = 0;
  std::string tensor;
};
TensorError worst_tensor(const NetworkShape& shape, const std::vector<double>& d_parameters,
                         const std::vector<double>& expected);

}  // namespace mac::test
