// Burgers' equation u_t = -(u^2/2)_x + nu u_xx on [0, 2 pi), nu = 0.1, reduced to the Fourier modes 1..3:
//
//   d theta_k/dt = -ik/2 sum_{p+q=k, |p|,|q|<=3} theta_p theta_q - nu k^2 theta_k + C_k
//
// with theta = phi + i psi, from u = sin x to t = 2 by classical RK4, once without the closure C and once
// with the one in the model file, against the exact solution (Cole-Hopf).
#include <cmath>
#include <complex>
#include <cstdio>
#include <mac/runtime.hpp>

namespace {

constexpr int modes = 3;
constexpr double nu = 0.1;

/// The reduced right-hand side; y = phi_1..phi_3 psi_1..psi_3.
void reduced_rhs(std::span<const double> y, std::span<double> dydt) {
  using Complex = std::complex<double>;
  const auto theta = [&](int k) {
    if (k == 0 || std::abs(k) > modes) return Complex(0);
    const auto at = static_cast<std::size_t>(std::abs(k) - 1);
    return Complex(y[at], k > 0 ? y[at + modes] : -y[at + modes]);
  };
  for (int k = 1; k <= modes; ++k) {
    Complex square = 0;
    for (int p = -modes; p <= modes; ++p) square += theta(p) * theta(k - p);
    const Complex rate = Complex(0, -0.5 * k) * square - nu * k * k * theta(k);
    dydt[static_cast<std::size_t>(k - 1)] = rate.real();
    dydt[static_cast<std::size_t>(k - 1 + modes)] = rate.imag();
  }
}

/// The same step without a closure.
void markov_step(double dt, std::vector<double>& y) {
  std::vector<double> stage(y), rates(4 * y.size());
  const auto rate = [&](std::size_t i) { return std::span(rates).subspan(i * y.size(), y.size()); };
  for (std::size_t i = 0; i < 4; ++i) {
    mac::held_rk4::stage_state(i, y.size(), dt, y.data(), i == 0 ? nullptr : rate(i - 1).data(),
                               stage.data());
    reduced_rhs(stage, rate(i));
  }
  mac::held_rk4::finish(y.size(), dt, {rate(0).data(), rate(1).data(), rate(2).data(), rate(3).data()},
                        y.data());
}

/// sqrt of the integral of (u - v)^2 over [0, 2 pi)
double distance(const std::vector<double>& u, const std::vector<double>& v) {
  double sum = 0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += (u[i] - v[i]) * (u[i] - v[i]);
  return std::sqrt(4 * M_PI * sum);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: solver MODEL.safetensors");
  const mac::runtime::Model model(argv[1]);
  if (model.system() != "burgers" || model.inputs() != 2 * modes)
    throw std::runtime_error(std::string(argv[1]) +
                             ": is not a closure for three modes of Burgers' equation");
  const double dt = model.closure_step().value();
  mac::runtime::CoupledStepper stepper(model, dt, reduced_rhs);

  const std::vector<double> exact = {0, 0, 0, -.304412205592, .133339182190, -.077504488554};  // at t = 2
  std::vector<double> y = {0, 0, 0, -.5, 0, 0}, markov = y;                                    // sin x
  const auto steps = std::lround(2 / dt);
  for (long n = 0; n < steps; ++n) {
    stepper.step(y);
    markov_step(dt, markov);
  }

  std::printf("t = 2        exact   without closure      with closure\n");
  for (std::size_t i = modes; i < 2 * modes; ++i)
    std::printf("%s %11.6f %17.6f %17.6f\n", model.input_name(i).c_str(), exact[i], markov[i], y[i]);
  const double without = distance(markov, exact), with = distance(y, exact);
  std::printf("L2 error %21.6f %17.6f, %.1f times %s\n", without, with,
              std::max(without / with, with / without), with < without ? "smaller" : "larger");
} catch (const std::exception& error) {
  std::fprintf(stderr, "solver: %s\n", error.what());
  return 1;
}
