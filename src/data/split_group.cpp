#include "data/split_group.hpp"

#include <algorithm>
#include <cmath>
#include <mac/error.hpp>

namespace mac {

namespace {

constexpr std::size_t times_per_chunk = 4096;

}  // namespace

void create_split_group(h5::File& file, const std::string& name, const std::vector<std::string>& labels,
                        const std::vector<double>& time, std::string_view time_unit) {
  const std::string group = "/" + name;
  file.create_group(group);
  file.write_text(group + "/labels", labels);
  h5::Dataset times = file.create_dataset(group + "/time", {time.size()});
  times.write({0}, {time.size()}, time.data());
  times.set_attribute("units", std::string(time_unit));
}

h5::Dataset create_series(h5::File& file, const std::string& name, const std::string& dataset,
                          std::size_t trajectories, std::size_t times,
                          const std::vector<std::string>& variables) {
  h5::Dataset series =
      file.create_dataset(fmt::format("/{}/{}", name, dataset), {trajectories, times, variables.size()},
                          {1, std::min(times, times_per_chunk), variables.size()});
  series.set_attribute("variables", variables);
  return series;
}

h5::Dataset create_parameters(h5::File& file, const std::string& name, std::size_t trajectories,
                              const std::vector<std::string>& parameters) {
  h5::Dataset numbers = file.create_dataset("/" + name + "/parameters", {trajectories, parameters.size()});
  numbers.set_attribute("variables", parameters);
  return numbers;
}

h5::Dataset open_series(const h5::File& file, const std::string& name, const std::string& dataset,
                        const std::vector<std::size_t>& expected) {
  h5::Dataset series = file.dataset(fmt::format("/{}/{}", name, dataset));
  if (series.dims() != expected)
    throw Error("{}: /{}/{} has shape ({}), expected ({})", file.path(), name, dataset,
                fmt::join(series.dims(), ", "), fmt::join(expected, ", "));
  return series;
}

void check_times(const std::string& file, const std::string& split, const std::vector<double>& time,
                 double step) {
  constexpr double tolerance = 1e-6;  // of the step: times are sums in some programs, products in others
  for (std::size_t t = 0; t < time.size(); ++t) {
    if (!std::isfinite(time[t])) throw Error("{}: /{}/time holds {} at {}", file, split, time[t], t);
    if (t == 0) continue;
    if (time[t] <= time[t - 1])
      throw Error("{}: /{}/time does not increase: {} follows {}", file, split, time[t], time[t - 1]);
    const double rounding = 4e-16 * std::abs(time[t]);
    if (std::abs(time[t] - time[t - 1] - step) > tolerance * step + rounding)
      throw Error("{}: /{}/time goes from {} to {}, the experiment's closure step (dt * stride) is {}", file,
                  split, time[t - 1], time[t], step);
  }
}

}  // namespace mac
