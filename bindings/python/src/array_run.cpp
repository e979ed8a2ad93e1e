// Runs that a program of one's own has made, as rollout files: what evaluates and reports `mac rollout` serves them, too.
#include <cmath>
#include <mac/data.hpp>
#include <mac/report.hpp>
#include <mac/rollout.hpp>
#include <mac/verdict.hpp>
#include <nlohmann/json.hpp>

#include "module.hpp"
#include "rollout/group.hpp"

namespace mac::python {

namespace {

class NoMemory final : public ClosureGroup {
 public:
  void predict(std::size_t, const double*, double*) override {}
  std::optional<std::size_t> memory_size() const override { return std::nullopt; }
};

/// "Rolls" to what is in the arrays. From its first number that is not finite on, a trajectory has blown up.
class ArrayRun final : public ClosureModel {
 public:
  ArrayRun(std::string name, std::span<const double> resolved, std::span<const double> closure)
      : name_(std::move(name)), resolved_(resolved), closure_(closure) {}

  std::string name() const override { return name_; }
  HeldClosure held() const override { return {}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit&, std::size_t, std::size_t) const override {
    return std::make_unique<NoMemory>();
  }
  std::optional<std::size_t> rolls_at_once(std::size_t) const override { return SIZE_MAX; }
  GroupResult roll(const GroupTask& task, GroupStart) const override {
    GroupResult result;
    result.resolved.assign(resolved_.begin(), resolved_.end());
    result.closure.assign(closure_.begin(), closure_.end());
    result.seconds_per_step.assign(task.time.size(), 0.0);
    const std::size_t d = task.system.resolved_size(), size = task.time.size() * d;
    for (std::size_t i = 0; i < task.count; ++i) {
      double time = NAN;
      for (std::size_t k = 0; k < size && std::isnan(time); ++k)
        if (!(std::abs(resolved_[i * size + k]) < blow_up_bound)) time = task.time[k / d];
      result.blow_up_time.push_back(time);
    }
    return result;
  }

 private:
  std::string name_;
  std::span<const double> resolved_, closure_;
};

void write_run(const std::string& data, const std::string& path, const std::string& name,
               const Array& resolved, const Array& closure) {
  const LongCall call;
  RolloutOptions options;
  options.quiet = true;
  options.self_contained = true;
  rollout(ArrayRun(name, view(resolved), view(closure)), DataFile::open(data), path, options);
}

/// The page's metrics as JSON.
std::string report(const std::vector<std::string>& rollouts, const std::string& output, int threads) {
  const LongCall call;
  return to_json(report_rollouts(rollouts, output, {threads, true})).dump();
}

}  // namespace

void bind_array_runs(py::module_& module) {
  module.def("write_run", &write_run, py::arg("data"), py::arg("path"), py::arg("name"), py::arg("resolved"),
             py::arg("closure"));
  module.def("report", &report, py::arg("rollouts"), py::arg("output"), py::arg("threads"));
}

}  // namespace mac::python
