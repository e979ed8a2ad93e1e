#pragma once

#include <string>

namespace mac {

/// How many times, to three digits: "1.85", "54", "139,000".
std::string factor_text(double factor);

}  // namespace mac
