// Proper scores of an ensemble x_1 .. x_M against what came, y: least, on average, for the distribution that y is drawn
// from. With D(a, b) the distance of two numbers (CRPS) or of two vectors (energy score),
//
//   S = 1/M sum_m D(x_m, y) - (1 - e) / (2 M (M - 1)) sum_{m,n} D(x_m, x_n)
//
//   e = 0      fair: its mean does not depend on M
//   e = 1/M    the score of the M numbers taken as the whole distribution
//   e = .05/M  almost fair (Lang et al., arXiv 2412.15832): fair, but for two equal members no others are free to
//              stray without any cost; for training
#pragma once

#include <cstddef>
#include <span>

namespace mac {

inline constexpr double almost_fair = 0.05;  // e M

/// Of numbers; `share` is e M. *Adds* weight dS/dx_m to slopes[m], unless that is null.
double crps(std::span<const double> members, double truth, double share, double weight = 1,
            double* slopes = nullptr);

/// The same of vectors: members (M, d), truth (d), slopes (M, d); distances are over sqrt(d).
double energy_score(std::span<const double> members, std::span<const double> truth, double share,
                    double weight = 1, double* slopes = nullptr);

}  // namespace mac
