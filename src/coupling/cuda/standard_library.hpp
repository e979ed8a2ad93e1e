// What the headers of the kernels name of the standard library, for a compiler at run time that does not have it: the few
// things that kernels compute with, and declarations of what only the host's functions use, which nobody calls there.
#pragma once

using uint8_t = unsigned char;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

namespace std {

using ::int32_t, ::int64_t, ::ptrdiff_t, ::size_t, ::uint32_t, ::uint64_t, ::uint8_t;

// ---- what kernels compute with

using ::abs, ::isfinite, ::isinf, ::isnan, ::signbit;
using ::acos, ::acosh, ::asin, ::asinh, ::atan, ::atan2, ::atanh, ::cbrt, ::ceil, ::copysign, ::cos, ::cosh,
    ::erf, ::erfc, ::exp, ::exp2, ::expm1, ::fabs, ::fdim, ::floor, ::fma, ::fmax, ::fmin, ::fmod, ::frexp,
    ::hypot, ::ldexp, ::lgamma, ::log, ::log10, ::log1p, ::log2, ::logb, ::modf, ::nan, ::nearbyint, ::pow,
    ::remainder, ::rint, ::round, ::scalbn, ::sin, ::sinh, ::sqrt, ::tan, ::tanh, ::tgamma, ::trunc;

namespace numbers {
inline constexpr double pi = 3.141592653589793, ln2 = 0.6931471805599453, ln10 = 2.302585092994046,
                        inv_sqrtpi = 0.5641895835477563;
}

template <class T, T VALUE>
struct integral_constant {
  static constexpr T value = VALUE;
  __host__ __device__ constexpr operator T() const { return VALUE; }
  __host__ __device__ constexpr T operator()() const { return VALUE; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <class T>
__host__ __device__ constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}

// ---- what only declarations and the host's functions name

struct string {};
struct string_view {};
struct nullopt_t {};
inline constexpr nullopt_t nullopt{};
template <class T>
struct optional {
  optional(nullopt_t);
  template <class U>
  optional(const U&);
};
template <class T>
struct vector {
  vector();
  explicit vector(size_t);
  size_t size() const;
  void resize(size_t);
  T *data(), *begin(), *end();
  const T *data() const, *begin() const, *end() const;
  T& operator[](size_t);
  const T& operator[](size_t) const;
};
template <class T>
struct span {
  template <class U>
  span(const vector<U>&);
  size_t size() const;
  T& operator[](size_t) const;
};
template <class T>
struct unique_ptr {};

}  // namespace std

namespace mac::cuda {
using ::max, ::min;  // which those of dual numbers in mac would hide
}
