// Systems whose equations are text.
#pragma once

#include <mac/system.hpp>

namespace mac {

/// `constants`: those that a file of the same system keeps; null: they are found when first needed.
std::unique_ptr<System> make_equations(const ConfigTable& table, const SystemConstants* constants);

}  // namespace mac
