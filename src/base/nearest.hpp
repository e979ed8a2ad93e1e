// "Did you mean ...?" for keys, choices and names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mac {

/// "; did you mean \"viscosity\"?" if one of the candidates is close enough to what was written, else empty.
std::string suggestion(std::string_view written, const std::vector<std::string>& candidates);

}  // namespace mac
