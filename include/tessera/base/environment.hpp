#pragma once
// The surroundings of this process: environment variables, and the host.

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace tessera {

/// Returns the value; empty if the variable is not set.
inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the environment never changes
  return text != nullptr ? text : "";
}

/// Returns "node1.cluster", as the kernel says.
inline std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace tessera
