// The systems by name. A new one is a file src/systems/NAME.cpp that defines make_NAME, and a line here.
#include <array>
#include <mac/config.hpp>
#include <mac/system.hpp>

#define MAC_SYSTEMS(SYSTEM) \
  SYSTEM(burgers)           \
  SYSTEM(kdv)               \
  SYSTEM(lorenz96)          \
  SYSTEM(power_grid)

namespace mac {

#define MAC_DECLARE(name) std::unique_ptr<System> make_##name(const ConfigTable& table);
MAC_SYSTEMS(MAC_DECLARE)
#undef MAC_DECLARE

namespace {

struct Entry {
  const char* name;
  std::unique_ptr<System> (*make)(const ConfigTable& table);
};
#define MAC_ENTRY(name) Entry{#name, make_##name},
const std::array entries{MAC_SYSTEMS(MAC_ENTRY)};
#undef MAC_ENTRY

}  // namespace

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<System> make_system(const ConfigTable& table) {
  const std::string name = table.choice("name", system_names());
  for (const Entry& entry : entries)
    if (name == entry.name) return entry.make(table);
  table.fail("name", "no such system");
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
