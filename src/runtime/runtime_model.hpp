// What stands behind a mac_model: the file's contents and the weights packed for steps. Immutable.
#pragma once

#include <cstdint>
#include <mac/model.hpp>
#include <mac/precision.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "network/derivative/step_derivative.hpp"
#include "network/normaliser.hpp"

namespace mac {

struct RuntimeModel {
  std::string file;  // for messages
  Model model;
  Normalisers normalisers;
  HeldClosure held;
  std::vector<std::size_t> closure_targets;  // (outputs); empty: not known
  std::map<std::string, std::string> metadata;
  std::uint64_t id = 0;  // of sizes, weights and normalisation
  std::size_t parameters = 0;
  std::variant<StepEngine<float>, StepEngine<double>> engine;

  /// In the precision of the file, unless another one is given.
  RuntimeModel(const Safetensors& file, std::optional<Precision> precision);
  Precision precision() const { return static_cast<Precision>(engine.index()); }
  /// Of the network with the weights it steps with; made when first asked for, on whatever thread.
  const derivative::StepDerivative& derivative() const;

 private:
  mutable std::once_flag derivative_made_;
  mutable std::optional<derivative::StepDerivative> derivative_;
};

/// "component 2 (phi3)", the name where there is one.
std::string describe_component(std::size_t component, const std::vector<std::string>& names);

}  // namespace mac
