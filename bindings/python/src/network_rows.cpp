#include "network_rows.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <mac/config.hpp>
#include <mac/model.hpp>
#include <mac/system_family.hpp>

#include "coupling/input_map.hpp"
#include "systems/described.hpp"

namespace mac::python {

namespace {

class MappedRows final : public NetworkRows {
 public:
  MappedRows(std::shared_ptr<const System> system, InputMap map, const GivenArrays& given)
      : system_(std::move(system)),
        map_(std::move(map)),
        given_(view(given.values).begin(), view(given.values).end()),
        times_(given_.empty() ? 0 : static_cast<std::size_t>(given.values.shape(1))) {}

  std::size_t rows() const override { return map_.sites(); }
  std::vector<std::size_t> targets() const override {
    const auto targets = system_->closure_targets();
    return {targets.begin(), targets.end()};
  }
  void at_closure_step(std::size_t n) override { step_ = n; }

  runtime::CouplingRows coupling_rows() override {
    const std::size_t d = system_->resolved_size(), c = system_->closure_size();
    return {d, c, map_.sites(), [this, d](std::span<const double> y, std::span<double> x) { read(d, y, x); },
            [this, c](std::span<const double> u, std::span<double> closure) { give(c, u, closure); }};
  }

 private:
  void read(std::size_t d, std::span<const double> y, std::span<double> x) const {
    const std::size_t n = map_.features(), e = map_.given_size();
    for (std::size_t i = 0; i < y.size() / d; ++i) {
      const double* const given = e > 0 ? given_.data() + (i * times_ + step_) * e : nullptr;
      double* const rows = x.data() + i * map_.sites() * n;
      map_.read(y.data() + i * d, given,
                [&](std::size_t site, std::size_t f, double value) { rows[site * n + f] = value; });
    }
  }
  void give(std::size_t c, std::span<const double> u, std::span<double> closure) const {
    const std::size_t outputs = map_.outputs(), sites = map_.sites();
    for (std::size_t i = 0; i < closure.size() / c; ++i)
      for (std::size_t site = 0; site < sites; ++site)
        for (std::size_t j = 0; j < outputs; ++j)
          closure[i * c + map_.closure(site, j)] = u[(i * sites + site) * outputs + j];
  }

  std::shared_ptr<const System> system_;
  InputMap map_;
  std::vector<double> given_;  // (columns, times, names)
  std::size_t times_, step_ = 0;
};

/// The same lattices with other lengths: of one direction each, and all that there is.
std::optional<SystemDescription> stretched(SystemDescription system, std::size_t variables) {
  const std::size_t fields = system.lattices.size(), before = system.resolved_names.size();
  if (fields == 0 || variables % fields != 0) return std::nullopt;
  const std::size_t sites = variables / fields, old_sites = before / fields;
  std::vector<std::string> names, closure_names;
  std::vector<std::size_t> targets;
  for (std::size_t k = 0; k < fields; ++k) {
    Lattice& lattice = system.lattices[k];
    if (lattice.extents.size() != 1 || lattice.sites() != old_sites) return std::nullopt;
    for (std::size_t s = 0; s < old_sites; ++s)
      if (lattice.variables[s] != k * old_sites + s) return std::nullopt;
    const bool closed =
        std::ranges::find(system.closure_targets, k * old_sites) != system.closure_targets.end();
    lattice.extents = {sites};
    lattice.variables.resize(sites);
    for (std::size_t s = 0; s < sites; ++s) {
      lattice.variables[s] = names.size();
      if (closed) {
        targets.push_back(names.size());
        closure_names.push_back(fmt::format("C_{}{}", lattice.name, s + 1));
      }
      names.push_back(fmt::format("{}{}", lattice.name, s + 1));
    }
  }
  system.resolved_names = names;
  system.closure_names = closure_names;
  system.closure_targets = targets;
  system.symmetries.clear();
  return system;
}

/// What the closure was trained for, with so many variables; null where these are the ones that it reads and no others,
/// as of mac.fit where equations depend on the time.
std::shared_ptr<const System> trained_system(const Closure& closure, const Model& model,
                                             std::size_t variables) {
  const auto text = model.provenance.find("data_experiment");
  if (text == model.provenance.end())
    throw UsageError("{}: reads {}, and does not say of which system: give rhs as a mac.System",
                     closure.name(), fmt::join(model.input_names, ", "));
  SystemDescription description;
  description.name = model.system;
  description.resolved_names = model.input_names;
  description.closure_names = model.output_names;
  std::shared_ptr<const System> system =
      make_system(middle_of(ConfigTable::parse(text->second, closure.name()).table("system")), description);
  if (system->resolved_size() == variables) return system;
  if (model.inputs.is_local())
    if (auto longer = stretched(describe(*system), variables)) return make_described(std::move(*longer));
  const bool reads_them = std::ranges::all_of(model.input_names, [&](const std::string& name) {
    return std::ranges::find(system->resolved_names(), name) != system->resolved_names().end();
  });
  if (reads_them && model.input_names.size() == variables && !model.closure_targets.empty()) return nullptr;
  throw UsageError("{}: is a closure for {} variables, y0 has {}", closure.name(), system->resolved_size(),
                   variables);
}

/// Throws UsageError unless the names are those that the network reads.
void check_given(const Closure& closure, const std::vector<std::string>& needed, const GivenArrays& given) {
  for (const std::string& name : needed)
    if (std::ranges::find(given.names, name) == given.names.end())
      throw UsageError("{}: reads {} beside the state: give inputs = {{\"{}\": ...}}", closure.name(),
                       fmt::join(needed, ", "), name);
  for (const std::string& name : given.names)
    if (std::ranges::find(needed, name) == needed.end())
      throw UsageError("inputs has {}, which {} does not read{}", name, closure.name(),
                       needed.empty() ? "" : fmt::format("; it reads {}", fmt::join(needed, ", ")));
}

}  // namespace

std::unique_ptr<NetworkRows> NetworkRows::of(const Closure& closure, std::shared_ptr<const System> system,
                                             std::size_t variables, std::size_t columns,
                                             const GivenArrays& given) {
  const auto says = [&](const char* key) { return closure.model().metadata(key).has_value(); };
  if (!says("state_inputs") && !says("given_inputs") && !says("local_of")) {
    check_given(closure, {}, given);
    return nullptr;
  }
  const Model model =
      model_from(Safetensors::parse(closure.file_bytes().cast<std::string>(), closure.name()));
  check_given(closure, model.inputs.given, given);
  if (!given.names.empty() && static_cast<std::size_t>(given.values.shape(0)) != columns)
    throw UsageError("inputs are those of {} columns, y0 has {}", given.values.shape(0), columns);
  if (!system) system = trained_system(closure, model, variables);
  if (!system) return nullptr;
  InputMap map(model.inputs, *system, given.names);
  if (map.features() != closure.model().inputs() || map.outputs() != closure.model().outputs())
    throw UsageError("{}: maps {} numbers to {}, the system {} gives {} and takes {}", closure.name(),
                     closure.model().inputs(), closure.model().outputs(), system->name(), map.features(),
                     map.outputs());
  return std::make_unique<MappedRows>(std::move(system), std::move(map), given);
}

}  // namespace mac::python
