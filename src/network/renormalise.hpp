// A network in other units of its inputs and outputs.
#pragma once

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

}  // namespace mac
