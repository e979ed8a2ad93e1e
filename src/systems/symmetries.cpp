#include "systems/symmetries.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <mac/random.hpp>
#include <numbers>

namespace mac {

namespace {

constexpr std::pair<Symmetry::Kind, std::string_view> names[] = {
    {Symmetry::Kind::fourier_translation, "fourier_translation"},
    {Symmetry::Kind::fourier_reflection, "fourier_reflection"},
    {Symmetry::Kind::cyclic_shift, "cyclic_shift"},
    {Symmetry::Kind::reflection, "reflection"}};

constexpr std::uint32_t states_to_try = 4;
constexpr double rounding = 1e-9;  // of rates whose terms may be much larger than they are

bool is_of_modes(Symmetry symmetry) {
  return symmetry.kind == Symmetry::Kind::fourier_translation ||
         symmetry.kind == Symmetry::Kind::fourier_reflection;
}

/// The image of a state, or of its rates. `angle` is that of a translation.
void transform(Symmetry symmetry, double angle, std::vector<double>& y) {
  const std::size_t modes = y.size() / 2;
  switch (symmetry.kind) {
    case Symmetry::Kind::fourier_translation:
      for (std::size_t k = 0; k < modes; ++k) {
        const auto theta =
            std::complex(y[k], y[modes + k]) * std::polar(1.0, static_cast<double>(k + 1) * angle);
        y[k] = theta.real(), y[modes + k] = theta.imag();
      }
      break;
    case Symmetry::Kind::fourier_reflection:
      for (std::size_t k = 0; k < modes; ++k) y[k] = -y[k];
      break;
    case Symmetry::Kind::cyclic_shift:
      std::rotate(y.begin(), y.begin() + 1, y.end());
      break;
    case Symmetry::Kind::reflection:
      for (double& value : y) value = -value;
      break;
  }
}

std::string_view image_of(Symmetry symmetry) {
  switch (symmetry.kind) {
    case Symmetry::Kind::fourier_translation:
      return "turned";
    case Symmetry::Kind::cyclic_shift:
      return "shifted";
    case Symmetry::Kind::fourier_reflection:
    case Symmetry::Kind::reflection:
      break;
  }
  return "reflected";
}

bool all_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

}  // namespace

std::string_view name_of(Symmetry::Kind kind) {
  for (const auto& [known, name] : names)
    if (known == kind) return name;
  return "";
}

std::optional<Symmetry::Kind> symmetry_named(std::string_view name) {
  for (const auto& [kind, known] : names)
    if (known == name) return kind;
  return std::nullopt;
}

std::vector<Symmetry> read_symmetries(const ConfigTable& table) {
  std::vector<Symmetry> symmetries;
  for (const std::string& name : table.strings_or("symmetries", {})) {
    const auto kind = symmetry_named(name);
    if (!kind) {
      std::vector<std::string_view> known;
      for (const auto& entry : names) known.push_back(entry.second);
      table.fail("symmetries",
                 fmt::format("\"{}\" is no symmetry; there are {}", name, fmt::join(known, ", ")));
    }
    if (std::ranges::any_of(symmetries, [&](const Symmetry& other) { return other.kind == *kind; }))
      table.fail("symmetries", fmt::format("\"{}\" is there twice", name));
    symmetries.push_back({*kind});
  }
  return symmetries;
}

std::size_t modes_of(const std::vector<Symmetry>& symmetries, std::size_t resolved_size) {
  return std::ranges::any_of(symmetries, is_of_modes) ? resolved_size / 2 : 0;
}

std::optional<std::string> why_not(Symmetry symmetry, const std::vector<std::string>& resolved_names,
                                   std::span<const std::size_t> closure_targets, const Rates& rates) {
  const std::size_t d = resolved_names.size();
  if (is_of_modes(symmetry) && d % 2 != 0)
    return fmt::format(
        "its resolved variables are the real parts of M Fourier modes, then the imaginary parts, but {} is "
        "an odd number",
        d);
  if (symmetry.kind != Symmetry::Kind::reflection) {
    bool in_order = closure_targets.size() == d;
    for (std::size_t j = 0; in_order && j < d; ++j) in_order = closure_targets[j] == j;
    if (!in_order) return "not every resolved variable has a closure in its equation, in the same order";
  }
  std::size_t tried = 0;
  for (std::uint32_t i = 0; i < states_to_try; ++i) {
    RandomStream random(0, Purpose::diagnosis, i + 1);
    std::vector<double> y(d), rate(d), image_rate(d);
    // Around 0; then positive numbers, for equations that have nothing below.
    for (double& value : y) value = i < states_to_try / 2 ? random.normal() : random.uniform(0.5, 1.5);
    const double angle = random.uniform(0, 2 * std::numbers::pi);
    rates(y.data(), rate.data());
    transform(symmetry, angle, y);
    rates(y.data(), image_rate.data());
    if (!all_finite(rate) || !all_finite(image_rate)) continue;
    ++tried;
    transform(symmetry, angle, rate);
    double size = 1;
    for (const double value : rate) size = std::max(size, std::abs(value));
    for (std::size_t k = 0; k < d; ++k)
      if (std::abs(image_rate[k] - rate[k]) > rounding * size)
        return fmt::format("the rates of a {0} state are not the {0} rates (at {1})", image_of(symmetry),
                           resolved_names[k]);
  }
  if (tried == 0) return "at no state of normal or positive random numbers are the rates finite";
  return std::nullopt;
}

}  // namespace mac
