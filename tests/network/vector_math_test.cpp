// The vector functions against the standard library in a wider format, on every instruction set of this
// machine.
#include "network/cpu/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "network/vector_math_test.cpp"
#include <hwy/foreach_target.h>

#include "network/cpu/vector_math-inl.hpp"

#ifndef MAC_TESTS_VECTOR_MATH_ONCE
#define MAC_TESTS_VECTOR_MATH_ONCE
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "network/dispatch_targets.hpp"

namespace mac {

/// What a table row applies; arguments are x, and for the decay and the turn also the rate a.
enum class Function { exp, sigmoid, softplus, slope_of_softplus, tanh, decay, turn_cosine, turn_sine };

}  // namespace mac
#endif

HWY_BEFORE_NAMESPACE();
namespace mac {
namespace HWY_NAMESPACE {

template <class T>
void apply(Function function, const T* x, const T* a, T* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes<T>) {
    const std::size_t n = std::min(kLanes<T>, count - i);
    const auto v = load_first(x + i, n);
    Vector<T> value = v;
    switch (function) {
      case Function::exp:
        value = exp_nonpositive<T>(v);
        break;
      case Function::sigmoid:
        value = sigmoid<T>(v);
        break;
      case Function::softplus:
        value = softplus<T>(v);
        break;
      case Function::slope_of_softplus:
        softplus<T>(v, value);
        break;
      case Function::tanh:
        value = tanh<T>(v);
        break;
      case Function::decay:
        value = decay<T>(v, load_first(a + i, n));
        break;
      case Function::turn_cosine:
      case Function::turn_sine: {
        Vector<T> cosine, sine;
        turn<T>(v, load_first(a + i, n), cosine, sine);
        value = function == Function::turn_cosine ? cosine : sine;
        break;
      }
    }
    store_first(value, y + i, n);
  }
}

void apply_float(Function f, const float* x, const float* a, float* y, std::size_t n) {
  apply(f, x, a, y, n);
}
void apply_double(Function f, const double* x, const double* a, double* y, std::size_t n) {
  apply(f, x, a, y, n);
}

float fold_float(const float* x) { return fold_lanes(Tag<float>(), hn::LoadU(Tag<float>(), x)); }
std::size_t lanes_float() { return kLanes<float>; }
bool is_fused() { return HWY_NATIVE_FMA; }

}  // namespace HWY_NAMESPACE
}  // namespace mac
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mac {
namespace {

HWY_EXPORT(apply_float);
HWY_EXPORT(apply_double);
HWY_EXPORT(fold_float);
HWY_EXPORT(lanes_float);
HWY_EXPORT(is_fused);

void apply(Function f, const float* x, const float* a, float* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(apply_float)(f, x, a, y, n);
}
void apply(Function f, const double* x, const double* a, double* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(apply_double)(f, x, a, y, n);
}

constexpr long double quarter_turn = std::numbers::pi_v<long double> / 2;

long double exact(Function function, long double x, long double a) {
  switch (function) {
    case Function::exp:
      return std::exp(x);
    case Function::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Function::softplus:
      return std::max(x, 0.0L) + std::log1p(std::exp(-std::abs(x)));
    case Function::slope_of_softplus:
      return 1 / (1 + std::exp(-x));
    case Function::tanh:
      return std::tanh(x);
    case Function::decay:
      return std::exp2(x * a);
    case Function::turn_cosine:
      return std::cos(x * a * quarter_turn);
    case Function::turn_sine:
      return std::sin(x * a * quarter_turn);
  }
  return 0;
}

/// |value − truth| in units of the last place of the truth; under the smallest normal number its last place.
template <class T>
double ulps(T value, long double truth) {
  const long double smallest = std::numeric_limits<T>::min();
  const int exponent = std::ilogb(std::max(std::abs(truth), smallest));
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits + 1);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / ulp);
}

