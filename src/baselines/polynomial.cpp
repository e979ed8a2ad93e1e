// A memoryless polynomial of a variable and its neighbours on the ring (Lorenz '96), which the paper has not: 14
// coefficients, least squares on the closure's mean over each step,
//
//   U_k ~ 1, X_k, X_k^2, X_k^3, X_k^4, X_{k-2}, X_{k-1}, X_{k+1}, X_{k+2},
//         X_{k-1}^2, X_{k+1}^2, X_{k-1} X_k, X_k X_{k+1}, X_{k-1} X_{k+1}
#include <mac/baselines.hpp>

#include "baselines/cyclic.hpp"
#include "baselines/model_file.hpp"
#include "experiment/baseline_kinds.hpp"

namespace mac {

namespace {

constexpr const char* kind = "polynomial";
constexpr std::size_t terms = 14;

void features(std::span<const double> x, std::size_t k, double* row) {
  const std::size_t n = x.size();
  const double before2 = x[(k + n - 2) % n], before = x[(k + n - 1) % n], here = x[k], after = x[(k + 1) % n],
               after2 = x[(k + 2) % n];
  const double values[terms] = {1,
                                here,
                                here * here,
                                here * here * here,
                                here * here * here * here,
                                before2,
                                before,
                                after,
                                after2,
                                before * before,
                                after * after,
                                before * here,
                                here * after,
                                before * after};
  std::copy_n(values, terms, row);
}

class PolynomialGroup final : public ClosureGroup {
 public:
  PolynomialGroup(const PolynomialFit& fit, std::size_t variables, std::size_t count)
      : fit_(fit), variables_(variables), count_(count) {}

  void predict(std::size_t, const double* y, double* closure) override {
    double row[terms];
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t k = 0; k < variables_; ++k) {
        features({y + i * variables_, variables_}, k, row);
        double sum = 0;
        for (std::size_t t = 0; t < terms; ++t) sum += fit_.coefficients[t] * row[t];
        closure[i * variables_ + k] = sum;
      }
  }

 private:
  const PolynomialFit& fit_;
  std::size_t variables_, count_;
};

class Polynomial final : public ClosureModel {
 public:
  Polynomial(const PolynomialFit& fit, std::string name) : fit_(fit), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  HeldClosure held() const override { return {Hold::zero, Target::mean}; }
  std::unique_ptr<ClosureGroup> start(const DataSplit& split, std::size_t, std::size_t count) const override {
    require_step(split, fit_.step, kind);
    return std::make_unique<PolynomialGroup>(fit_, split.resolved_size(), count);
  }

 private:
  PolynomialFit fit_;
  std::string name_;
};

}  // namespace

PolynomialFit fit_polynomial(const DataFile& data) {
  require_ring(*data.experiment().system, kind);
  const CyclicFit fit = fit_cyclic(data.split("train"), Target::mean, terms, features);
  PolynomialFit polynomial;
  std::copy_n(fit.coefficients.begin(), terms, polynomial.coefficients.begin());
  polynomial.r_squared = fit.r_squared;
  polynomial.step = data.experiment().data.closure_step();
  return polynomial;
}

std::unique_ptr<ClosureModel> make_polynomial(const PolynomialFit& fit, std::string name) {
  return std::make_unique<Polynomial>(fit, std::move(name));
}

void save_polynomial(const PolynomialFit& fit, const Experiment& experiment, const std::string& path,
                     const std::string& name) {
  write_baseline(path, kind, name, experiment, [&](h5::File& file) {
    file.create_dataset("/coefficients", {terms}).write({0}, {terms}, fit.coefficients.data());
    file.set_attribute("/", "r_squared", fit.r_squared);
    file.set_attribute("/", "step", fit.step);
  });
}

PolynomialFit load_polynomial(const std::string& path) {
  const h5::File file = open_baseline(path, kind);
  PolynomialFit fit;
  const auto coefficients = read_coefficients(file, terms);
  std::copy_n(coefficients.begin(), terms, fit.coefficients.begin());
  fit.r_squared = file.number_attribute("/", "r_squared");
  fit.step = file.number_attribute("/", "step");
  return fit;
}

namespace {

class PolynomialPlan final : public BaselinePlan {
 public:
  static std::shared_ptr<const BaselinePlan> read(const ConfigTable& table, const System& system,
                                                  const DataPlan& data) {
    require_ring(table, system, data, kind);
    return std::make_shared<PolynomialPlan>();
  }

  std::string train(const BaselineWork& work) const override {
    const PolynomialFit fit = fit_polynomial(work.data);
    save_polynomial(fit, work.experiment, work.path, work.name);
    return fmt::format("{} coefficients, R2 {:.3f}", fit.coefficients.size(), fit.r_squared);
  }
};

}  // namespace

BaselineKind polynomial_baseline() {
  return {.name = kind,
          .file_kind = kind,
          .description = "A polynomial of each variable and its neighbours, for a ring (`lorenz96`).",
          .settings = "",
          .read = PolynomialPlan::read,
          .load = [](const std::string& path, const System&, const std::vector<std::string>&,
                     std::string name) { return make_polynomial(load_polynomial(path), std::move(name)); }};
}

}  // namespace mac
