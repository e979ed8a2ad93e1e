// The kinds of baselines by name. A new one is a file src/baselines/NAME.cpp that defines NAME_baseline(), and
// a line in src/baselines/registry.cpp, which defines baseline_kinds().
#pragma once

#include <mac/config.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mac {

class ClosureModel;
class DataFile;
class System;
struct DataPlan;
struct Experiment;

/// What fitting or computing a baseline is given beside its plan.
struct BaselineWork {
  const Experiment& experiment;
  const DataFile& data;
  std::string name;  // of the model, in files and tables
  std::string path;  // of the file to write
  int threads;
  bool quiet;
};

/// An entry of [[models]] as its kind has read it.
class BaselinePlan {
 public:
  virtual ~BaselinePlan() = default;

  /// Fits or computes the closure and writes its file; what came out, in a few words.
  virtual std::string train(const BaselineWork& work) const = 0;
  /// The time up to which the closure can be rolled out; none: any.
  virtual std::optional<double> reach() const { return std::nullopt; }
};

struct BaselineKind {
  std::string name;         // in [[models]]
  std::string file_kind;    // what its file says it is
  std::string description;  // a sentence for the documentation
  std::string settings;     // its own keys in [[models]], a table in Markdown; empty: none

  /// Refuses systems and data it is not made for.
  std::shared_ptr<const BaselinePlan> (*read)(const ConfigTable& table, const System& system,
                                              const DataPlan& data);
  /// `system` and `given`, the names of what comes from outside, are those of the data it will run on.
  std::unique_ptr<ClosureModel> (*load)(const std::string& path, const System& system,
                                        const std::vector<std::string>& given, std::string name);
};

const std::vector<BaselineKind>& baseline_kinds();

}  // namespace mac
