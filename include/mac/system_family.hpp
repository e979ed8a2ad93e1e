// Parameters of [system] that differ between trajectories, and the systems that they make:
//
//   viscosity = { uniform = [0.05, 0.2] }      each trajectory draws its own
//   viscosity = { log_uniform = [0.05, 0.2] }  uniform in its logarithm
//   viscosity = { list = [0.05, 0.1, 0.2] }    trajectory i takes number i, round and round
//   viscosity = { grid = [0.05, 0.2, 5] }      a list of 5 at equal distances, ends included
//
// A split may say otherwise: [data.ood.system] viscosity = 0.03. Of several lists the first goes round fastest,
// so that all combinations come.
#pragma once

#include <cstdint>
#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/system.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace mac {

/// What a parameter is in a trajectory.
struct ParameterLaw {
  enum class Kind { list, uniform, log_uniform };
  Kind kind = Kind::list;
  std::vector<double> numbers;  // a list's, or the two ends

  static ParameterLaw of(double number) { return {Kind::list, {number}}; }
  double low() const;
  double high() const;
  double middle() const;  // of a list: the number in the middle of it
};

/// A number or a law under `key`; UsageError with file, line and key for anything else.
ParameterLaw read_law(const ConfigTable& table, const std::string& key);
/// Whether a law stands under `key`.
bool holds_law(const ConfigTable& table, const std::string& key);

/// The values of trajectory `index`, one for each law, from a random stream of its own.
std::vector<double> draw_parameters(std::span<const ParameterLaw> laws, std::uint64_t seed, Purpose purpose,
                                    std::size_t index);

/// A system for each set of values of the parameters that vary. All have the names, sizes and constants of the
/// one in the middle, which stands for the family wherever no trajectory is meant.
class SystemFamily {
 public:
  /// `table` is [system]; `names` of its numbers vary.
  SystemFamily(ConfigTable table, std::vector<std::string> names, std::shared_ptr<const System> middle);

  const std::vector<std::string>& names() const { return names_; }
  /// Made when first asked for; throws UsageError if there is no such system.
  std::shared_ptr<const System> at(std::span<const double> values) const;

 private:
  ConfigTable table_;
  std::vector<std::string> names_;
  std::shared_ptr<const System> middle_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<double>, std::shared_ptr<const System>> made_;
};

/// The laws in [system], by the parameter's name. Equations as text have theirs in [system.parameters].
std::map<std::string, ParameterLaw> system_laws(const ConfigTable& system);
/// [system] with the middle of each law in its place: what make_system reads.
ConfigTable middle_of(const ConfigTable& system);
/// [system] with these values of its parameters.
ConfigTable with_parameters(const ConfigTable& system, const std::map<std::string, double>& values);
/// The number that [system], or its default, gives a parameter; `system` has been read by make_system.
std::optional<double> parameter_in(const ConfigTable& system, const std::string& name);

}  // namespace mac
