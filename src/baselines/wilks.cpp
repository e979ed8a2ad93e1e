// Wilks' stochastic closure for Lorenz '96 (Wilks 2005; paper, sec_results_l96, in words): a polynomial of
// the variable itself plus red noise,
//
//   U_k = b_0 + b_1 X_k + .. + b_4 X_k^4 + e_k,     e_k <- phi e_k + sigma sqrt(1 - phi^2) z,   z ~ N(0, 1)
//
// e_k = 0 at the start, held over each step with the polynomial. The coefficients are least squares over all
// k and all times of the training split, sigma is the residual's standard deviation and phi its
// autocorrelation at a lag of one step.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mac/baselines.hpp>
#include <mac/random.hpp>

#include "baselines/cyclic.hpp"
#include "baselines/model_file.hpp"
#include "experiment/baseline_kinds.hpp"
#include "io/settings.hpp"

namespace mac {

namespace {

constexpr const char* kind = "wilks";

double polynomial(const std::array<double, 5>& b, double x) {
  return b[0] + x * (b[1] + x * (b[2] + x * (b[3] + x * b[4])));
}

class WilksGroup final : public ClosureGroup {
 public:
  WilksGroup(const WilksFit& fit, std::size_t variables, std::size_t first, std::size_t count,
             const MemberPlan& member)
      : fit_(fit),
        kick_(member.noise ? fit.sigma * std::sqrt(1 - fit.phi * fit.phi) : 0),
        variables_(variables),
        noise_(count * variables, 0.0) {
    for (std::size_t i = 0; i < count; ++i)
      random_.emplace_back(fit.seed + member.seed, Purpose::stochastic_closure,
                           static_cast<std::uint32_t>(first + i), static_cast<std::uint32_t>(member.member));
  }

  void predict(std::size_t n, const double* y, double* closure) override {
    for (std::size_t i = 0; i < random_.size(); ++i) {
      // Noise n belongs to step n: a continued rollout passes over what the first part has used.
      for (std::size_t unused = (n - std::min(n, drawn_ + 1)) * variables_; unused > 0; --unused)
        random_[i].normal();
      for (std::size_t k = i * variables_; k < (i + 1) * variables_; ++k) {
        if (n > 0) noise_[k] = fit_.phi * noise_[k] + kick_ * random_[i].normal();
        closure[k] = polynomial(fit_.coefficients, y[k]) + noise_[k];
      }
    }
    drawn_ = n;
  }

  std::optional<std::size_t> memory_size() const override { return variables_; }
  void save_memory(double* memory) const override { std::copy(noise_.begin(), noise_.end(), memory); }
  void restore_memory(const double* memory) override { std::copy_n(memory, noise_.size(), noise_.begin()); }

 private:
  const WilksFit& fit_;
  double kick_;
  std::size_t variables_;
  std::size_t drawn_ = 0;             // steps whose noise has been drawn
  std::vector<double> noise_;         // e (count, N)
  std::vector<RandomStream> random_;  // one a trajectory: no result depends on the grouping
};

class Wilks final : public ClosureModel {
 public:
  Wilks(const WilksFit& fit, std::string name) : fit_(fit), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  HeldClosure held() const override { return {Hold::zero, Target::instant}; }
  std::size_t most_members() const override { return most_stochastic_members; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                      std::size_t count) const override {
    return start_member(split, first, count, {});
  }
  std::unique_ptr<ClosureGroup> start_member(const DataSplit& split, std::size_t first, std::size_t count,
                                             const MemberPlan& member) const override {
    require_step(split, fit_.step, kind);
    return std::make_unique<WilksGroup>(fit_, split.resolved_size(), first, count, member);
  }

