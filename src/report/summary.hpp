// The top of the page: what was found, in a sentence, a table and a warning.
#pragma once

#include <mac/evaluation.hpp>
#include <string>

#include "report/html.hpp"

namespace mac::report {

/// The best closure and how much better than none it is; all models at a glance; where the best gains least; the verdict on
/// each model with its warnings.
Section verdict_section(const Evaluation& evaluation);

/// Mean error of every model over the longest interval of each split, over the error without closure; blow-ups, if
/// there are any.
Table overview(const Evaluation& evaluation);

/// "mac gains least in phi1 out of distribution over [0,20]: ..."; empty where there is no run without closure.
std::string least_gain(const Evaluation& evaluation, const std::string& model);

/// "7.7 s", "3 min 46 s", "2 h 05 min"
std::string duration(double seconds);

}  // namespace mac::report
