#include <gtest/gtest.h>

#include <complex>

#include "systems/make.hpp"
#include "systems/real_fft.hpp"

namespace mac {
namespace {

using namespace test;

TEST(Kdv, ReproducesTheCheckValuesOfSinX) {
  const auto system = make("name = 'kdv'\ngrid = 256");
  const auto solver = system->make_solver(1e-4);
  solver->start(sin_x(*system));
  std::vector<double> y(6);
  for (int i = 0; i < 10000; ++i) solver->step();
  solver->resolved(y);
  const std::vector<double> at_1{.003082684643,  -.005433290023, .007784098512,
                                 -.440077881366, .176564881459,  -.103362791489};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[i], at_1[i], 1e-11) << system->resolved_names()[i];
  for (int i = 0; i < 10000; ++i) solver->step();
  solver->resolved(y);
  EXPECT_NEAR(y[0], -.014968403754, 1e-11);
  EXPECT_NEAR(y[3], -.295425824085, 1e-11);
}

TEST(Kdv, ConservesMassEnergyAndHamiltonian) {
  const auto system = make("name = 'kdv'\ngrid = 256");
  const auto start = sample(*system, *system->initial_condition(nullptr), 5);
  const auto before = system->diagnostics(start);
  const auto after = system->diagnostics(advance(*system, start, 1e-4, 20000));
  ASSERT_EQ(before.size(), 3u);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(before[i].conserved);
    // Energy drift measured with an independent solver: 2e-12 to t = 2.
    EXPECT_NEAR(after[i].value, before[i].value, 1e-11 * (1 + std::abs(before[i].value))) << before[i].name;
  }
}

TEST(Kdv, ConvergesAtFourthOrder) {
  const auto system = make("name = 'kdv'\ngrid = 64");
  const auto start = sin_x(*system);
  const auto exact = advance(*system, start, 1e-3 / 4, 4000);
  EXPECT_NEAR(measured_order(*system, start, exact, 5e-3, 200), 4, 0.1);  // next-order term, as for Burgers
}

TEST(Kdv, IsStableOnThePapersGrid) {
  // delta^2 512^3 dt = 134, fifty times what explicit RK4 allows.
  const auto coarse = make("name = 'kdv'\ngrid = 256"), fine = make("name = 'kdv'\ngrid = 1024");
  const auto a = advance(*coarse, sin_x(*coarse), 1e-4, 3000), b = advance(*fine, sin_x(*fine), 1e-4, 3000);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(a[i], b[i], 1e-14);  // rounding
}

// cn(u | m) by the arithmetic–geometric mean.
double jacobi_cn(double u, double m) {
  std::vector<double> a{1}, c{std::sqrt(m)};
  double b = std::sqrt(1 - m);
  while (c.back() > 1e-17) {
    const double mean = (a.back() + b) / 2;
    c.push_back((a.back() - b) / 2);
    b = std::sqrt(a.back() * b);
    a.push_back(mean);
    if (a.size() > 12) break;
  }
  const std::size_t n = a.size() - 1;
  double phi = std::ldexp(a[n] * u, static_cast<int>(n));
  for (std::size_t i = n; i > 0; --i) phi = (phi + std::asin(c[i] / a[i] * std::sin(phi))) / 2;
  return std::cos(phi);
}

TEST(Kdv, CarriesACnoidalWaveUnchanged) {
  // u = u2 + (u3 - u2) cn^2(w (x - c t) | m), w = sqrt((u3 - u1) / 12 delta^2), one wave in 2 pi:
  // w = K(m)/pi, and u1 from the vanishing mean.
  const double delta = 0.1, m = 0.99, quarter = std::comp_ellint_1(std::sqrt(m)), w = quarter / M_PI;
  const double span = 12 * delta * delta * w * w;  // u3 - u1
  const double height = m * span;                  // u3 - u2
  const double u2 = -height * (std::comp_ellint_2(std::sqrt(m)) / quarter - (1 - m)) / m;
  const double u3 = u2 + height, u1 = u3 - span, speed = (u1 + u2 + u3) / 3;
  const auto system = make("name = 'kdv'\ngrid = 256");
  const auto wave = [&](double t) {
    RealFft fft(256);
    for (int j = 0; j < 256; ++j) {
      const double cn = jacobi_cn(w * (2 * M_PI * j / 256 - speed * t), m);
      fft.grid()[j] = (u2 + height * cn * cn) / 256;
    }
    fft.to_modes();
    std::vector<double> theta(fft.modes(), fft.modes() + 258);
    EXPECT_NEAR(theta[0], 0, 1e-14);
    theta[0] = theta[256] = 0;
    return theta;
  };
  const auto computed = advance(*system, wave(0), 1e-4, 20000), exact = wave(2);
  for (std::size_t i = 0; i < computed.size(); ++i)
    EXPECT_NEAR(computed[i], exact[i], 1e-11) << i;  // measured 5e-13
}

}  // namespace
}  // namespace mac
