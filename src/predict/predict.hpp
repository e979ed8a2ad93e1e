// A network applied to recorded sequences: the closure predicted from the true history (teacher forcing).
#pragma once

#include <mac/evaluation.hpp>
#include <mac/model.hpp>
#include <mac/precision.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mac {

enum class EngineChoice { reference, cpu };
enum class ModeChoice { sequence, step };

struct PredictOptions {
  EngineChoice engine = EngineChoice::cpu;
  std::optional<Precision> precision = std::nullopt;  // default: that of the model file
  ModeChoice mode = ModeChoice::sequence;
  int threads = 0;  // 0: all cores
  bool quiet = false;
  bool allow_other_parameters = false;  // see ModelRequest
};

/// Applies one model to any number of batches. Memory does not grow with their length.
class Predictor {
 public:
  Predictor(const Model& model, const PredictOptions& options);
  ~Predictor();
  Predictor(Predictor&&) noexcept;

  /// x (batch, time, d_in) -> (batch, time, d_out), both in physical units; every sequence starts from a zero
  /// state. Throws Error with sample and time where the output is not finite.
  std::vector<double> operator()(SequenceDims dims, const std::vector<double>& x);

 private:
  class Impl;
  template <class T>
  class Typed;
  std::unique_ptr<Impl> impl_;
};

/// Tensor x (batch, time, d_in) of a safetensors file -> tensor y (batch, time, d_out) of another.
void predict_safetensors(const Model& model, const std::string& input, const std::string& output,
                         const PredictOptions& options);

/// How far the predicted closure of a split is from the true one: relative L2 error of each component over
/// trajectories.
struct ClosureError {
  std::string split;
  std::vector<std::string> components;
  std::vector<MeanStd> errors;
};

/// Every split of a data file -> an HDF5 file with time, closure and true_closure of each. What the truth is,
/// the closure at each time or its mean over the interval that follows, the model says. UsageError if the
/// model is not for these data.
std::vector<ClosureError> predict_data(const Model& model, const std::string& model_file,
                                       const std::string& input, const std::string& output,
                                       const PredictOptions& options);

}  // namespace mac
