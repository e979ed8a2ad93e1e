#include "systems/fourier.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <mac/random.hpp>
#include <numbers>

#include "integrators/simd.hpp"

namespace mac {

namespace {

MAC_VECTOR_CLONES
void square(std::size_t n, double* __restrict u) {
  for (std::size_t j = 0; j < n; ++j) u[j] = u[j] * u[j];
}

/// n_k = -ik scale s_k. k goes through an int because AVX2 converts no wider ones.
MAC_VECTOR_CLONES
void differentiate(std::size_t modes, double scale, const double* __restrict s, double* __restrict n) {
  for (std::size_t k = 0; k < modes; ++k) {
    const double factor = scale * static_cast<double>(static_cast<int>(k));
    n[2 * k] = factor * s[2 * k + 1];
    n[2 * k + 1] = -factor * s[2 * k];
  }
}

/// phi_k, psi_k uniform in (-scale e^-k, scale e^-k); the other modes zero.
class UniformModes final : public InitialCondition {
 public:
  UniformModes(std::size_t modes, double scale) : modes_(modes), scale_(scale) {}

  void sample(std::size_t /*index*/, RandomStream& random, std::span<double> theta) const override {
    std::fill(theta.begin(), theta.end(), 0.0);
    for (std::size_t k = 1; k <= modes_; ++k) {
      const double bound = scale_ * std::exp(-static_cast<double>(k));
      theta[2 * k] = random.uniform(-bound, bound);
      theta[2 * k + 1] = random.uniform(-bound, bound);
    }
  }

 private:
  std::size_t modes_;
  double scale_;
};

/// Given fields, projected on the resolved modes without the mean.
class Fields final : public InitialCondition {
 public:
  Fields(std::size_t modes, std::vector<std::string> fields) : modes_(modes), fields_(std::move(fields)) {}

  static const std::vector<std::string>& known() {
    static const std::vector<std::string> names{"sin", "exp_sin"};
    return names;
  }

  void sample(std::size_t index, RandomStream& /*random*/, std::span<double> theta) const override {
    std::fill(theta.begin(), theta.end(), 0.0);
    if (fields_.at(index) == "sin") {
      theta[3] = -0.5;  // sin x = (e^{ix} - e^{-ix}) / 2i
      return;
    }
    // e^{sin x} = sum_k I_k(1) e^{ik(x - pi/2)}
    for (std::size_t k = 1; k <= modes_; ++k) {
      const double bessel = std::cyl_bessel_i(static_cast<double>(k), 1.0);
      const std::size_t quarter = k % 4;  // (-i)^k
      theta[2 * k] = quarter == 0 ? bessel : quarter == 2 ? -bessel : 0.0;
      theta[2 * k + 1] = quarter == 3 ? bessel : quarter == 1 ? -bessel : 0.0;
    }
  }
  std::optional<std::size_t> count() const override { return fields_.size(); }
  std::string label(std::size_t index) const override {
    return fields_.at(index) == "sin" ? "sin x" : "projected exp(sin x)";
  }

