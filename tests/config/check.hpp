#pragma once
// Helpers for tests of messages.

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/config/options.hpp"

/// Returns the message of the UsageError that `work` throws; anything else than a UsageError with exit code 2 escapes
/// or gives "".
inline std::string usage_message(const std::function<void()>& work) {
  try {
    work();
  } catch (const tessera::UsageError& error) {
    return error.code() == tessera::ExitCode::usage ? error.what() : "";
  }
  return "";
}

/// Returns the message with which arguments are refused; "" if they are not.
inline std::string error_of(const std::vector<std::string>& words) {
  return usage_message([&] { tessera::parse_arguments(words); });
}
