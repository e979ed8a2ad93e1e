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
      modes_(system.fourier_modes()),
      d_(system.resolved_size()),
      c_(system.closure_size()) {
  if (!symmetries_.empty() && d_ != c_)
    throw Error("the symmetries of {} need a closure for each of its {} resolved variables, not {}",
                system.name(), d_, c_);
}

void Augmentation::apply(RandomStream& random, double* resolved, std::size_t states, double* closure,
                         std::size_t closures) const {
  for (const Symmetry& symmetry : symmetries_) {
    switch (symmetry.kind) {
      case Symmetry::Kind::fourier_translation: {
        const double a = random.uniform(0, 2 * std::numbers::pi);
        std::vector<double> factor(2 * modes_);
        for (std::size_t k = 0; k < modes_; ++k) {
          factor[2 * k] = std::cos(static_cast<double>(k + 1) * a);
          factor[2 * k + 1] = std::sin(static_cast<double>(k + 1) * a);
        }
        translate(resolved, states, modes_, factor);
        translate(closure, closures, modes_, factor);
        break;
      }
      case Symmetry::Kind::fourier_reflection:
        if (random.below(2) == 1) {
          reflect(resolved, states, modes_);
          reflect(closure, closures, modes_);
        }
        break;
      case Symmetry::Kind::cyclic_shift: {
        const std::size_t by = random.below(d_);
        shift(resolved, states, d_, by);
        shift(closure, closures, c_, by);
        break;
      }
    }
  }
}

}  // namespace mac
