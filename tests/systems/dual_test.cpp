// Dual numbers: their derivatives are those of the functions.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <mac/dual.hpp>

namespace mac {
namespace {

struct Case {
  const char* name;
  double low, high;  // where it is smooth
  double (*f)(double);
  Dual<2> (*dual)(const Dual<2>&);
};

#define MAC_CASE(expression, low, high)                                                                    \
  Case {                                                                                                   \
#expression, low, high, [](double x) -> double { return expression; }, [](const Dual <2>& x) -> Dual < \
                                                                                                        2> \
    { return expression; }                                                                                 \
  }

const Case cases[] = {
    MAC_CASE(std::exp(x), -3, 3),
    MAC_CASE(std::exp2(x), -3, 3),
    MAC_CASE(std::expm1(x), -3, 3),
    MAC_CASE(std::log(x), 0.1, 9),
    MAC_CASE(std::log2(x), 0.1, 9),
    MAC_CASE(std::log10(x), 0.1, 9),
    MAC_CASE(std::log1p(x), -0.9, 9),
    MAC_CASE(std::sqrt(x), 0.1, 9),
    MAC_CASE(std::cbrt(x), 0.1, 9),
    MAC_CASE(std::sin(x), -9, 9),
    MAC_CASE(std::cos(x), -9, 9),
    MAC_CASE(std::tan(x), -1.4, 1.4),
    MAC_CASE(std::asin(x), -0.9, 0.9),
    MAC_CASE(std::acos(x), -0.9, 0.9),
    MAC_CASE(std::atan(x), -9, 9),
    MAC_CASE(std::sinh(x), -3, 3),
    MAC_CASE(std::cosh(x), -3, 3),
    MAC_CASE(std::tanh(x), -3, 3),
    MAC_CASE(std::asinh(x), -3, 3),
    MAC_CASE(std::acosh(x), 1.2, 9),
    MAC_CASE(std::atanh(x), -0.9, 0.9),
    MAC_CASE(std::erf(x), -2, 2),
    MAC_CASE(std::erfc(x), -2, 2),
    MAC_CASE(std::tgamma(x), 0.2, 5),
    MAC_CASE(std::lgamma(x), 0.2, 30),
    MAC_CASE(std::lgamma(x), -1.9, -1.1),
    MAC_CASE(std::abs(x), -3, -0.1),
    MAC_CASE(std::fabs(x), 0.1, 3),
    MAC_CASE(std::floor(x) * x, 1.1, 1.9),
    MAC_CASE(std::ceil(x) + std::trunc(x) + std::round(x) + x, 1.1, 1.4),
    MAC_CASE(std::pow(x, 2.5), 0.1, 3),
    MAC_CASE(std::pow(x, 3), -3, 3),
    MAC_CASE(std::pow(2.0, x), -3, 3),
    MAC_CASE(std::pow(x, x), 0.1, 3),
    MAC_CASE(std::atan2(x, 2.0) * std::atan2(3.0, x) + std::atan2(x, x* x), 0.1, 3),
    MAC_CASE(std::hypot(x, 2.0) + std::hypot(x, x, x), 0.1, 3),
    MAC_CASE(std::fmod(x, 1.0) * std::fmod(7.5, x), 1.55, 1.85),
    MAC_CASE(std::remainder(x, 2.0), 0.1, 0.9),
    MAC_CASE(std::fdim(x, 1.0) * x, 1.1, 3),
    MAC_CASE(std::fmin(x, 2.0) * std::fmax(x, 1.0), 1.1, 1.9),
    MAC_CASE(std::min(x, 2.0) * std::max(x, 1.0) * std::max(x, x* x), 1.1, 1.9),
    MAC_CASE(std::copysign(x, -1.0) * x, 0.1, 3),
    MAC_CASE(std::fma(x, x, x) + std::lerp(x, x* x, x), 0.1, 3),
    MAC_CASE(std::ldexp(x, 3) + std::scalbn(x, -2), 0.1, 3),
    MAC_CASE((x > 1 ? x * x : 2 * x) / (1 + x) - +x, 0.1, 0.9),
    MAC_CASE((x > 1 ? x * x : 2 * x) / (1 + x) - +x, 1.1, 3),
};

TEST(Dual, HasTheDerivativesOfAllFunctions) {
  for (const Case& is : cases)
    EXPECT_TRUE(rc::check(is.name, [&] {
      const double x = is.low + (is.high - is.low) * *rc::gen::inRange(0, 1'000'000) / 1e6;
      Dual<2> at(x);
      at.partial[0] = 1;
      at.partial[1] = -2;
      const Dual<2> result = is.dual(at);
      const double h = 1e-5 * (1 + std::abs(x)), difference = (is.f(x + h) - is.f(x - h)) / (2 * h);
      RC_ASSERT(std::abs(result.value - is.f(x)) <= 4e-15 * (1 + std::abs(is.f(x))));
      // Central differences: h^2 f'''/6 and rounding/h.
      RC_ASSERT(std::abs(result.partial[0] - difference) < 1e-6 * (1 + std::abs(difference)));
      RC_ASSERT(std::abs(result.partial[1] + 2 * result.partial[0]) <= 1e-12 * (1 + std::abs(difference)));
    }));
}

TEST(Dual, IsComparedByItsValue) {
  Dual<1> a(1.0), b(2.0);
  a.partial[0] = 5;
  EXPECT_TRUE(a < b && a <= b && b > a && b >= a && a != b && !(a == b));
  EXPECT_TRUE(a == 1.0 && 1.0 == a && a < 1.5 && 0.5 < a);
  EXPECT_TRUE(std::isfinite(a) && !std::isnan(a) && !std::isinf(a) && !std::signbit(a));
  EXPECT_TRUE(std::isnan(std::sqrt(Dual<1>(-1.0))));
}

TEST(Dual, OfAConstantExponentMayHaveANegativeBase) {
  Dual<1> a(-2.0);
  a.partial[0] = 1;
  const Dual<1> cube = std::pow(a, 3.0);
  EXPECT_EQ(cube.value, -8);
  EXPECT_EQ(cube.partial[0], 12);
  EXPECT_EQ(std::pow(Dual<1>(0.0), 0.0).partial[0], 0);
}

TEST(Dual, SplitsIntoFractionAndExponent) {
  Dual<1> a(12.0);
  a.partial[0] = 1;
  int exponent = 0;
  const Dual<1> fraction = std::frexp(a, &exponent);
  EXPECT_EQ(fraction.value, 0.75);
  EXPECT_EQ(fraction.partial[0], 1.0 / 16);
  Dual<1> whole;
  const Dual<1> rest = std::modf(Dual<1>(2.5), &whole);
  EXPECT_EQ(rest.value, 0.5);
  EXPECT_EQ(whole.value, 2);
  EXPECT_EQ(std::lround(a), 12);
  EXPECT_EQ(std::ilogb(a), 3);
}

}  // namespace
}  // namespace mac
