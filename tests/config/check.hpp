#pragma once
// Helpers for tests of messages.

#include <functional>
#include <string>

#include "tessera/base/error.hpp"

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
