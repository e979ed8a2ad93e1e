// A system whose equations are in another program: files that it wrote say what the variables are, which is
// all that evaluating, reporting and predicting need.
#include "systems/described.hpp"

#include <algorithm>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <nlohmann/json.hpp>

#include "systems/symmetries.hpp"

namespace mac {

namespace {

using Json = nlohmann::json;

class Described final : public System {
 public:
  explicit Described(SystemDescription description) : is_(std::move(description)) {}

  std::string_view name() const override { return is_.name; }
  const std::vector<std::string>& resolved_names() const override { return is_.resolved_names; }
  const std::vector<std::string>& closure_names() const override { return is_.closure_names; }
  std::span<const std::size_t> closure_targets() const override { return is_.closure_targets; }
  std::vector<Symmetry> symmetries() const override { return is_.symmetries; }
  std::vector<Lattice> lattices() const override { return is_.lattices; }
  std::string_view time_unit() const override { return is_.time_unit; }
  std::size_t fourier_modes() const override { return is_.fourier_modes; }
  bool is_known() const override { return false; }
  SystemConstants constants() const override { return is_.constants; }

  void reduced_rhs(const double*, double*) const override { refuse(); }
  void reduced_rhs_vjp(const double*, const double*, double*) const override { refuse(); }
  std::size_t full_size() const override { return resolved_size(); }
  std::unique_ptr<FullSolver> make_solver(double) const override { refuse(); }
  std::unique_ptr<InitialCondition> initial_condition(const ConfigTable* initial) const override {
    if (initial) initial->accept_all_keys();
    return std::make_unique<Elsewhere>(*this);
  }
  std::vector<Diagnostic> diagnostics(std::span<const double>) const override { return {}; }

 private:
  [[noreturn]] void refuse() const {
    throw UsageError(
        "the equations of the system \"{}\" are not known to this program: its files can be evaluated, "
        "reported and predicted on; to simulate, train or roll it out, load what has them (mac --plugin)",
        is_.name);
  }

  class Elsewhere final : public InitialCondition {
   public:
    explicit Elsewhere(const Described& system) : name_(system.is_.name) {}
    void sample(std::size_t, RandomStream&, std::span<double>) const override {
      throw UsageError("the initial states of the system \"{}\" are not known to this program", name_);
    }

   private:
    std::string name_;
  };

  SystemDescription is_;
};

constexpr std::pair<Lattice::Edge, const char*> edge_names[] = {{Lattice::Edge::periodic, "periodic"},
                                                                {Lattice::Edge::nearest, "nearest"},
                                                                {Lattice::Edge::zero, "zero"},
                                                                {Lattice::Edge::mirror, "mirror"}};

Json to_json(const Lattice& lattice) {
  Json edges = Json::array();
  for (const Lattice::Edge edge : lattice.edges)
    for (const auto& [kind, name] : edge_names)
      if (kind == edge) edges.push_back(name);
  return {{"name", lattice.name},
          {"extents", lattice.extents},
          {"edges", edges},
          {"variables", lattice.variables},
          {"length_keys", lattice.length_keys}};
}

Lattice lattice_from(const Json& json) {
  Lattice lattice;
  json.at("name").get_to(lattice.name);
  json.at("extents").get_to(lattice.extents);
  json.at("variables").get_to(lattice.variables);
  json.at("length_keys").get_to(lattice.length_keys);
  for (const Json& edge : json.at("edges"))
    for (const auto& [kind, name] : edge_names)
      if (edge.get<std::string>() == name) lattice.edges.push_back(kind);
  return lattice;
}

void check_lattices(const SystemDescription& description, const std::string& file) {
  for (const Lattice& lattice : description.lattices) {
    std::size_t sites = 1;
    for (const std::size_t extent : lattice.extents)  // no product that overflows is taken for a small one
      sites = std::max(sites, extent) <= lattice.variables.size() ? sites * extent : 0;
    const bool sound = sites > 0 && !lattice.extents.empty() &&
                       lattice.edges.size() == lattice.extents.size() && sites == lattice.variables.size() &&
                       std::ranges::all_of(lattice.variables, [&](std::size_t variable) {
                         return variable < description.resolved_names.size();
                       });
    if (!sound) throw Error("{}: describes a lattice {} that its variables do not make", file, lattice.name);
  }
}

}  // namespace

std::unique_ptr<System> make_described(SystemDescription description) {
  return std::make_unique<Described>(std::move(description));
}

std::vector<std::size_t> targets_by_name(const std::vector<std::string>& resolved,
                                         const std::vector<std::string>& closure) {
  std::vector<std::size_t> targets;
  for (const std::string& name : closure)
    for (std::size_t v = 0; v < resolved.size(); ++v)
      if (name == "C_" + resolved[v]) targets.push_back(v);
  if (targets.size() == closure.size()) return targets;
  targets.clear();
  for (std::size_t v = 0; closure.size() == resolved.size() && v < resolved.size(); ++v) targets.push_back(v);
  return targets;
}

SystemDescription describe(const System& system) {
  const auto targets = system.closure_targets();
  return {std::string(system.name()),       system.resolved_names(), system.closure_names(),
          {targets.begin(), targets.end()}, system.symmetries(),     std::string(system.time_unit()),
          system.fourier_modes(),           system.constants(),      system.lattices()};
}

std::string to_text(const SystemDescription& description) {
  Json symmetries = Json::array();
  for (const Symmetry& symmetry : description.symmetries) symmetries.push_back(name_of(symmetry.kind));
  Json lattices = Json::array();
  for (const Lattice& lattice : description.lattices) lattices.push_back(to_json(lattice));
  return Json{{"name", description.name},
              {"resolved", description.resolved_names},
              {"closure", description.closure_names},
              {"targets", description.closure_targets},
              {"symmetries", symmetries},
              {"time_unit", description.time_unit},
              {"fourier_modes", description.fourier_modes},
              {"constants", description.constants},
              {"lattices", lattices}}
      .dump();
}

SystemDescription description_from(const std::string& text, const std::string& file) {
  SystemDescription description;
  try {
    const Json json = Json::parse(text);
    json.at("name").get_to(description.name);
    json.at("resolved").get_to(description.resolved_names);
    json.at("closure").get_to(description.closure_names);
    json.at("targets").get_to(description.closure_targets);
    json.at("time_unit").get_to(description.time_unit);
    json.at("fourier_modes").get_to(description.fourier_modes);
    json.at("constants").get_to(description.constants);
    for (const Json& symmetry : json.at("symmetries"))
      if (const auto kind = symmetry_named(symmetry.get<std::string>()))
        description.symmetries.push_back({*kind});
    for (const Json& lattice : json.value("lattices", Json::array()))
      description.lattices.push_back(lattice_from(lattice));
  } catch (const Json::exception& error) {
    throw Error("{}: its description of the system cannot be read: {}", file, error.what());
  }
  if (!description.closure_targets.empty() &&
      description.closure_targets.size() != description.closure_names.size())
    throw Error("{}: describes a system of {} closures for {} equations", file,
                description.closure_names.size(), description.closure_targets.size());
  check_lattices(description, file);
  for (const std::size_t target : description.closure_targets)
    if (target >= description.resolved_names.size())
      throw Error("{}: describes a closure for variable {} of {}", file, target,
                  description.resolved_names.size());
  return description;
}

}  // namespace mac
