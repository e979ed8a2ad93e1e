// A closure for any system by regression: a polynomial of the inputs, their past at the last saved times, and (if
// asked for) red noise,
//
//   C_j = sum_p a_jp x^p + sum_l b_jl . x(t - l step) + e_j,    |p| <= degree, l = 1..delays
//   e_j <- phi_j e_j + sigma_j sqrt(1 - phi_j^2) z,             z ~ N(0, 1), e_j = 0 at the start
//
// with x the inputs scaled to mean 0 and deviation 1 over the training data: all resolved variables, or as a network's
// (input_map.hpp) features of them, what is given from outside, or, with `local`, the neighbourhood of a site, where all
// sites share the coefficients and C_j is the closure of the site. The coefficients are least squares with a small ridge
// on the closure's mean over each step; before a trajectory's first time, the past is its first state. Degree 1 with
// delays is the discrete Mori-Zwanzig regression, degree 4 with noise is Wilks' closure without his symmetry, with
// `local = { stencil = [0, 0] }` the closure itself.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <mac/random.hpp>
#include <mac/rollout.hpp>
#include <map>

#include "baselines/cyclic.hpp"
#include "baselines/model_file.hpp"
#include "data/given_series.hpp"
#include "experiment/baseline_kinds.hpp"
#include "experiment/model_inputs.hpp"
#include "io/settings.hpp"

namespace mac {

namespace {

constexpr const char* kind = "regression";
constexpr std::size_t most_terms = 1500;  // beyond that the normal equations are no matter of seconds

/// Exponents of all monomials up to a degree, each a list of variables in rising order: {}, {0}, {0, 0}, {0, 1}.
std::vector<std::vector<std::size_t>> monomials(std::size_t variables, std::size_t degree) {
  std::vector<std::vector<std::size_t>> all{{}};
  for (std::size_t begin = 0, d = 0; d < degree; ++d) {
    const std::size_t end = all.size();
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t v = all[i].empty() ? 0 : all[i].back(); v < variables; ++v) {
        all.push_back(all[i]);
        all.back().push_back(v);
      }
    begin = end;
  }
  return all;
}

/// C(variables + degree, degree) + delays * variables, as a double: it may be enormous.
double count_terms(std::size_t variables, std::size_t degree, std::size_t delays) {
  double count = 1;
  for (std::size_t i = 1; i <= degree; ++i)
    count *= static_cast<double>(variables + i) / static_cast<double>(i);
  return count + static_cast<double>(delays) * static_cast<double>(variables);
}

struct RegressionFit {
  NetworkInputs inputs;
  std::size_t degree = 2, delays = 0, variables = 0,
              closures = 0;          // variables: inputs of a site; closures: its own
  std::vector<double> mean, scale;   // (variables)
  std::vector<double> coefficients;  // (terms, closures)
  std::vector<double> phi, sigma;    // (closures); sigma 0: no noise
  double r_squared = 0, step = 0;
  std::uint64_t seed = 0;
};

/// The terms of a state and its past. The monomials are products of one factor and an earlier monomial.
class Features {
 public:
  explicit Features(const RegressionFit& fit) : fit_(fit) {
    const auto all = monomials(fit.variables, fit.degree);
    std::map<std::vector<std::size_t>, std::size_t> place;
    for (std::size_t i = 0; i < all.size(); ++i) {
      place[all[i]] = i;
      if (i == 0) continue;
      std::vector<std::size_t> rest(all[i].begin(), all[i].end() - 1);
      products_.push_back({place.at(rest), all[i].back()});
    }
  }

  std::size_t count() const { return 1 + products_.size() + fit_.delays * fit_.variables; }

  /// past (delays, variables), the latest first.
  void evaluate(const double* y, const double* past, double* row) const {
    const auto scaled = [&](const double* of, std::size_t v) {
      return (of[v] - fit_.mean[v]) / fit_.scale[v];
    };
    row[0] = 1;
    for (std::size_t i = 0; i < products_.size(); ++i)
      row[i + 1] = row[products_[i].earlier] * scaled(y, products_[i].factor);
    double* out = row + 1 + products_.size();
    for (std::size_t l = 0; l < fit_.delays; ++l)
      for (std::size_t v = 0; v < fit_.variables; ++v) *out++ = scaled(past + l * fit_.variables, v);
  }

