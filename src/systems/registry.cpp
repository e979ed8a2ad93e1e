// The systems by name. A new one of the library is a file src/systems/NAME.cpp that defines make_NAME, and a
// line here; a user's own is added by register_system.
#include <filesystem>
#include <mac/config.hpp>
#include <mac/error.hpp>
#include <mac/system.hpp>
#include <mutex>

#include "systems/described.hpp"
#include "systems/equations/equation_system.hpp"
#include "systems/plugin.hpp"
#include "systems/reduced_equations.hpp"

#define MAC_SYSTEMS(SYSTEM) \
  SYSTEM(burgers)           \
  SYSTEM(kdv)               \
  SYSTEM(ks)                \
  SYSTEM(ks_cells)          \
  SYSTEM(lorenz96)          \
  SYSTEM(power_grid)        \
  SYSTEM(recorded)

namespace mac {

#define MAC_DECLARE(name) std::unique_ptr<System> make_##name(const ConfigTable& table);
MAC_SYSTEMS(MAC_DECLARE)
#undef MAC_DECLARE

namespace {

struct Entry {
  std::string name;
  SystemFactory make;
};

struct Registry {
  std::mutex mutex;
#define MAC_ENTRY(name) Entry{#name, make_##name},
  std::vector<Entry> entries{MAC_SYSTEMS(MAC_ENTRY)};
#undef MAC_ENTRY
};

Registry& registry() {
  static Registry the;
  return the;
}

}  // namespace

std::optional<ReducedEquations> System::reduced_equations() const { return std::nullopt; }

void System::reduced_rhs_columns(std::size_t count, const double* y, double* dydt) const {
  for (std::size_t i = 0; i < count; ++i) reduced_rhs(y + i * resolved_size(), dydt + i * resolved_size());
}

void System::reduced_rhs_vjp_columns(std::size_t count, const double* y, const double* adjoint,
                                     double* grad_y) const {
  for (std::size_t i = 0; i < count * resolved_size(); i += resolved_size())
    reduced_rhs_vjp(y + i, adjoint + i, grad_y + i);
}

std::vector<std::string> system_names() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::string> names;
  for (const Entry& entry : registry().entries) names.push_back(entry.name);
  return names;
}

void register_system(const std::string& name, SystemFactory make) {
  const std::lock_guard lock(registry().mutex);
  for (const Entry& entry : registry().entries)
    if (entry.name == name) throw UsageError("there is a system \"{}\" already", name);
  registry().entries.push_back({name, std::move(make)});
}

namespace {

SystemFactory factory_of(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  for (const Entry& entry : registry().entries)
    if (name == entry.name) return entry.make;
  return nullptr;
}

bool is_text(const ConfigTable& table) {
  return table.has("kind") && table.choice("kind", {"equations"}) == "equations";
}

std::unique_ptr<System> checked(std::unique_ptr<System> system) {
  check_symmetries(*system);
  return system;
}

}  // namespace

void check_symmetries(const System& system) {
  const std::size_t d = system.resolved_size(), modes = system.fourier_modes();
  for (const Symmetry& symmetry : system.symmetries())
    if ((symmetry.kind == Symmetry::Kind::fourier_translation ||
         symmetry.kind == Symmetry::Kind::fourier_reflection) &&
        (modes == 0 || d != 2 * modes))
      throw UsageError(
          "the system \"{}\" declares a symmetry of Fourier modes, but has {} modes for {} resolved "
          "variables; it takes phi_1..phi_M psi_1..psi_M and fourier_modes() = M",
          system.name(), modes, d);
}

std::unique_ptr<System> make_system(const ConfigTable& table) {
  if (is_text(table)) return make_equations(table, nullptr);
  if (table.has("plugin"))
    load_plugin((std::filesystem::path(table.file()).parent_path() / table.string("plugin")).string());
  return checked(factory_of(table.choice("name", system_names()))(table));
}

std::unique_ptr<System> make_system(const ConfigTable& table, const SystemDescription& description) {
  if (is_text(table)) return make_equations(table, &description.constants);
  table.has("plugin");  // where its library was: a file never loads one
  if (const SystemFactory make = factory_of(table.string("name"))) return checked(make(table));
  if (description.resolved_names.empty())
    table.choice("name", system_names());  // the file does not say: refused by name
  table.accept_all_keys();
  return make_described(description);
}

void start_trajectory(const System& system, const InitialCondition& initial, std::size_t index,
                      RandomStream& random, FullSolver& solver) {
  std::vector<double> state(system.full_size());
  initial.sample(index, random, state);
  solver.start(state);
  if (system.warmup_steps() == 0) return;
  for (std::size_t i = 0; i < system.warmup_steps(); ++i) solver.step();
  std::copy(solver.state().begin(), solver.state().end(), state.begin());
  solver.start(state);
}

}  // namespace mac
