#pragma once
// Environment variables of this process.

#include <cstdlib>
#include <string>

namespace tessera {

/// Returns the value; empty if the variable is not set.
inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the environment never changes
  return text != nullptr ? text : "";
}

}  // namespace tessera
