// Symmetries by name, for systems that come from elsewhere: text and plug-ins.
#pragma once

#include <functional>
#include <mac/config.hpp>
#include <mac/system.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace mac {

std::string_view name_of(Symmetry::Kind kind);
std::optional<Symmetry::Kind> symmetry_named(std::string_view name);

/// The list of names in `symmetries`; throws UsageError for a name that is none.
std::vector<Symmetry> read_symmetries(const ConfigTable& table);

/// M, where a symmetry takes the resolved variables for phi_1..phi_M psi_1..psi_M; else 0.
std::size_t modes_of(const std::vector<Symmetry>& symmetries, std::size_t resolved_size);

using Rates = std::function<void(const double* y, double* dydt)>;

/// Why the reduced equations do not have the symmetry: the rates of the image of a state are not the image of its
/// rates, for states drawn at random; or there are not the variables for it. None: they have it.
std::optional<std::string> why_not(Symmetry symmetry, const std::vector<std::string>& resolved_names,
                                   std::span<const std::size_t> closure_targets, const Rates& rates);

}  // namespace mac
