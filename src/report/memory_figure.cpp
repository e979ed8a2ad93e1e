#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "baselines/memory_kernel.hpp"
#include "report/figures.hpp"
#include "report/style.hpp"

namespace mac::report {

namespace {

constexpr std::size_t kernel_points = 400;

/// sqrt(sum_i (K_ij(tau) s_i / sigma_i)^2) of the functions h_i = x_i = y_i / sigma_i: what the linear part
/// of a memory model makes of impulses of the sizes s_i, per time.
Curve kernel_curve(const MemoryKernel& kernel, std::size_t j, const std::vector<double>& sizes,
                   double longest) {
  const std::vector<double> sigma = memory_scales(kernel.variables);
  Curve curve{kernel.degree == 1 ? "linear_memory" : "cubic_memory", {}, {}};
  for (std::size_t t = 0; t < kernel.times && static_cast<double>(t) * kernel.step <= longest; ++t) {
    double sum = 0;
    for (std::size_t nu = 0; nu < kernel.functions(); ++nu) {
      const auto first = kernel.degrees.begin() + static_cast<std::ptrdiff_t>(nu * kernel.variables);
      const std::vector<std::size_t> degrees(first, first + static_cast<std::ptrdiff_t>(kernel.variables));
      const std::size_t total = std::accumulate(degrees.begin(), degrees.end(), std::size_t{0});
      if (total != 1) continue;
      const auto i = static_cast<std::size_t>(std::ranges::find(degrees, std::size_t{1}) - degrees.begin());
      const double response = kernel.series(nu, j)[t] * sizes[i] / sigma[i];
      sum += response * response;
    }
    curve.x.push_back(static_cast<double>(t) * kernel.step);
    curve.y.push_back(std::sqrt(sum));
  }
  return curve;
}

std::string time_text(const std::optional<double>& time, const MemoryResponse& response) {
  return time ? fmt::format("{:.3g}", *time)
              : fmt::format("> {:.3g}", static_cast<double>(response.lags - 1) * response.step);
}

}  // namespace

Figure memory_figure(const std::vector<NamedResponse>& responses, const MemoryKernel* kernel,
                     std::string_view time_unit) {
  const MemoryResponse& first = responses.front().response;
  double longest = 0;
  for (const NamedResponse& named : responses)
    longest = std::max(longest, static_cast<double>(named.response.lags - 1) * named.response.step);

  Figure figure;
  figure.name = "memory";
  figure.title = "How far back the closure remembers";
  figure.caption = fmt::format(
      "Response of each closure component at time t to impulses in the resolved variables at t − τ, along "
      "{} true trajectories and times: sqrt(Σᵢ (sᵢ ∂C/∂yᵢ(t − τ))²) per time, root mean square, sᵢ the size "
      "of variable i.{} The memory time is the lag beyond which the response stays below {:g} % of its "
      "maximum.",
      first.samples, kernel ? " Beside it the linear Mori–Zwanzig kernel." : "", 100 * first.threshold);
  figure.x_label = time_unit == "1" ? "lag τ" : fmt::format("lag τ ({})", time_unit);
  Table table{"Memory time", {"closure"}, {}};
  for (const NamedResponse& named : responses) table.header.push_back(named.model);
  for (std::size_t j = 0; j < first.closure_names.size(); ++j) {
    const std::string name = symbol(first.closure_names[j]);
    Panel panel{"", {{"response of " + name, true, {}}}};
    std::vector<std::string> row{name};
    for (const NamedResponse& named : responses) {
      const MemoryResponse& response = named.response;
      Curve curve{named.model, response.lag_times(), response.strength(j)};
      curve.x.erase(curve.x.begin());  // the instantaneous response is no memory
      curve.y.erase(curve.y.begin());
      for (double& value : curve.y) value /= response.step;
      panel.axes[0].curves.push_back(thinned(curve, kernel_points));
      row.push_back(time_text(response.memory_time(j), response));
    }
    if (kernel)
      panel.axes[0].curves.push_back(
          thinned(kernel_curve(*kernel, j, first.resolved_rms, longest), kernel_points));
    figure.panels.push_back(std::move(panel));
    table.rows.push_back(std::move(row));
  }
  figure.tables.push_back(std::move(table));
  return figure;
}

}  // namespace mac::report
