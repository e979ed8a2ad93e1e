#include "data/relative_l2.hpp"

#include <cmath>
#include <numeric>

namespace mac {

std::vector<double> relative_l2(std::span<const double> predicted, std::span<const double> truth,
                                std::size_t width) {
  // Of the whole state's squared norm: what rounding leaves of an exact zero.
  constexpr double rounding = 1e-24;
  std::vector<double> error(width), norm(width);
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (std::isnan(truth[i])) continue;  // nobody knows it: a masked closure
    error[i % width] += (predicted[i] - truth[i]) * (predicted[i] - truth[i]);
    norm[i % width] += truth[i] * truth[i];
  }
  const double total = std::accumulate(norm.begin(), norm.end(), 0.0);
  std::vector<double> result(width);
  for (std::size_t v = 0; v < width; ++v)
    result[v] = norm[v] > rounding * total ? std::sqrt(error[v] / norm[v]) : std::nan("");
  return result;
}

}  // namespace mac
