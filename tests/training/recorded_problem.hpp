// Recorded data of a slow variable and a fast hidden one:  dx/dt = -x + z,  dz/dt = (x^2 - z)/0.2,  z(0) = 0.
// The closure of x is z, the reduced equation dx/dt = -x.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <mac/recorded.hpp>
#include <mac/training.hpp>

#include "support/files.hpp"

namespace mac::test {

struct RecordedProblem {
  std::size_t trajectories = 16, times = 21;
  double dt = 0.1;
  std::string equations = "none", kind = "mamba";
  bool closure_is_noise = false;  // recorded instead of z, which stays zero

  std::string text(const std::string& training) const {
    return fmt::format(
        "[system]\nname = 'recorded'\nresolved = ['x']\nequations = '{}'\n[data]\ndt = {}\n[data.train]\n"
        "trajectories = {}\nhorizon = {}\n[data.validation]\ntrajectories = {}\nhorizon = "
        "{}\n[[models]]\nname = "
        "'closure'\nkind = '{}'\n{}",
        equations, dt, trajectories, horizon(), trajectories / 4, horizon(), kind, training);
  }

  Experiment experiment(const std::string& training) const {
    return Experiment::parse(text(training), "recorded.toml");
  }

  void write(const std::string& path) const {
    const std::vector<Arrays> splits{arrays(trajectories, 0), arrays(trajectories / 4, 1000)};
    write_data(experiment("d_model = 2\n"),
               {{"train", splits[0].resolved, splits[0].closure, splits[0].mean},
                {"validation", splits[1].resolved, splits[1].closure, splits[1].mean}},
               path);
  }

 private:
  struct Arrays {
    std::vector<double> resolved, closure, mean;
  };
  double horizon() const { return dt * static_cast<double>(times - 1); }

  Arrays arrays(std::size_t count, std::size_t first) const {
    Arrays out;
    constexpr int substeps = 100;
    for (std::size_t i = 0; i < count; ++i) {
      // spread over [-1, 1] without a pattern
      double x = 2 * std::fmod(0.618033988749895 * static_cast<double>(first + i + 1), 1.0) - 1, z = 0;
      for (std::size_t n = 0; n < times; ++n) {
        out.resolved.push_back(x);
        const double noise = std::sin(1e4 * static_cast<double>((first + i) * times + n));
        out.closure.push_back(closure_is_noise ? noise : z);
        double sum = 0;
        for (int k = 0; k < substeps; ++k) {
          const double h = dt / substeps, rate_x = z - x, rate_z = closure_is_noise ? 0 : (x * x - z) / 0.2;
          sum += (closure_is_noise ? noise : z) / substeps;
          x += h * rate_x;
          z += h * rate_z;
        }
        if (n + 1 < times) out.mean.push_back(sum);
      }
    }
    return out;
  }
};

}  // namespace mac::test