/// The largest error over arguments spread evenly and over all magnitudes in [low, high].
template <class T>
double largest_error(Function function, T low, T high) {
  std::vector<T> x;
  for (int i = 0; i <= 200000; ++i) x.push_back(low + (high - low) * static_cast<T>(i) / 200000);
  for (T m = std::max(std::abs(low), std::abs(high)); m > T(1e-20); m *= T(0.9993))
    for (T signed_m : {m, -m})
      if (signed_m >= low && signed_m <= high) x.push_back(signed_m);
  std::vector<T> y(x.size());
  apply(function, x.data(), x.data(), y.data(), x.size());
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, ulps(y[i], exact(function, x[i], 0)));
  return largest;
}

struct Bound {
  Function function;
  double low, high;
  double ulp;  // as stated in vector_math-inl.hpp
};

const Bound bounds[] = {
    {Function::exp, -87.3, 0, 1.2},      {Function::sigmoid, -87, 100, 2.5},
    {Function::softplus, -87, 100, 3.5}, {Function::slope_of_softplus, -87, 100, 2.5},
    {Function::tanh, -30, 30, 3},
};

template <class T>
void check_bounds() {
  for (const Bound& bound : bounds) {
    const double error =
        largest_error<T>(bound.function, static_cast<T>(bound.low), static_cast<T>(bound.high));
    EXPECT_LE(error, bound.ulp) << "function " << static_cast<int>(bound.function);
  }
}

TEST(VectorMath, StaysWithinItsStatedErrors) {
  for_each_dispatch_target([] {
    check_bounds<float>();
    check_bounds<double>();
  });
}

// A state decays by e = exp(ΔA) at every step, so a bias of e near 1 would add up over a long memory: besides
// single results, the error is bounded relative to the decayed part 1 − e.
template <class T>
void check_decay() {
  const T rounding = std::numeric_limits<T>::epsilon();
  std::vector<T> delta, rate, value;
  for (T a : {T(-0.01), T(-1.4426950408889634), T(-5.77), T(-23.08), T(-300)})
    for (T step = T(30); step > T(1e-9); step *= T(0.997)) delta.push_back(step), rate.push_back(a);
  value.resize(delta.size());
  apply(Function::decay, delta.data(), rate.data(), value.data(), delta.size());
  double bias = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const long double exponent = static_cast<long double>(delta[i]) * rate[i];
    const long double truth = exact(Function::decay, delta[i], rate[i]);
    const double error = static_cast<double>(std::abs(value[i] - truth));
    const double allowed = (1.5 + 0.5 * static_cast<double>(std::abs(exponent))) * rounding;
    EXPECT_LE(error, allowed * static_cast<double>(truth) + 3 * std::numeric_limits<T>::min())
        << delta[i] << " " << rate[i];
    if (exponent > -0.01L) bias += static_cast<double>(value[i] - truth) / rounding;
  }
  EXPECT_LT(std::abs(bias) / static_cast<double>(delta.size()), 0.05);  // mean error in ulp: no drift
}

TEST(VectorMath, DecayIsAccurateAndUnbiasedNearOne) {
  for_each_dispatch_target([] {
    check_decay<float>();
    check_decay<double>();
  });
}