 private:
  struct Product {
    std::size_t earlier, factor;
  };
  const RegressionFit& fit_;
  std::vector<Product> products_;
};

/// States before the present one, the latest first.
class Past {
 public:
  Past(std::size_t delays, std::size_t variables)
      : delays_(delays), d_(variables), states_(delays * variables) {}
  void begin(const double* y) {
    for (std::size_t l = 0; l < delays_; ++l) std::copy_n(y, d_, states_.data() + l * d_);
  }
  void push(const double* y) {
    if (delays_ == 0) return;
    std::copy_backward(states_.begin(), states_.end() - static_cast<std::ptrdiff_t>(d_), states_.end());
    std::copy_n(y, d_, states_.begin());
  }
  std::vector<double>& states() { return states_; }
  const std::vector<double>& states() const { return states_; }

 private:
  std::size_t delays_, d_;
  std::vector<double> states_;
};

/// x (sites, features) of a state.
void read_rows(const InputMap& map, const double* y, const double* e, std::vector<double>& x) {
  x.resize(map.sites() * map.features());
  map.read(y, e,
           [&](std::size_t site, std::size_t f, double value) { x[site * map.features() + f] = value; });
}

class RegressionGroup final : public ClosureGroup {
 public:
  RegressionGroup(const RegressionFit& fit, const InputMap& map, const DataSplit& split, std::size_t first,
                  std::size_t count, const MemberPlan& member)
      : fit_(fit),
        map_(map),
        d_(split.resolved_size()),
        given_(split, first, fit.inputs.given.empty() ? 0 : count),
        noisy_(member.noise),
        features_(fit),
        row_(features_.count()),
        past_(count * map.sites(), Past(fit.delays, fit.variables)),
        noise_(count * closures(), 0.0) {
    for (std::size_t i = 0; i < count; ++i)
      random_.emplace_back(fit.seed + member.seed, Purpose::stochastic_closure,
                           static_cast<std::uint32_t>(first + i), static_cast<std::uint32_t>(member.member));
  }

  void predict(std::size_t n, const double* y, double* closure) override {
    const double* const given = given_.at(n);
    for (std::size_t i = 0; i < random_.size(); ++i) {
      read_rows(map_, y + i * d_, given ? given + i * map_.given_size() : nullptr, x_);
      // Noise n belongs to step n: a continued rollout passes over what the first part has used.
      for (std::size_t unused = (n - std::min(n, drawn_ + 1)) * closures(); unused > 0; --unused)
        random_[i].normal();
      for (std::size_t site = 0; site < map_.sites(); ++site)
        predict_site(n, i, site, closure + i * closures());
    }
    drawn_ = n;
  }

  // Of each trajectory the past of its sites, then their noise.
  std::optional<std::size_t> memory_size() const override {
    return map_.sites() * fit_.delays * fit_.variables + closures();
  }
  void save_memory(double* memory) const override {
    for (std::size_t i = 0; i < random_.size(); ++i) {
      for (std::size_t site = 0; site < map_.sites(); ++site)
        memory = std::ranges::copy(past_[i * map_.sites() + site].states(), memory).out;
      memory = std::copy_n(noise_.data() + i * closures(), closures(), memory);
    }
  }
  void restore_memory(const double* memory) override {
    for (std::size_t i = 0; i < random_.size(); ++i) {
      for (std::size_t site = 0; site < map_.sites(); ++site) {
        std::vector<double>& states = past_[i * map_.sites() + site].states();
        std::copy_n(memory, states.size(), states.begin());
        memory += states.size();
      }
      std::copy_n(memory, closures(), noise_.data() + i * closures());
      memory += closures();
    }
  }

 private:
  std::size_t closures() const { return map_.sites() * fit_.closures; }  // of a trajectory

  void predict_site(std::size_t n, std::size_t i, std::size_t site, double* closure) {
    const std::size_t c = fit_.closures;
    const double* const x = x_.data() + site * fit_.variables;
    Past& past = past_[i * map_.sites() + site];
    if (n == 0) past.begin(x);
    features_.evaluate(x, past.states().data(), row_.data());
    past.push(x);
    for (std::size_t j = 0; j < c; ++j) {
      double sum = 0;
      for (std::size_t t = 0; t < row_.size(); ++t) sum += fit_.coefficients[t * c + j] * row_[t];
      double& noise = noise_[i * closures() + site * c + j];
      if (n > 0 && noisy_)
        noise = fit_.phi[j] * noise +
                fit_.sigma[j] * std::sqrt(1 - fit_.phi[j] * fit_.phi[j]) * random_[i].normal();
      closure[map_.closure(site, j)] = sum + noise;
    }
  }

