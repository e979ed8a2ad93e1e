#include <mac/error.hpp>
#include <mac/hold.hpp>

namespace mac {

std::string_view to_string(Hold hold) {
  switch (hold) {
    case Hold::zero:
      return "zero";
    case Hold::linear:
      return "linear";
    case Hold::stage:
      return "stage";
  }
  return "";
}

Hold hold_from(std::string_view name) {
  for (const Hold hold : {Hold::zero, Hold::linear, Hold::stage})
    if (to_string(hold) == name) return hold;
  throw UsageError("unknown hold \"{}\", expected zero, linear or stage", name);
}

std::string_view to_string(Target target) { return target == Target::instant ? "instant" : "mean"; }

Target target_from(std::string_view name) {
  for (const Target target : {Target::instant, Target::mean})
    if (to_string(target) == name) return target;
  throw UsageError("unknown closure target \"{}\", expected instant or mean", name);
}

}  // namespace mac