 private:
  WilksFit fit_;
  std::string name_;
};

}  // namespace

WilksFit fit_wilks(const DataFile& data, std::uint64_t seed) {
  require_ring(*data.experiment().system, kind);
  const DataSplit train = data.split("train");
  const CyclicFit fit =
      fit_cyclic(train, Target::instant, 5, [](std::span<const double> x, std::size_t k, double* row) {
        row[0] = 1;
        for (std::size_t p = 1; p < 5; ++p) row[p] = row[p - 1] * x[k];
      });

  WilksFit wilks;
  std::copy_n(fit.coefficients.begin(), 5, wilks.coefficients.begin());
  wilks.r_squared = fit.r_squared;
  wilks.step = data.experiment().data.closure_step();
  wilks.seed = seed;

  const std::size_t n = train.resolved_size();
  std::vector<double> last(n);
  double squares = 0, products = 0, count = 0, pairs = 0;
  for_each_step(train, Target::instant, [&](const double* x, const double* u, bool first) {
    for (std::size_t k = 0; k < n; ++k) {
      const double residual = u[k] - polynomial(wilks.coefficients, x[k]);
      squares += residual * residual;
      if (!first) products += residual * last[k];
      last[k] = residual;
    }
    count += static_cast<double>(n);
    if (!first) pairs += static_cast<double>(n);
  });
  wilks.sigma = std::sqrt(squares / count);
  if (pairs == 0 || !(squares > 0)) throw Error("{}: too few training times for Wilks' noise", data.path());
  // Over few times the quotient of two means may exceed what a correlation can be.
  wilks.phi = std::clamp(products / pairs / (squares / count), -1.0, 1.0);
  return wilks;
}

std::unique_ptr<ClosureModel> make_wilks(const WilksFit& fit, std::string name) {
  return std::make_unique<Wilks>(fit, std::move(name));
}

void save_wilks(const WilksFit& fit, const Experiment& experiment, const std::string& path,
                const std::string& name) {
  write_baseline(path, kind, name, experiment, [&](h5::File& file) {
    file.create_dataset("/coefficients", {5}).write({0}, {5}, fit.coefficients.data());
    file.set_attribute("/", "phi", fit.phi);
    file.set_attribute("/", "sigma", fit.sigma);
    file.set_attribute("/", "r_squared", fit.r_squared);
    file.set_attribute("/", "step", fit.step);
    file.set_attribute("/", "noise_seed", fit.seed);
  });
}

WilksFit load_wilks(const std::string& path) {
  const h5::File file = open_baseline(path, kind);
  WilksFit fit;
  const auto coefficients = read_coefficients(file, 5);
  std::copy_n(coefficients.begin(), 5, fit.coefficients.begin());
  fit.phi = file.number_attribute("/", "phi");
  fit.sigma = file.number_attribute("/", "sigma");
  fit.r_squared = file.number_attribute("/", "r_squared");
  fit.step = file.number_attribute("/", "step");
  fit.seed = file.integer_attribute("/", "noise_seed");
  if (!(std::abs(fit.phi) <= 1)) throw Error("{}: attribute \"phi\" is {}, expected -1 to 1", path, fit.phi);
  if (!(fit.sigma >= 0)) throw Error("{}: attribute \"sigma\" is {}, expected >= 0", path, fit.sigma);
  return fit;
}

namespace {

class WilksPlan final : public BaselinePlan {
 public:
  std::uint64_t seed = 0;

  static const SettingTable<WilksPlan>& settings() {
    static const SettingTable<WilksPlan> table =
        SettingTable<WilksPlan>().integer("seed", &WilksPlan::seed, {0}, "of its noise");
    return table;
  }

  static std::shared_ptr<const BaselinePlan> read(const ConfigTable& table, const System& system,
                                                  const DataPlan& data) {
    require_ring(table, system, data, kind);
    auto plan = std::make_shared<WilksPlan>();
    settings().read(table, *plan);
    return plan;
  }

  std::string train(const BaselineWork& work) const override {
    const WilksFit fit = fit_wilks(work.data, seed);
    save_wilks(fit, work.experiment, work.path, work.name);
    return fmt::format("coefficients {:.4g}, R2 {:.3f}, sigma {:.3f}, phi {:.3f}",
                       fmt::join(fit.coefficients, " "), fit.r_squared, fit.sigma, fit.phi);
  }
};

}  // namespace

BaselineKind wilks_baseline() {
  return {.name = kind,
          .file_kind = kind,
          .description = "A polynomial of each variable and red noise, for a ring of variables (`lorenz96`).",
          .settings = markdown<WilksPlan>(WilksPlan::settings(), {{"Default", WilksPlan{}}}),
          .read = WilksPlan::read,
          .load = [](const std::string& path, const System&, const std::vector<std::string>&,
                     std::string name) { return make_wilks(load_wilks(path), std::move(name)); }};
}

}  // namespace mac
