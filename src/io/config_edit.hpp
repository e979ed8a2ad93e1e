// Another value for a key of an experiment, as mac sweep needs it.
#pragma once

#include <string>

namespace mac {

/// The TOML text with `key` ("training.noise", "models.mac.d_model", where mac is the name of an entry of [[models]]) set
/// to `value`, which is TOML, or else taken as text. Tables on the way are made where they are missing; UsageError,
/// naming `file` and key, where one of them is no table.
std::string with_value(const std::string& text, const std::string& file, const std::string& key,
                       const std::string& value);

}  // namespace mac
