#include "coupling/input_map.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <mac/error.hpp>

#include "base/nearest.hpp"

namespace mac {

namespace {

constexpr std::size_t most_features = 4096;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// A site's neighbour along one direction; none: beyond a wall where the field is zero.
std::optional<std::size_t> neighbour(std::size_t site, int offset, std::size_t extent, Lattice::Edge edge) {
  const auto n = static_cast<long>(extent);
  long k = static_cast<long>(site) + offset;
  if (k >= 0 && k < n) return static_cast<std::size_t>(k);
  switch (edge) {
    case Lattice::Edge::periodic:
      return static_cast<std::size_t>(((k % n) + n) % n);
    case Lattice::Edge::zero:
      return std::nullopt;
    case Lattice::Edge::mirror:  // the end itself is the mirror: -1 is 0, n is n - 1
      k = ((k % (2 * n)) + 2 * n) % (2 * n);
      return static_cast<std::size_t>(k < n ? k : 2 * n - 1 - k);
    case Lattice::Edge::nearest:
      break;
  }
  return static_cast<std::size_t>(std::clamp(k, 0L, n - 1));
}

std::optional<std::size_t> find(const std::vector<std::string>& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

const Lattice& lattice_named(const std::vector<Lattice>& lattices, const std::string& name,
                             const System& system) {
  std::vector<std::string> names;
  for (const Lattice& lattice : lattices) {
    if (lattice.name == name) return lattice;
    names.push_back(lattice.name);
  }
  if (names.empty())
    throw UsageError("the system {} has no lattice of variables, which a local closure needs", system.name());
  throw UsageError("the system {} has no lattice \"{}\"{}; it has {}", system.name(), name,
                   suggestion(name, names), fmt::join(names, ", "));
}

bool is_turned_by_translations(const System& system) {
  return std::ranges::any_of(system.symmetries(), [](const Symmetry& symmetry) {
    return symmetry.kind == Symmetry::Kind::fourier_translation;
  });
}

/// A closure for each resolved variable, in their order.
bool closes_all(const System& system) {
  const auto targets = system.closure_targets();
  bool in_order = targets.size() == system.resolved_size();
  for (std::size_t j = 0; in_order && j < targets.size(); ++j) in_order = targets[j] == j;
  return in_order;
}

/// Modes that a translation of the system turns, all of which its network reads and closes.
std::size_t turned_modes(const NetworkInputs& inputs, const System& system) {
  if (inputs.is_local() || !inputs.state.empty())
    throw UsageError(
        "the frame \"initial\" turns all resolved variables: leave out local and the state of "
        "[models.inputs]");
  if (!is_turned_by_translations(system))
    throw UsageError(
        "the system {} is no field whose Fourier modes a translation turns: expected frame = \"none\"",
        system.name());
  check_symmetries(system);
  if (!closes_all(system))
    throw UsageError("the frame \"initial\" needs a closure for each resolved variable of {}, in their order",
                     system.name());
  return system.fourier_modes();
}

}  // namespace

bool has_frame(const NetworkInputs& inputs, const System& system) {
  return !inputs.is_local() && inputs.state.empty() && is_turned_by_translations(system) &&
         closes_all(system);
}

/// From names to numbers.
class InputMap::Reader {
 public:
  Reader(const NetworkInputs& inputs, const System& system) : system_(system), all_(system.lattices()) {
    for (const std::string& name : inputs.of) lattices_.push_back(lattice_named(all_, name, system));
    for (const Lattice& lattice : lattices_)
      if (lattice.extents != lattices_.front().extents || lattice.edges != lattices_.front().edges)
        throw UsageError(
            "the lattices {} and {} have other sizes or edges: a local closure reads variables of one",
            lattices_.front().name, lattice.name);
    if (lattices_.empty()) return;
    const std::size_t directions = lattices_.front().extents.size();
    if (inputs.stencil.size() != directions)
      throw UsageError("the stencil has {} direction(s), the lattice {} has {}", inputs.stencil.size(),
                       lattices_.front().name, directions);
    for (const StencilRange& range : inputs.stencil)
      if (range.from > 0 || range.to < 0)
        throw UsageError(
            "the stencil {}..{} does not reach from a site to its neighbours: expected from <= 0 <= to",
            range.from, range.to);
  }

  std::size_t sites() const { return lattices_.empty() ? 1 : lattices_.front().sites(); }

