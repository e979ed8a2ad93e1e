// Errors a user can act on: one sentence that says what was wrong, where, and what was expected.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace mac {

/// Something failed while the request itself was sound: a file cannot be read, a solver blew up. Exit code 1.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence) : std::runtime_error(sentence) {}

  template <class... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

/// The request was wrong: a flag, an experiment file, a combination that cannot be. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

}  // namespace mac
