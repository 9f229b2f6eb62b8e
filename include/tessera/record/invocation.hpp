#pragma once
// How the process was started, for provenance and the time to the first step.

#include <chrono>
#include <string>
#include <vector>

namespace tessera {

/// How the process was started.
struct Invocation {
  std::vector<std::string> words;  ///< argv
  std::chrono::steady_clock::time_point start;
  double unix_start = 0;  ///< seconds since 1970
};

}  // namespace tessera
