#pragma once
// `tessera train`.

#include <chrono>
#include <string>
#include <vector>

#include "tessera/comm/world.hpp"
#include "tessera/config/options.hpp"

namespace tessera {

/// How the process was started.
struct Invocation {
  std::vector<std::string> words;  ///< argv
  std::chrono::steady_clock::time_point start;
  double unix_start = 0;  ///< seconds since 1970
};

/// Trains as the options say; what they leave open a resumed run takes from its checkpoint. Collective. Returns the
/// exit code; errors are exceptions.
int run_train(World& world, const Options& given, const Invocation& invocation);

}  // namespace tessera