  /// The names of all features of a stencil: lattice after lattice, the last direction fastest.
  std::vector<std::string> stencil_names(const std::vector<StencilRange>& stencil) const {
    std::vector<std::string> names;
    for (const Lattice& lattice : lattices_) {
      std::vector<int> offset;
      for (const StencilRange& range : stencil) offset.push_back(range.from);
      for (bool more = true; more && names.size() <= most_features;) {
        names.push_back(fmt::format("{}[{}]", lattice.name, fmt::join(offset, ",")));
        more = false;
        for (std::size_t k = offset.size(); k-- > 0 && !more;) {
          more = offset[k] < stencil[k].to;
          offset[k] = more ? offset[k] + 1 : stencil[k].from;
        }
      }
    }
    return names;
  }

  Term term(const std::string& feature, std::size_t site) const {
    if (const auto alone = number(feature, site)) return {*alone, nothing, Operation::value, false};
    // A name may have the sign of an operation in it: the first place that leaves two names is meant.
    for (std::size_t k = 1; k + 1 < feature.size(); ++k) {
      const auto sign = std::string_view("+-*").find(feature[k]);
      if (sign == std::string_view::npos) continue;
      const std::string_view text = feature;
      const auto a = number(trimmed(text.substr(0, k)), site), b = number(trimmed(text.substr(k + 1)), site);
      if (a && b) return {*a, *b, static_cast<Operation>(sign + 1), false};
    }
    if (!lattices_.empty())
      throw UsageError(
          "the input \"{}\" is no feature of the sites of {}: expected {}[OFFSET], or two of them with +, - "
          "or * between",
          feature, lattices_.front().name, lattices_.front().name);
    throw UsageError(
        "the input \"{}\" is no resolved variable of {}, nor two of them with +, - or * between{}", feature,
        system_.name(), suggestion(feature, system_.resolved_names()));
  }

  /// (sites, outputs), and the names of the outputs.
  std::vector<std::size_t> closures(std::vector<std::string>& output_names) const {
    const auto targets = system_.closure_targets();
    std::vector<std::size_t> closures;
    std::vector<const Lattice*> closed;
    for (const Lattice& lattice : lattices_) {
      const auto has = [&](std::size_t variable) {
        return std::ranges::find(targets, variable) != targets.end();
      };
      if (std::ranges::none_of(lattice.variables, has)) continue;
      if (!std::ranges::all_of(lattice.variables, has))
        throw UsageError("the equations of some sites of {} have a closure, those of others have none",
                         lattice.name);
      closed.push_back(&lattice);
      output_names.push_back("C_" + lattice.name);
    }
    for (std::size_t site = 0; site < sites(); ++site)
      for (const Lattice* lattice : closed)
        closures.push_back(
            static_cast<std::size_t>(std::ranges::find(targets, lattice->variables[site]) - targets.begin()));
    for (std::size_t j = 0; j < targets.size(); ++j)
      if (std::ranges::find(closures, j) == closures.end())
        throw UsageError("the closure {} is that of no site of the local network, which would leave it out",
                         system_.closure_names()[j]);
    return closures;
  }

 private:
  /// "X3" of the whole state; of a site "X[-1]", or a variable that lies on none of the lattices. None: no such name.
  std::optional<std::uint32_t> number(std::string_view name, std::size_t site) const {
    if (const auto variable = find(system_.resolved_names(), name);
        variable && std::ranges::none_of(lattices_, [&](const Lattice& lattice) {
          return std::ranges::find(lattice.variables, *variable) != lattice.variables.end();
        }))
      return static_cast<std::uint32_t>(*variable);
    const std::size_t bracket = name.find('[');
    const std::string_view base = name.substr(0, bracket);
    for (const Lattice& lattice : lattices_) {
      if (lattice.name != base) continue;
      if (bracket == std::string_view::npos) return static_cast<std::uint32_t>(lattice.variables[site]);
      if (name.back() != ']') return std::nullopt;
      const auto offsets = read_offsets(name.substr(bracket + 1, name.size() - bracket - 2));
      if (!offsets || offsets->size() != lattice.extents.size()) return std::nullopt;
      return at(lattice, site, *offsets);
    }
    return std::nullopt;
  }

  static std::optional<std::vector<int>> read_offsets(std::string_view text) {
    std::vector<int> offsets;
    while (true) {
      const std::size_t comma = text.find(',');
      std::string_view part = trimmed(text.substr(0, comma));
      if (part.starts_with('+')) part.remove_prefix(1);
      int offset = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), offset);
      if (error != std::errc() || end != part.data() + part.size() || std::abs(offset) > 1'000'000)
        return std::nullopt;
      offsets.push_back(offset);
      if (comma == std::string_view::npos) return offsets;
      text.remove_prefix(comma + 1);
    }
  }

