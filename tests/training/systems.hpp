// The four systems, small, for tests that must hold for all of them.
#pragma once

#include <mac/config.hpp>
#include <mac/random.hpp>
#include <mac/system.hpp>
#include <memory>
#include <string>
#include <vector>

namespace mac::test {

inline std::unique_ptr<System> system_named(const std::string& name) {
  return make_system(ConfigTable::parse("name = '" + name + "'", "test.toml"));
}

inline const std::vector<std::string> all_systems{"burgers", "kdv", "lorenz96", "power_grid"};

inline std::vector<double> normal_values(std::size_t count, double scale, RandomStream& random) {
  std::vector<double> values(count);
  for (double& value : values) value = scale * random.normal();
  return values;
}

}  // namespace mac::test
