#include <mac/error.hpp>
#include <mac/precision.hpp>

namespace mac {

Precision precision_from(std::string_view name) {
  for (const Precision precision : {Precision::float32, Precision::float64})
    if (to_string(precision) == name) return precision;
  throw UsageError("unknown precision \"{}\", expected float32 or float64", name);
}

}  // namespace mac