  static std::uint32_t at(const Lattice& lattice, std::size_t site, const std::vector<int>& offsets) {
    std::size_t position = 0, scale = 1;
    for (std::size_t k = lattice.extents.size(); k-- > 0;) {
      const auto there =
          neighbour(site % lattice.extents[k], offsets[k], lattice.extents[k], lattice.edges[k]);
      if (!there) return nothing;
      position += *there * scale;
      scale *= lattice.extents[k];
      site /= lattice.extents[k];
    }
    return static_cast<std::uint32_t>(lattice.variables[position]);
  }

  const System& system_;
  std::vector<Lattice> all_, lattices_;
};

InputMap::InputMap(const System& system)
    : names_(system.resolved_names()),
      output_names_(system.closure_names()),
      targets_(system.closure_targets().begin(), system.closure_targets().end()) {
  for (std::size_t v = 0; v < names_.size(); ++v)
    terms_.push_back({static_cast<std::uint32_t>(v), nothing, Operation::value, false});
}

InputMap InputMap::plain(std::size_t resolved, std::size_t closures) {
  InputMap map;
  map.names_.resize(resolved);
  map.output_names_.resize(closures);
  return map;
}

InputMap::InputMap(const NetworkInputs& inputs, const System& system, const std::vector<std::string>& given)
    : InputMap(system) {
  given_ = given.size();
  if (inputs.is_plain()) return;
  plain_ = false;
  if (inputs.frame == Frame::initial) frame_modes_ = turned_modes(inputs, system);
  const Reader reader(inputs, system);
  sites_ = reader.sites();
  std::vector<std::string> state = inputs.state;
  if (inputs.is_local()) {
    output_names_.clear();
    closures_ = reader.closures(output_names_);
    if (state.empty()) state = reader.stencil_names(inputs.stencil);
  } else {
    for (std::size_t j = 0; j < output_names_.size(); ++j) closures_.push_back(j);
    if (state.empty()) state = system.resolved_names();
  }
  names_ = state;
  names_.insert(names_.end(), inputs.given.begin(), inputs.given.end());
  if (names_.size() > most_features)
    throw UsageError("the network would read {} inputs, more than {}", names_.size(), most_features);
  for (const std::string& name : names_)
    if (std::ranges::count(names_, name) > 1) throw UsageError("the input \"{}\" is there twice", name);
  terms_.clear();
  for (std::size_t site = 0; site < sites_; ++site) {
    for (const std::string& feature : state) terms_.push_back(reader.term(feature, site));
    for (const std::string& name : inputs.given) {
      auto number = find(given, name);
      if (!number && inputs.is_local()) number = find(given, name + std::to_string(site + 1));
      if (!number)
        throw UsageError(
            "the input \"{}\" is not among what the data give from outside{}{}{}", name,
            given.empty() ? ", which is nothing" : fmt::format(" ({})", fmt::join(given, ", ")),
            inputs.is_local() ? fmt::format(", nor is {0}1 to {0}{1}, one for each site", name, sites_) : "",
            suggestion(name, given));
      terms_.push_back({static_cast<std::uint32_t>(*number), nothing, Operation::value, true});
    }
  }
}

std::vector<std::size_t> InputMap::targets_among_features() const {
  if (plain_ || targets_.empty()) return targets_;  // a description may leave them out
  const auto is_target = [&](std::size_t feature, std::size_t output) {
    for (std::size_t site = 0; site < sites_; ++site) {  // beyond a wall a neighbour may be the site itself
      const Term& term = terms_[site * names_.size() + feature];
      if (term.from_outside || term.operation != Operation::value ||
          term.a != targets_[closure(site, output)])
        return false;
    }
    return true;
  };
  std::vector<std::size_t> features;
  for (std::size_t j = 0; j < outputs(); ++j) {
    std::size_t f = 0;
    while (f < names_.size() && !is_target(f, j)) ++f;
    if (f == names_.size()) return {};
    features.push_back(f);
  }
  return features;
}

std::optional<std::size_t> InputMap::variable_of(std::size_t feature) const {
  const Term& term = terms_[feature];
  if (sites_ > 1 || term.from_outside || term.operation != Operation::value) return std::nullopt;
  return term.a;
}

}  // namespace mac
