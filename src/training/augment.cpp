#include "training/augment.hpp"

#include <algorithm>
#include <mac/error.hpp>
#include <numbers>

#include "coupling/fourier_frame.hpp"

namespace mac {

namespace {

void translate(double* rows, std::size_t count, std::size_t modes, const std::vector<double>& factors) {
  for (double* row = rows; row != rows + count * 2 * modes; row += 2 * modes)
    turn_modes(modes, factors.data(), row);
}

void reflect(double* rows, std::size_t count, std::size_t modes) {
  for (double* row = rows; row != rows + count * 2 * modes; row += 2 * modes)
    for (std::size_t k = 0; k < modes; ++k) row[k] = -row[k];
}

void shift(double* rows, std::size_t count, std::size_t ring, std::size_t by) {
  for (double* row = rows; row != rows + count * ring; row += ring) std::rotate(row, row + by, row + ring);
}

void negate(double* numbers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) numbers[i] = -numbers[i];
}

}  // namespace

Augmentation::Augmentation(const System& system)
    : symmetries_(system.symmetries()),
      modes_(has(Symmetry::Kind::fourier_translation) || has(Symmetry::Kind::fourier_reflection)
                 ? system.fourier_modes()
                 : 0),
      d_(system.resolved_size()),
      c_(system.closure_size()) {
  check_symmetries(system);
  const bool moves_components = std::ranges::any_of(
      symmetries_, [](const Symmetry& symmetry) { return symmetry.kind != Symmetry::Kind::reflection; });
  if (moves_components && d_ != c_)
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
      case Symmetry::Kind::reflection:
        element.negative = random.below(2) == 1;
        break;
    }
  return element;
}

// With T_a the translation and S the reflection, S T_a = T_{-a} S. The image is S T_b y = T_{-b} S y, and in its frame,
// whatever b, T_{-f} S y = S T_f y with f the angle of S y. The sign goes with either.
Augmentation::Element Augmentation::into_frame(const Element& drawn, const double* y) const {
  std::vector<double> image(y, y + 2 * modes_);
  if (drawn.reflected) reflect(image.data(), 1, modes_);
  if (drawn.negative) negate(image.data(), image.size());
  const double angle = fourier_angle(modes_, image.data());
  Element element = drawn;
  element.angle = drawn.reflected ? angle : -angle;
  return element;
}

void Augmentation::apply(const Element& element, double* resolved, std::size_t states, double* closure,
                         std::size_t closures) const {
  if (modes_ > 0) {
    std::vector<double> factors(2 * modes_);
    fourier_factors(modes_, element.angle, factors.data());
    translate(resolved, states, modes_, factors);
    translate(closure, closures, modes_, factors);
  }
  if (element.reflected) {
    reflect(resolved, states, modes_);
    reflect(closure, closures, modes_);
  }
  if (has(Symmetry::Kind::cyclic_shift)) {
    shift(resolved, states, d_, element.shift);
    shift(closure, closures, c_, element.shift);
  }
  if (element.negative) {
    negate(resolved, states * d_);
    negate(closure, closures * c_);
  }
}

}  // namespace mac