 private:
  std::size_t modes_;
  std::vector<std::string> fields_;
};

}  // namespace

void closure_rate(std::size_t modes, std::size_t highest, double wavenumber, const double* theta,
                  const double* full_rate, double* rate) {
  for (std::size_t j = 1; j <= modes; ++j) {
    double re = 0, im = 0;  // of sum_{p>M} theta_p conj(R_{p-j}) + R_p conj(theta_{p-j})
    for (std::size_t p = modes + 1; p <= highest; ++p) {
      const double *a = theta + 2 * p, *b = full_rate + 2 * (p - j);
      const double *c = full_rate + 2 * p, *d = theta + 2 * (p - j);
      re += a[0] * b[0] + a[1] * b[1] + (c[0] * d[0] + c[1] * d[1]);
      im += a[1] * b[0] - a[0] * b[1] + (c[1] * d[0] - c[0] * d[1]);
    }
    const double jq = static_cast<double>(j) * wavenumber;
    rate[j - 1] = jq * im;
    rate[modes + j - 1] = -jq * re;
  }
}

QuadraticTerm::QuadraticTerm(std::size_t grid, std::size_t modes, double wavenumber)
    : modes_(modes), wavenumber_(wavenumber), fft_(grid), resolved_(2 * modes), square_(2 * modes) {}

void QuadraticTerm::operator()(const double* theta, double* n, double* closure) {
  const std::size_t points = fft_.points(), nyquist = points / 2;
  std::memcpy(fft_.modes(), theta, 2 * (nyquist + 1) * sizeof(double));
  fft_.to_grid();
  square(points, fft_.grid());
  fft_.to_modes();
  const double* const s = fft_.modes();  // Nx times the convolution
  const double scale = 1 / static_cast<double>(points);
  differentiate(nyquist + 1, scale / 2 * wavenumber_, s, n);
  n[2 * nyquist] = n[2 * nyquist + 1] = 0;  // an odd derivative of the Nyquist mode is not a real field

  gather_modes(modes_, theta, resolved_.data());
  truncated_square(modes_, resolved_.data(), resolved_.data() + modes_, square_.data(),
                   square_.data() + modes_);
  for (std::size_t k = 1; k <= modes_; ++k) {
    const double half = 0.5 * static_cast<double>(k) * wavenumber_;
    closure[k - 1] = half * (scale * s[2 * k + 1] - square_[modes_ + k - 1]);
    closure[modes_ + k - 1] = -half * (scale * s[2 * k] - square_[k - 1]);
  }
}

FourierSystem::FourierSystem(const ConfigTable& table, double wavenumber) : wavenumber_(wavenumber) {
  modes_ = static_cast<std::size_t>(table.integer_or("modes", 3, 1, 256));
  grid_ = static_cast<std::size_t>(table.integer_or("grid", 1024, 8, 1 << 20));
  if (grid_ % 2 != 0) table.fail("grid", "the number of grid points must be even");
  if (grid_ < 4 * modes_ + 2)
    table.fail("grid", fmt::format("{} modes need at least {} grid points", modes_, 4 * modes_ + 2));
  lambda_.resize(grid_ / 2 + 1);
  for (const char* part : {"phi", "psi"}) {
    for (std::size_t k = 1; k <= modes_; ++k) {
      closure_targets_.push_back(resolved_names_.size());
      resolved_names_.push_back(fmt::format("{}{}", part, k));
      closure_names_.push_back(fmt::format("m{}_{}", k, part));
    }
  }
}

std::optional<ReducedEquations> FourierSystem::reduced_equations() const {
  if (modes_ > FourierModes::most) return std::nullopt;
  FourierModes equations{};
  equations.wavenumber = wavenumber_;
  std::copy_n(lambda(), 2 * (modes_ + 1), equations.lambda);
  return ReducedEquations{equations};
}

std::vector<double> FourierSystem::linear_part() const {
  const std::size_t d = 2 * modes_;
  std::vector<double> l(d * d);
  for (std::size_t k = 0; k < modes_; ++k) {
    const std::size_t phi = k, psi = modes_ + k;
    l[phi * d + phi] = l[psi * d + psi] = lambda_[k + 1].real();
    l[phi * d + psi] = -lambda_[k + 1].imag();
    l[psi * d + phi] = lambda_[k + 1].imag();
  }
  return l;
}

std::unique_ptr<InitialCondition> FourierSystem::initial_condition(const ConfigTable* initial) const {
  if (!initial || initial->choice("kind", {"uniform", "fields"}) == "uniform")
    return std::make_unique<UniformModes>(modes_,
                                          initial ? initial->number_or("scale", 1, non_negative) : 1.0);
  auto fields = initial->strings("fields");
  if (fields.empty()) initial->fail("fields", "expected at least one field");
  for (const auto& field : fields) {
    const auto& known = Fields::known();
    if (std::find(known.begin(), known.end(), field) == known.end())
      initial->fail("fields",
                    fmt::format("no field is called '{}'; there are {}", field, fmt::join(known, ", ")));
  }
  return std::make_unique<Fields>(modes_, std::move(fields));
}

std::vector<Diagnostic> FourierSystem::diagnostics(std::span<const double> theta) const {
  // int u^2 dx = L (theta_0^2 + 2 sum_k |theta_k|^2)
  double sum = 0;
  for (std::size_t i = 2; i < theta.size(); ++i) sum += theta[i] * theta[i];
  const double length = 2 * std::numbers::pi / wavenumber_;
  return {{"mass", length * theta[0], true}, {"energy", length * (theta[0] * theta[0] / 2 + sum), false}};
}

}  // namespace mac
