#include "training/augment.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>
#include <numbers>

namespace mac {

namespace {

/// theta_k -> theta_k e^{ika} in rows phi_1..phi_M psi_1..psi_M; factor holds cos ka, sin ka.
void translate(double* rows, std::size_t count, std::size_t modes, const std::vector<double>& factor) {
  for (double* row = rows; row != rows + count * 2 * modes; row += 2 * modes)
    for (std::size_t k = 0; k < modes; ++k) {
      const double phi = row[k], psi = row[modes + k], cosine = factor[2 * k], sine = factor[2 * k + 1];
      row[k] = phi * cosine - psi * sine;
      row[modes + k] = phi * sine + psi * cosine;
    }
}

void reflect(double* rows, std::size_t count, std::size_t modes) {
  for (double* row = rows; row != rows + count * 2 * modes; row += 2 * modes)
    for (std::size_t k = 0; k < modes; ++k) row[k] = -row[k];
}

void shift(double* rows, std::size_t count, std::size_t ring, std::size_t by) {
  for (double* row = rows; row != rows + count * ring; row += ring) std::rotate(row, row + by, row + ring);
}

}  // namespace

Augmentation::Augmentation(const System& system)
    : symmetries_(system.symmetries()),
      modes_(has(Symmetry::Kind::fourier_translation) ? system.fourier_modes() : 0),
      d_(system.resolved_size()),
      c_(system.closure_size()) {
  check_symmetries(system);
  if (!symmetries_.empty() && d_ != c_)
    throw Error("the symmetries of {} need a closure for each of its {} resolved variables, not {}",
                system.name(), d_, c_);
}

bool Augmentation::has(Symmetry::Kind kind) const {
  return std::ranges::any_of(symmetries_, [&](const Symmetry& symmetry) { return symmetry.kind == kind; });
}

Augmentation::Element Augmentation::draw(RandomStream& random) const {
  Element element;
  for (const Symmetry& symmetry : symmetries_) switch (symmetry.kind) {
      case Symmetry::Kind::fourier_translation:
        element.angle = random.uniform(0, 2 * std::numbers::pi);
        break;
      case Symmetry::Kind::fourier_reflection:
        element.reflected = random.below(2) == 1;
        break;
      case Symmetry::Kind::cyclic_shift:
        element.shift = random.below(d_);
        break;
    }
  return element;
}

void Augmentation::apply(const Element& element, double* resolved, std::size_t states, double* closure,
                         std::size_t closures) const {
  if (modes_ > 0) {
    std::vector<double> factor(2 * modes_);
    for (std::size_t k = 0; k < modes_; ++k) {
      factor[2 * k] = std::cos(static_cast<double>(k + 1) * element.angle);
      factor[2 * k + 1] = std::sin(static_cast<double>(k + 1) * element.angle);
    }
    translate(resolved, states, modes_, factor);
    translate(closure, closures, modes_, factor);
  }
  if (element.reflected) {
    reflect(resolved, states, modes_);
    reflect(closure, closures, modes_);
  }
  if (has(Symmetry::Kind::cyclic_shift)) {
    shift(resolved, states, d_, element.shift);
    shift(closure, closures, c_, element.shift);
  }
}

}  // namespace mac
