// Random images of a trajectory under the symmetries of its system: as good as new data, for free.
#pragma once

#include <mac/random.hpp>
#include <mac/system.hpp>
#include <vector>

namespace mac {

class Augmentation {
 public:
  explicit Augmentation(const System& system);

  /// One element of the symmetry group: translation, then reflection, then cyclic shift, then the sign.
  struct Element {
    double angle = 0;  // mode k turns by k angle
    bool reflected = false;
    std::size_t shift = 0;
    bool negative = false;
  };
  Element draw(RandomStream& random) const;
  /// Of the image by `drawn` of a trajectory that begins at y: what leads from the trajectory to that image in the frame
  /// of its first state (coupling/fourier_frame.hpp). Nothing is left of the translation that was drawn.
  Element into_frame(const Element& drawn, const double* y) const;

  /// Applies an element to all rows of one trajectory: resolved (states, d), closure (closures, c).
  void apply(const Element& element, double* resolved, std::size_t states, double* closure,
             std::size_t closures) const;

  std::size_t turned_modes() const {
    return modes_;
  }  // Fourier modes that a symmetry turns or reflects; 0: none

 private:
  bool has(Symmetry::Kind kind) const;

  std::vector<Symmetry> symmetries_;
  std::size_t modes_, d_, c_;
};

}  // namespace mac
