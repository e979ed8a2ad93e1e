// The functions of <cmath> for dual numbers, so that equations templated on the scalar may use all of them, as
// sin(x) or as std::sin(x). At a kink (abs at 0, min of equal numbers) the derivative is that of one side.
#pragma once

#include <cmath>
#include <mac/dual.hpp>
#include <numbers>

namespace mac {

namespace detail {

/// The derivative of lgamma: recurrence up to 6, then its asymptotic series.
MAC_HOST_DEVICE inline double digamma(double x) {
  if (x <= 0) {
    if (x == std::floor(x)) return std::nan("");
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * x);  // reflection
  }
  double sum = 0;
  for (; x < 10; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x -
         y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132)))));
}

}  // namespace detail

// f(x) with its derivative in terms of x and of f.
#define MAC_DUAL_FUNCTION(name, slope)             \
  template <std::size_t N>                         \
  MAC_HOST_DEVICE Dual<N> name(const Dual<N>& a) { \
    const double x = a.value, f = std::name(x);    \
    static_cast<void>(x);                          \
    return a.chain(f, slope);                      \
  }
MAC_DUAL_FUNCTION(exp, f)
MAC_DUAL_FUNCTION(exp2, f* std::numbers::ln2)
MAC_DUAL_FUNCTION(expm1, f + 1)
MAC_DUAL_FUNCTION(log, 1 / x)
MAC_DUAL_FUNCTION(log2, 1 / (x * std::numbers::ln2))
MAC_DUAL_FUNCTION(log10, 1 / (x * std::numbers::ln10))
MAC_DUAL_FUNCTION(log1p, 1 / (1 + x))
MAC_DUAL_FUNCTION(sqrt, 0.5 / f)
MAC_DUAL_FUNCTION(cbrt, 1 / (3 * f * f))
MAC_DUAL_FUNCTION(sin, std::cos(x))
MAC_DUAL_FUNCTION(cos, -std::sin(x))
MAC_DUAL_FUNCTION(tan, 1 + f * f)
MAC_DUAL_FUNCTION(asin, 1 / std::sqrt(1 - x * x))
MAC_DUAL_FUNCTION(acos, -1 / std::sqrt(1 - x * x))
MAC_DUAL_FUNCTION(atan, 1 / (1 + x * x))
MAC_DUAL_FUNCTION(sinh, std::cosh(x))
MAC_DUAL_FUNCTION(cosh, std::sinh(x))
MAC_DUAL_FUNCTION(tanh, 1 - f * f)
MAC_DUAL_FUNCTION(asinh, 1 / std::sqrt(x * x + 1))
MAC_DUAL_FUNCTION(acosh, 1 / std::sqrt(x * x - 1))
MAC_DUAL_FUNCTION(atanh, 1 / (1 - x * x))
MAC_DUAL_FUNCTION(erf, 2 * std::numbers::inv_sqrtpi * std::exp(-x * x))
MAC_DUAL_FUNCTION(erfc, -2 * std::numbers::inv_sqrtpi * std::exp(-x * x))
MAC_DUAL_FUNCTION(tgamma, f* detail::digamma(x))
MAC_DUAL_FUNCTION(lgamma, detail::digamma(x))
MAC_DUAL_FUNCTION(abs, x < 0 ? -1.0 : 1.0)
MAC_DUAL_FUNCTION(fabs, x < 0 ? -1.0 : 1.0)
MAC_DUAL_FUNCTION(ceil, 0)
MAC_DUAL_FUNCTION(floor, 0)
MAC_DUAL_FUNCTION(trunc, 0)
MAC_DUAL_FUNCTION(round, 0)
MAC_DUAL_FUNCTION(rint, 0)
MAC_DUAL_FUNCTION(nearbyint, 0)
MAC_DUAL_FUNCTION(logb, 0)
#undef MAC_DUAL_FUNCTION

// f(x, y) with both partial derivatives; a double counts as a constant.
#define MAC_DUAL_FUNCTION_OF_TWO(name, slope_x, slope_y)                  \
  template <std::size_t N>                                                \
  MAC_HOST_DEVICE Dual<N> name(const Dual<N>& a, const Dual<N>& b) {      \
    const double x = a.value, y = b.value, f = std::name(x, y);           \
    static_cast<void>(x), static_cast<void>(y), static_cast<void>(f);     \
    const double along_x = slope_x, along_y = slope_y;                    \
    Dual<N> result(f);                                                    \
    for (std::size_t i = 0; i < N; ++i) {                                 \
      /* an infinite slope of what does not vary counts for nothing */    \
      if (a.partial[i] != 0) result.partial[i] += along_x * a.partial[i]; \
      if (b.partial[i] != 0) result.partial[i] += along_y * b.partial[i]; \
    }                                                                     \
    return result;                                                        \
  }                                                                       \
  template <std::size_t N>                                                \
  MAC_HOST_DEVICE Dual<N> name(const Dual<N>& a, double b) {              \
    return name(a, Dual<N>(b));                                           \
  }                                                                       \
  template <std::size_t N>                                                \
  MAC_HOST_DEVICE Dual<N> name(double a, const Dual<N>& b) {              \
    return name(Dual<N>(a), b);                                           \
  }
