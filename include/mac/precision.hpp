// The scalar that a network computes in: one type and one spelling, "float32" or "float64", for the command
// line, experiments, Python and C++. (What a file stores is a Dtype, mac/safetensors.hpp.)
#pragma once

#include <string_view>

namespace mac {

enum class Precision { float32, float64 };

constexpr std::string_view to_string(Precision precision) {
  return precision == Precision::float32 ? "float32" : "float64";
}
Precision precision_from(std::string_view name);  // throws UsageError

template <class T>
inline constexpr Precision precision_of = sizeof(T) == sizeof(double) ? Precision::float64
                                                                      : Precision::float32;

}  // namespace mac
