// Linear and cubic memory kernels as entries of [[models]].
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/experiment.hpp>

#include "experiment/baseline_kinds.hpp"
#include "io/settings.hpp"
#include "systems/fourier.hpp"

namespace mac {

namespace {

template <std::size_t degree>
class MemoryPlan final : public BaselinePlan {
 public:
  static constexpr const char* kind = degree == 1 ? "linear_memory" : "cubic_memory";
  std::size_t quadrature = 3;
  double horizon = 0;

  static const SettingTable<MemoryPlan>& settings() {
    static const SettingTable<MemoryPlan> table = [] {
      SettingTable<MemoryPlan> t;
      t.integer("quadrature", &MemoryPlan::quadrature, {2},
                "points in each resolved variable, at most a million together");
      t.number("horizon", &MemoryPlan::horizon, non_negative,
               "how far the kernels reach; 0: to the end of test and ood");
      return t;
    }();
    return table;
  }

  static std::shared_ptr<const BaselinePlan> read(const ConfigTable& table, const System& system,
                                                  const DataPlan& data) {
    if (!dynamic_cast<const FourierSystem*>(&system))
      table.fail("kind", fmt::format("{} is for the program's own Fourier systems (burgers, kdv), not for {}",
                                     kind, system.name()));
    if (system.warmup_steps() > 0)
      table.fail("kind",
                 fmt::format("{} needs trajectories that begin without unresolved modes; those of {} begin "
                             "on the attractor, after {} warmup_steps",
                             kind, system.name(), system.warmup_steps()));
    auto plan = std::make_shared<MemoryPlan>();
    settings().read(table, *plan);
    const double nodes =
        std::pow(static_cast<double>(plan->quadrature), static_cast<double>(system.resolved_size()));
    if (nodes > 1e6)
      table.fail(
          "quadrature",
          fmt::format("{} points in each of {} variables are {:.3g} trajectories, expected at most a million",
                      plan->quadrature, system.resolved_size(), nodes));
    if (plan->horizon > 0) return plan;
    for (const SplitPlan& split : data.splits)
      if (is_rolled_out(split.name)) plan->horizon = std::max(plan->horizon, split.horizon);
    if (plan->horizon == 0) plan->horizon = data.splits.front().horizon;
    return plan;
  }

  std::string train(const BaselineWork& work) const override {
    MemoryKernelOptions options;
    options.degree = degree;
    options.quadrature = quadrature;
    options.horizon = horizon;
    options.threads = work.threads;
    options.quiet = work.quiet;
    const MemoryKernel kernel = compute_memory_kernel(*work.experiment.system, options);
    save_memory_kernel(kernel, work.experiment, work.path, work.name);
    return fmt::format("{} functions, {} points per variable, to t = {:g}", kernel.functions(),
                       kernel.quadrature, horizon);
  }

  std::optional<double> reach() const override { return horizon; }
};

template <std::size_t degree>
BaselineKind memory_baseline(std::string description) {
  using Plan = MemoryPlan<degree>;
  return {
      .name = Plan::kind,
      .file_kind = "memory_kernel",
      .description = std::move(description),
      .settings = markdown<Plan>(Plan::settings(), {{"Default", Plan{}}}),
      .read = Plan::read,
      .load = [](const std::string& path, const System&, const std::vector<std::string>&, std::string name) {
        return make_memory_model(std::make_shared<MemoryKernel>(load_memory_kernel(path)), std::move(name));
      }};
}

}  // namespace

BaselineKind linear_memory_baseline() {
  return memory_baseline<1>(
      "Mori–Zwanzig memory kernels of Fourier modes (`burgers`, `kdv`), linear in the resolved variables.");
}
BaselineKind cubic_memory_baseline() {
  return memory_baseline<3>("The same with Hermite polynomials up to the third degree.");
}

}  // namespace mac
