// The functions of the language, as code made of equations calls them (device_code.hpp): on doubles and on dual numbers,
// with the values and slopes of the evaluator (graph.cpp, gradient.cpp).
#pragma once

#include <cmath>
#include <mac/dual.hpp>
#include <mac/host_device.hpp>

namespace mac::written {

// Those of <cmath> and mac/dual_math.hpp, compiled in their places or called.
#define MAC_FUNCTION(name, parameters, arguments)                    \
  namespace inlined {                                                \
  template <class Scalar>                                            \
  MAC_HOST_DEVICE Scalar name parameters {                           \
    using std::name;                                                 \
    return name arguments;                                           \
  }                                                                  \
  }                                                                  \
  namespace called {                                                 \
  template <class Scalar>                                            \
  __attribute__((noinline)) MAC_HOST_DEVICE Scalar name parameters { \
    return inlined::name<Scalar> arguments;                          \
  }                                                                  \
  }
#define MAC_FUNCTION_OF_ONE(name) MAC_FUNCTION(name, (const Scalar& a), (a))
#define MAC_FUNCTION_OF_TWO(name) MAC_FUNCTION(name, (const Scalar& a, const Scalar& b), (a, b))
MAC_FUNCTION_OF_ONE(exp)
MAC_FUNCTION_OF_ONE(log)
MAC_FUNCTION_OF_ONE(log10)
MAC_FUNCTION_OF_ONE(sqrt)
MAC_FUNCTION_OF_ONE(cbrt)
MAC_FUNCTION_OF_ONE(sin)
MAC_FUNCTION_OF_ONE(cos)
MAC_FUNCTION_OF_ONE(tan)
MAC_FUNCTION_OF_ONE(asin)
MAC_FUNCTION_OF_ONE(acos)
MAC_FUNCTION_OF_ONE(atan)
MAC_FUNCTION_OF_ONE(sinh)
MAC_FUNCTION_OF_ONE(cosh)
MAC_FUNCTION_OF_ONE(tanh)
MAC_FUNCTION_OF_ONE(floor)
MAC_FUNCTION_OF_TWO(pow)
MAC_FUNCTION_OF_TWO(atan2)
#undef MAC_FUNCTION_OF_TWO
#undef MAC_FUNCTION_OF_ONE
#undef MAC_FUNCTION

template <class Scalar>
MAC_HOST_DEVICE bool is_nan(const Scalar& a) {
  return !(a == a);
}
template <class Scalar>
MAC_HOST_DEVICE Scalar absolute(const Scalar& a) {
  const Scalar zero = 0.0;
  return a < zero ? -a : a > zero ? a : a * 0.0;  // flat at 0, and NaN stays NaN
}
template <class Scalar>
MAC_HOST_DEVICE Scalar sign(const Scalar& a) {
  const Scalar zero = 0.0;
  return a > zero ? Scalar(1.0) : a < zero ? Scalar(-1.0) : a * 0.0;
}
template <class Scalar>
MAC_HOST_DEVICE Scalar least(const Scalar& a, const Scalar& b) {
  return b < a || is_nan(b) ? b : a;
}
template <class Scalar>
MAC_HOST_DEVICE Scalar greatest(const Scalar& a, const Scalar& b) {
  return b > a || is_nan(b) ? b : a;
}
template <class Scalar>
MAC_HOST_DEVICE Scalar truth(bool holds) {
  return holds ? 1.0 : 0.0;
}
template <class Scalar>
MAC_HOST_DEVICE Scalar choose(const Scalar& condition, const Scalar& yes, const Scalar& no) {
  return condition != Scalar(0.0) ? yes : no;
}

}  // namespace mac::written
