// The functions of the language, as code made of equations calls them (device_code.hpp): on doubles and on dual numbers,
// with the values and slopes of the evaluator (graph.cpp, gradient.cpp).
#pragma once

#include <cmath>
#include <mac/dual.hpp>
#include <mac/host_device.hpp>

namespace mac::written {

using std::acos, std::asin, std::atan, std::atan2, std::cbrt, std::cos, std::cosh, std::exp, std::floor,
    std::log, std::log10, std::pow, std::sin, std::sinh, std::sqrt, std::tan, std::tanh;

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
