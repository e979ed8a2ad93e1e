// Fine-tuning: a trained network's weights as the start of another training.
#pragma once

#include <mac/experiment.hpp>
#include <mac/model.hpp>
#include <vector>

namespace mac {

/// The network's parameters for another normalisation of the same variables. With x = (y − m)/s and the
/// closure S u + M in the model's, x' and u' in the other,
///
///   W x + b = [W s'/s] x' + [b + W (m' − m)/s]        input_proj
///   u' = [S/S' V] h + [(S c + M − M')/S']             the last layer of output_proj, u = V h + c
///
/// so that these two layers take up the difference and the closure stays what it was, to rounding.
std::vector<double> parameters_for(const Model& model, const Normalisation& other);

/// The parameters that a training with `init` starts from, and what had to be done to them in a sentence.
struct FineTuningStart {
  std::vector<double> parameters;
  std::string remark;
};

/// UsageError, naming the file, where its network is of another shape or for other variables.
FineTuningStart start_from(const std::string& file, const NetworkShape& shape, const Experiment& experiment,
                           const Normalisation& normalisation);

}  // namespace mac