  const RegressionFit& fit_;
  const InputMap& map_;
  std::size_t d_;
  GivenSeries given_;
  bool noisy_;
  Features features_;
  std::vector<double> x_, row_;       // (sites, inputs) of a trajectory, the terms of a site
  std::vector<Past> past_;            // one a trajectory and site
  std::size_t drawn_ = 0;             // steps whose noise has been drawn
  std::vector<double> noise_;         // e (count, sites, c)
  std::vector<RandomStream> random_;  // one a trajectory: no result depends on the grouping
};

class Regression final : public ClosureModel {
 public:
  Regression(RegressionFit fit, InputMap map, std::string name)
      : fit_(std::move(fit)), map_(std::move(map)), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  HeldClosure held() const override { return {Hold::zero, Target::mean}; }
  std::size_t most_members() const override {
    const bool noisy = std::ranges::any_of(fit_.sigma, [](double sigma) { return sigma > 0; });
    return noisy ? most_stochastic_members : 1;
  }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t first,
                                      std::size_t count) const override {
    return start_member(split, first, count, {});
  }
  std::unique_ptr<ClosureGroup> start_member(const DataSplit& split, std::size_t first, std::size_t count,
                                             const MemberPlan& member) const override {
    require_step(split, fit_.step, kind);
    return std::make_unique<RegressionGroup>(fit_, map_, split, first, count, member);
  }

 private:
  RegressionFit fit_;
  InputMap map_;
  std::string name_;
};

// ---- fitting

/// The training data as the regression reads them.
struct Training {
  const DataSplit& split;
  const InputMap& map;
};

/// visit(x, u, site, first) for every step of every site: its inputs, its closures, whether a trajectory begins.
template <class Visit>
void for_each_site(const Training& train, const RegressionFit& fit, const Visit& visit) {
  const InputMap& map = train.map;
  const std::size_t e = train.split.input_names().size(), steps = train.split.times() - 1;
  std::vector<double> given(fit.inputs.given.empty() ? 0 : steps * e), x, u(fit.closures);
  std::size_t trajectory = 0, step = 0;
  for_each_step(train.split, Target::mean, [&](const double* y, const double* closure, bool first) {
    if (first && !given.empty()) train.split.read_inputs(trajectory, 0, steps, given.data());
    if (first) ++trajectory, step = 0;
    read_rows(map, y, given.empty() ? nullptr : given.data() + step++ * e, x);
    for (std::size_t site = 0; site < map.sites(); ++site) {
      for (std::size_t j = 0; j < fit.closures; ++j) u[j] = closure[map.closure(site, j)];
      visit(x.data() + site * fit.variables, u.data(), site, first);
    }
  });
}

/// visit(row, u, site, first): the same with the terms.
template <class Visit>
void for_each_row(const Training& train, const RegressionFit& fit, const Visit& visit) {
  const Features features(fit);
  std::vector<Past> past(train.map.sites(), Past(fit.delays, fit.variables));
  std::vector<double> row(features.count());
  for_each_site(train, fit, [&](const double* x, const double* u, std::size_t site, bool first) {
    if (first) past[site].begin(x);
    features.evaluate(x, past[site].states().data(), row.data());
    past[site].push(x);
    visit(row, u, site, first);
  });
}

void fit_scale(const Training& train, RegressionFit& fit) {
  std::vector<double> sum(fit.variables), squares(fit.variables), shift;
  double count = 0;
  for_each_site(train, fit, [&](const double* x, const double*, std::size_t, bool) {
    if (shift.empty()) shift.assign(x, x + fit.variables);  // a mean far from zero costs no digits
    for (std::size_t v = 0; v < fit.variables; ++v) {
      sum[v] += x[v] - shift[v];
      squares[v] += (x[v] - shift[v]) * (x[v] - shift[v]);
    }
    ++count;
  });
  for (std::size_t v = 0; v < fit.variables; ++v) {
    const double offset = sum[v] / count,
                 deviation = std::sqrt(std::max(0.0, squares[v] / count - offset * offset));
    fit.mean.push_back(shift[v] + offset);
    fit.scale.push_back(deviation > 0 ? deviation : 1);
  }
}

