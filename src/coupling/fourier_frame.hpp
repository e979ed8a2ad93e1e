// Turns of Fourier modes, and frames in which a network sees them.
//
// A field that is moved along its period has the modes theta_k e^{ika}. Equations without a place of their own move
// their solutions and closures with it; a network does so exactly if it never learns where the field is:
//
//   C = turn(network(turn(y, -a), memory), a)        a = fourier_angle(the first state that the memory saw)
//
// The angle belongs to the memory: it stays until the memory is at rest again. Rows are phi_1..phi_M psi_1..psi_M with
// theta_k = phi_k + i psi_k.
#pragma once

#include <cstddef>
#include <vector>

#include "coupling/fourier_angle.hpp"

namespace mac {

/// cos ka, sin ka for k = 1..M.
void fourier_factors(std::size_t modes, double angle, double* factors);

/// theta_k -> theta_k e^{ika}
inline void turn_modes(std::size_t modes, const double* factors, double* row) {
  for (std::size_t k = 0; k < modes; ++k) {
    const double phi = row[k], psi = row[modes + k], cosine = factors[2 * k], sine = factors[2 * k + 1];
    row[k] = phi * cosine - psi * sine;
    row[modes + k] = phi * sine + psi * cosine;
  }
}
/// theta_k -> theta_k e^{-ika}: the inverse, and the transpose
inline void turn_modes_back(std::size_t modes, const double* factors, double* row) {
  for (std::size_t k = 0; k < modes; ++k) {
    const double phi = row[k], psi = row[modes + k], cosine = factors[2 * k], sine = factors[2 * k + 1];
    row[k] = phi * cosine + psi * sine;
    row[modes + k] = psi * cosine - phi * sine;
  }
}

/// Rows (count, stride) of a trajectory, of which the modes are the first numbers, in the frame of the row y. Closures
/// take the y of their states.
void enter_frame(std::size_t modes, const double* y, double* rows, std::size_t count, std::size_t stride);

/// The frames of a batch of columns. Does not allocate once it was made.
class ColumnFrames {
 public:
  /// No modes: no frames, and nothing is turned.
  ColumnFrames(std::size_t modes, std::size_t columns)
      : modes_(modes), columns_(modes > 0 ? columns : 0), factors_(columns_.size() * 2 * modes) {}

  bool exist() const { return modes_ > 0; }
  /// NaN: it has none yet.
  double angle(std::size_t column) const;
  /// Of the next step, kept or not.
  double chosen(std::size_t column) const { return columns_[column].angle; }
  void set(std::size_t column, double angle);
  void forget(std::size_t column) { columns_[column].kept = false; }

  /// The frame of a column's next step, from y: one that is kept already, or that of y.
  void choose(std::size_t column, const double* y) {
    if (!columns_[column].kept) turn_to(column, fourier_angle(modes_, y));
  }
  /// The step is taken.
  void keep(std::size_t column) { columns_[column].kept = true; }

  void enter(std::size_t column, double* y) const { turn_modes_back(modes_, factors(column), y); }
  void leave(std::size_t column, double* y) const { turn_modes(modes_, factors(column), y); }
  const double* factors(std::size_t column) const { return factors_.data() + column * 2 * modes_; }

 private:
  struct Column {
    double angle = 0;
    bool kept = false;
  };
  void turn_to(std::size_t column, double angle);

  std::size_t modes_;
  std::vector<Column> columns_;
  std::vector<double> factors_;  // (columns, modes, 2)
};

}  // namespace mac
