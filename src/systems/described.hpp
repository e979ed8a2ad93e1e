// A system of which only a file's description is known.
#pragma once

#include <mac/system.hpp>

namespace mac {

std::unique_ptr<System> make_described(SystemDescription description);

/// The equation of each closure: C_x belongs to that of x; else they are in order, where there are as many.
/// Empty where neither tells.
std::vector<std::size_t> targets_by_name(const std::vector<std::string>& resolved,
                                         const std::vector<std::string>& closure);

/// The description as text for a file's attribute, and back; UsageError naming `file` if it is none.
std::string to_text(const SystemDescription& description);
SystemDescription description_from(const std::string& text, const std::string& file);

}  // namespace mac