// Without fused multiply-adds the angle is rounded before it is reduced, which costs half of its last place.
// A number that turns all the time must keep its size: cos² + sin² is 1 to rounding, on the mean too, at every angle that a
// step can have, and both are exact where the angle is none.
template <class T>
void check_turn() {
  const T rounding = std::numeric_limits<T>::epsilon();
  std::vector<T> delta, rate;
  for (T r : {T(0.01), T(1), T(3.7), T(25)})
    for (T step = T(40); step > T(1e-9); step *= T(0.997)) delta.push_back(step), rate.push_back(r);
  std::vector<T> cosine(delta.size()), sine(delta.size());
  apply(Function::turn_cosine, delta.data(), rate.data(), cosine.data(), delta.size());
  apply(Function::turn_sine, delta.data(), rate.data(), sine.data(), delta.size());
  const bool fused = HWY_DYNAMIC_DISPATCH(is_fused)();
  long double drift = 0;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const long double of_cosine = cosine[i] - exact(Function::turn_cosine, delta[i], rate[i]),
                      of_sine = sine[i] - exact(Function::turn_sine, delta[i], rate[i]),
                      angle = quarter_turn * delta[i] * rate[i];
    EXPECT_LE(std::max(std::abs(of_cosine), std::abs(of_sine)), rounding * (0.75L + (fused ? 0 : angle / 2)))
        << delta[i] << " " << rate[i];
    const long double c = cosine[i], s = sine[i];
    drift += (c * c + s * s - 1) / rounding;
  }
  EXPECT_LT(std::abs(drift) / static_cast<long double>(delta.size()), 0.05);  // in ulp of 1
}

TEST(VectorMath, TurnIsAccurateAndKeepsLengths) {
  for_each_dispatch_target([] {
    check_turn<float>();
    check_turn<double>();
  });
}

template <class T>
T at(Function function, T x, T a = T(-1)) {
  T y = 0;
  apply(function, &x, &a, &y, 1);
  return y;
}

template <class T>
void check_limits() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  for (Function f :
       {Function::exp, Function::sigmoid, Function::softplus, Function::slope_of_softplus, Function::tanh})
    EXPECT_TRUE(std::isnan(at(f, nan))) << static_cast<int>(f);
  EXPECT_EQ(at(Function::exp, -infinity), 0);
  EXPECT_EQ(at(Function::exp, T(0)), 1);
  EXPECT_EQ(at(Function::exp, T(-1e30)), 0);
  EXPECT_EQ(at(Function::sigmoid, infinity), 1);
  EXPECT_EQ(at(Function::sigmoid, -infinity), 0);
  EXPECT_EQ(at(Function::sigmoid, T(0)), T(0.5));
  EXPECT_EQ(at(Function::softplus, infinity), infinity);
  EXPECT_EQ(at(Function::softplus, -infinity), 0);
  EXPECT_EQ(at(Function::tanh, infinity), 1);
  EXPECT_EQ(at(Function::tanh, -infinity), -1);
  EXPECT_FALSE(std::signbit(at(Function::tanh, T(0))));
  EXPECT_EQ(at(Function::decay, T(0)), 1);
  EXPECT_EQ(at(Function::decay, infinity), 0);
  EXPECT_EQ(at(Function::decay, T(1e30)), 0);
  for (const int quarters : {0, 1, 2, 3, 4, 5}) {
    EXPECT_EQ(at(Function::turn_cosine, static_cast<T>(quarters), T(1)),
              (std::array{1, 0, -1, 0})[static_cast<std::size_t>(quarters) % 4]);
    EXPECT_EQ(at(Function::turn_sine, static_cast<T>(quarters), T(1)),
              (std::array{0, 1, 0, -1})[static_cast<std::size_t>(quarters) % 4]);
  }
}

TEST(VectorMath, LimitsAndNanAreKept) {
  for_each_dispatch_target([] {
    check_limits<float>();
    check_limits<double>();
  });
}

TEST(VectorMath, LanesAreFoldedByHalves) {
  for_each_dispatch_target([] {
    const std::size_t lanes = HWY_DYNAMIC_DISPATCH(lanes_float)();
    std::vector<float> x(lanes);
    for (std::size_t i = 0; i < lanes; ++i) x[i] = 1.0f / static_cast<float>(3 * i + 1);
    const float folded = HWY_DYNAMIC_DISPATCH(fold_float)(x.data());
    for (std::size_t half = lanes / 2; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) x[i] += x[i + half];
    EXPECT_EQ(folded, x[0]);
  });
}

}  // namespace
}  // namespace mac
#endif  // HWY_ONCE