void fit_coefficients(const Training& train, double ridge, RegressionFit& fit) {
  const auto terms = static_cast<Eigen::Index>(Features(fit).count()),
             closures = static_cast<Eigen::Index>(fit.closures);
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(terms, terms), right = Eigen::MatrixXd::Zero(terms, closures);
  constexpr Eigen::Index block = 256;
  Eigen::MatrixXd rows(terms, block), targets(closures, block);
  Eigen::Index filled = 0;
  const auto add = [&] {
    if (filled == 0) return;  // where Eigen divides by the number of columns
    gram.selfadjointView<Eigen::Lower>().rankUpdate(rows.leftCols(filled));
    right.noalias() += rows.leftCols(filled) * targets.leftCols(filled).transpose();
    filled = 0;
  };
  for_each_row(train, fit, [&](const std::vector<double>& row, const double* u, std::size_t, bool) {
    rows.col(filled) = Eigen::Map<const Eigen::VectorXd>(row.data(), terms);
    targets.col(filled) = Eigen::Map<const Eigen::VectorXd>(u, closures);
    if (++filled == block) add();
  });
  add();
  gram = gram.selfadjointView<Eigen::Lower>();
  const double weight = std::max(ridge, 1e-12) * gram.diagonal().mean();
  for (Eigen::Index t = 1; t < terms; ++t) gram(t, t) += weight;  // the constant is not drawn to zero
  const Eigen::MatrixXd solution = gram.ldlt().solve(right);
  if (!solution.allFinite())
    throw Error("the regression of {} terms has no solution; try a larger ridge", terms);
  for (Eigen::Index t = 0; t < terms; ++t)
    for (Eigen::Index j = 0; j < closures; ++j) fit.coefficients.push_back(solution(t, j));
}

/// R^2, and of each component the residual's deviation and its correlation from step to step.
void fit_residuals(const Training& train, bool noise, RegressionFit& fit) {
  const std::size_t c = fit.closures;
  std::vector<double> last(train.map.sites() * c), squares(c), products(c), sum(c), sum_squares(c);
  double count = 0, pairs = 0;
  for_each_row(train, fit,
               [&](const std::vector<double>& row, const double* u, std::size_t site, bool first) {
                 for (std::size_t j = 0; j < c; ++j) {
                   double residual = u[j];
                   for (std::size_t t = 0; t < row.size(); ++t)
                     residual -= fit.coefficients[t * c + j] * row[t];
                   squares[j] += residual * residual;
                   double& before = last[site * c + j];
                   if (!first) products[j] += residual * before;
                   before = residual;
                   sum[j] += u[j];
                   sum_squares[j] += u[j] * u[j];
                 }
                 ++count;
                 if (!first) ++pairs;
               });
  double left = 0, total = 0;
  for (std::size_t j = 0; j < c; ++j) {
    left += squares[j];
    total += sum_squares[j] - sum[j] * sum[j] / count;
    const double variance = squares[j] / count;
    fit.sigma.push_back(noise ? std::sqrt(variance) : 0);
    fit.phi.push_back(
        noise && pairs > 0 && variance > 0 ? std::clamp(products[j] / pairs / variance, -1.0, 1.0) : 0);
  }
  fit.r_squared = total > 0 ? 1 - left / total : 0;
}

// ---- files

std::vector<double> read_numbers(const h5::File& file, const std::string& name, std::size_t count) {
  const h5::Dataset dataset = file.dataset(name);
  std::vector<double> values = dataset.read_all();
  if (values.size() != count)
    throw Error("{}: {} has {} numbers, expected {}", file.path(), name, values.size(), count);
  for (const double value : values)
    if (!std::isfinite(value)) throw Error("{}: {} holds {}", file.path(), name, value);
  return values;
}

void save(const RegressionFit& fit, const BaselineWork& work) {
  write_baseline(work.path, kind, work.name, work.experiment, [&](h5::File& file) {
    const auto write = [&](const char* name, const std::vector<double>& values) {
      file.create_dataset(name, {values.size()}).write({0}, {values.size()}, values.data());
    };
    write("/coefficients", fit.coefficients);
    write("/mean", fit.mean);
    write("/scale", fit.scale);
    write("/phi", fit.phi);
    write("/sigma", fit.sigma);
    file.set_attribute("/", "degree", std::uint64_t{fit.degree});
    file.set_attribute("/", "delays", std::uint64_t{fit.delays});
    file.set_attribute("/", "r_squared", fit.r_squared);
    file.set_attribute("/", "step", fit.step);
    file.set_attribute("/", "noise_seed", fit.seed);
    write_inputs(file, fit.inputs);
  });
}

