#include "coupling/fourier_frame.hpp"

#include <cmath>
#include <limits>

namespace mac {

void fourier_factors(std::size_t modes, double angle, double* factors) {
  for (std::size_t k = 0; k < modes; ++k) {
    factors[2 * k] = std::cos(static_cast<double>(k + 1) * angle);
    factors[2 * k + 1] = std::sin(static_cast<double>(k + 1) * angle);
  }
}

void enter_frame(std::size_t modes, const double* y, double* rows, std::size_t count, std::size_t stride) {
  std::vector<double> factors(2 * modes);
  fourier_factors(modes, fourier_angle(modes, y), factors.data());
  for (std::size_t i = 0; i < count; ++i) turn_modes_back(modes, factors.data(), rows + i * stride);
}

double ColumnFrames::angle(std::size_t column) const {
  return columns_[column].kept ? columns_[column].angle : std::numeric_limits<double>::quiet_NaN();
}

void ColumnFrames::set(std::size_t column, double angle) {
  columns_[column].kept = !std::isnan(angle);
  turn_to(column, angle);
}

void ColumnFrames::turn_to(std::size_t column, double angle) {
  columns_[column].angle = angle;
  fourier_factors(modes_, angle, factors_.data() + column * 2 * modes_);
}

}  // namespace mac
