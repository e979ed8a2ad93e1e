// Numbers that data give from outside as expressions of the time, [data.given]:
//
//   wind = "sin(2*pi*t/5)"          functions and operators are those of equations as text
//   load = "P3*(1 + 0.1*cos(t))"    with parameters of the trajectory, or numbers of [system]
#pragma once

#include <mac/config.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mac {

class Formulas {
 public:
  /// `parameters` are the numbers of a trajectory, by name; what is none of them is a number of [system]. Throws
  /// UsageError that points at the character.
  Formulas(const ConfigTable& given, const ConfigTable& system, const std::vector<std::string>& parameters);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::string>& texts() const { return texts_; }

  /// out[i*stride + k] is formula k at times[i], in a trajectory with these parameters. UsageError for what is not
  /// finite.
  void evaluate(std::span<const double> times, std::span<const double> parameters, double* out,
                std::size_t stride) const;

 private:
  std::vector<std::string> names_, texts_;
  struct Programs;
  std::shared_ptr<const Programs> programs_;
};

}  // namespace mac