std::unique_ptr<ClosureModel> load(const std::string& path, const System& system,
                                   const std::vector<std::string>& given, std::string name) {
  const h5::File file = open_baseline(path, kind);
  RegressionFit fit;
  fit.inputs = read_inputs(file);
  fit.degree = file.integer_attribute("/", "degree");
  fit.delays = file.integer_attribute("/", "delays");
  fit.variables = file.dataset("/mean").dims().at(0);
  fit.closures = file.dataset("/phi").dims().at(0);
  if (fit.degree < 1 || count_terms(fit.variables, fit.degree, fit.delays) > most_terms)
    throw Error("{}: a regression of degree {} with {} delays in {} variables is none that was fitted", path,
                fit.degree, fit.delays, fit.variables);
  fit.mean = read_numbers(file, "/mean", fit.variables);
  fit.scale = read_numbers(file, "/scale", fit.variables);
  fit.phi = read_numbers(file, "/phi", fit.closures);
  fit.sigma = read_numbers(file, "/sigma", fit.closures);
  fit.coefficients = read_coefficients(file, Features(fit).count() * fit.closures);
  fit.step = file.number_attribute("/", "step");
  fit.seed = file.integer_attribute("/", "noise_seed");
  for (const double scale : fit.scale)
    if (!(scale > 0)) throw Error("{}: /scale holds {}, expected > 0", path, scale);
  for (const double phi : fit.phi)
    if (!(std::abs(phi) <= 1)) throw Error("{}: /phi holds {}, expected -1 to 1", path, phi);
  InputMap map(fit.inputs, system, given);
  if (map.features() != fit.variables || map.outputs() != fit.closures)
    throw UsageError("{}: was fitted to {} inputs and {} closures, {} has {} and {}", path, fit.variables,
                     fit.closures, system.name(), map.features(), map.outputs());
  return std::make_unique<Regression>(std::move(fit), std::move(map), std::move(name));
}

class RegressionPlan final : public BaselinePlan {
 public:
  NetworkInputs inputs;
  std::size_t degree = 2, delays = 0;
  double ridge = 1e-6;
  bool noise = false;
  std::uint64_t seed = 0;

  static const SettingTable<RegressionPlan>& settings() {
    static const SettingTable<RegressionPlan> table = [] {
      SettingTable<RegressionPlan> t;
      t.integer("degree", &RegressionPlan::degree, {1, 6}, "of the polynomial in what it reads");
      t.integer("delays", &RegressionPlan::delays, {0, 1000},
                "what it read earlier, one a closure step, that enters linearly");
      t.number("ridge", &RegressionPlan::ridge, non_negative, "weight of the coefficients' size");
      t.flag("noise", &RegressionPlan::noise, "red noise like the residual's on top");
      t.integer("seed", &RegressionPlan::seed, {0}, "of the noise");
      return t;
    }();
    return table;
  }

  static std::shared_ptr<const BaselinePlan> read(const ConfigTable& table, const System& system,
                                                  const DataPlan& data) {
    auto plan = std::make_shared<RegressionPlan>();
    settings().read(table, *plan);
    plan->inputs = read_model_inputs(table, {});
    if (plan->inputs.frame != Frame::none)
      table.fail("frame", "is one of networks: a regression reads variables as they are");
    const std::size_t inputs = bind_inputs(plan->inputs, system, data, table).features();
    if (std::ranges::find(data.splits, "train", &SplitPlan::name) == data.splits.end())
      table.fail("", fmt::format("{} is fitted to a [data.train]", kind));
    const double terms = count_terms(inputs, plan->degree, plan->delays);
    if (terms > static_cast<double>(most_terms))
      table.fail("degree",
                 fmt::format("degree {} and {} delays of {} variables are {:g} terms, expected at most {}",
                             plan->degree, plan->delays, inputs, terms, most_terms));
    return plan;
  }

  std::string train(const BaselineWork& work) const override {
    const DataSplit split = work.data.split("train");
    const InputMap map(inputs, *work.experiment.system, split.input_names());
    const Training train{split, map};
    RegressionFit fit;
    fit.inputs = inputs;
    fit.degree = degree;
    fit.delays = delays;
    fit.variables = map.features();
    fit.closures = map.outputs();
    fit.step = work.data.experiment().data.closure_step();
    fit.seed = seed;
    fit_scale(train, fit);
    fit_coefficients(train, ridge, fit);
    fit_residuals(train, noise, fit);
    save(fit, work);
    return fmt::format("{} terms for each of {} closures, R2 {:.3f}", Features(fit).count(), fit.closures,
                       fit.r_squared);
  }
};

}  // namespace

BaselineKind regression_baseline() {
  return {.name = kind,
          .file_kind = kind,
          .description =
              "A polynomial of the resolved variables and of their past, for any system, with red noise if "
              "asked for. `local` and `[models.inputs]` say what it reads as they do for "
              "[networks](inputs.md); `given` is nothing unless said.",
          .settings = markdown<RegressionPlan>(RegressionPlan::settings(), {{"Default", RegressionPlan{}}}),
          .read = RegressionPlan::read,
          .load = load};
}

}  // namespace mac
