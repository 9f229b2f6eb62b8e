#pragma once
// Variables of this process.

#include <cstdlib>
#include <string>

namespace tessera {

/// Empty where the environment has none of this name.
inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  return text != nullptr ? text : "";
}

}  // namespace tessera