MAC_DUAL_FUNCTION_OF_TWO(pow, y == 0 ? 0 : y * std::pow(x, y - 1), x > 0 ? f * std::log(x) : 0)
MAC_DUAL_FUNCTION_OF_TWO(atan2, y / (x * x + y * y), -x / (x * x + y * y))
MAC_DUAL_FUNCTION_OF_TWO(hypot, f > 0 ? x / f : 0, f > 0 ? y / f : 0)
MAC_DUAL_FUNCTION_OF_TWO(fmod, 1, -std::trunc(x / y))
MAC_DUAL_FUNCTION_OF_TWO(remainder, 1, -std::nearbyint(x / y))
MAC_DUAL_FUNCTION_OF_TWO(fdim, x > y ? 1 : 0, x > y ? -1 : 0)
MAC_DUAL_FUNCTION_OF_TWO(fmin, x <= y || std::isnan(y) ? 1 : 0, x <= y || std::isnan(y) ? 0 : 1)
MAC_DUAL_FUNCTION_OF_TWO(fmax, x >= y || std::isnan(y) ? 1 : 0, x >= y || std::isnan(y) ? 0 : 1)
MAC_DUAL_FUNCTION_OF_TWO(copysign, std::signbit(x) == std::signbit(y) ? 1 : -1, 0)
#undef MAC_DUAL_FUNCTION_OF_TWO

template <std::size_t N>
MAC_HOST_DEVICE Dual<N> pow(const Dual<N>& a, int n) {
  return pow(a, static_cast<double>(n));
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> hypot(const Dual<N>& a, const Dual<N>& b, const Dual<N>& c) {
  return hypot(hypot(a, b), c);
}
/// Rounded twice: as precise as the sum needs, not as the hardware's fma.
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> fma(const Dual<N>& a, const Dual<N>& b, const Dual<N>& c) {
  return a * b + c;
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> lerp(const Dual<N>& a, const Dual<N>& b, const Dual<N>& t) {
  return a + t * (b - a);
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> ldexp(const Dual<N>& a, int n) {
  return a.chain(std::ldexp(a.value, n), std::ldexp(1.0, n));
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> scalbn(const Dual<N>& a, int n) {
  return ldexp(a, n);
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> frexp(const Dual<N>& a, int* exponent) {
  const double fraction = std::frexp(a.value, exponent);
  return a.chain(fraction, std::ldexp(1.0, -*exponent));
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> modf(const Dual<N>& a, Dual<N>* whole) {
  *whole = trunc(a);
  return a - *whole;
}
template <std::size_t N>
MAC_HOST_DEVICE int ilogb(const Dual<N>& a) {
  return std::ilogb(a.value);
}
template <std::size_t N>
MAC_HOST_DEVICE long lround(const Dual<N>& a) {
  return std::lround(a.value);
}
template <std::size_t N>
MAC_HOST_DEVICE bool isfinite(const Dual<N>& a) {
  return std::isfinite(a.value);
}
template <std::size_t N>
MAC_HOST_DEVICE bool isinf(const Dual<N>& a) {
  return std::isinf(a.value);
}
template <std::size_t N>
MAC_HOST_DEVICE bool isnan(const Dual<N>& a) {
  return std::isnan(a.value);
}
template <std::size_t N>
MAC_HOST_DEVICE bool signbit(const Dual<N>& a) {
  return std::signbit(a.value);
}

// std::min and std::max take two duals as they are; here a dual and a number.
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> min(const Dual<N>& a, double b) {
  return b < a.value ? Dual<N>(b) : a;
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> min(double a, const Dual<N>& b) {
  return b.value < a ? b : Dual<N>(a);
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> max(const Dual<N>& a, double b) {
  return a.value < b ? Dual<N>(b) : a;
}
template <std::size_t N>
MAC_HOST_DEVICE Dual<N> max(double a, const Dual<N>& b) {
  return a < b.value ? b : Dual<N>(a);
}

}  // namespace mac

// The spelling that equations for double have.
namespace std {
using mac::abs, mac::acos, mac::acosh, mac::asin, mac::asinh, mac::atan, mac::atan2, mac::atanh, mac::cbrt;
using mac::ceil, mac::copysign, mac::cos, mac::cosh, mac::erf, mac::erfc, mac::exp, mac::exp2, mac::expm1;
using mac::fabs, mac::fdim, mac::floor, mac::fma, mac::fmax, mac::fmin, mac::fmod, mac::frexp, mac::hypot;
using mac::ilogb, mac::isfinite, mac::isinf, mac::isnan, mac::ldexp, mac::lerp, mac::lgamma, mac::log;
using mac::log10, mac::log1p, mac::log2, mac::logb, mac::lround, mac::max, mac::min, mac::modf,
    mac::nearbyint;
using mac::pow, mac::remainder, mac::rint, mac::round, mac::scalbn, mac::signbit, mac::sin, mac::sinh;
using mac::sqrt, mac::tan, mac::tanh, mac::tgamma, mac::trunc;
}  // namespace std
